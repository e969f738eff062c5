"""The dashboard's cache: reads of runs, studies, models, tasks and devices, and the worker's answers.

Nothing is computed here. The key of a cached value identifies its content, not the arguments of the function: the
folder and completion time of a finished run or study, the modification times of the files of a list, the source files
of other values. Some values expire after seconds instead. Values that belong to one store are cached by store: a
visitor never gets a value that was read for another, and shared values are read once.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import pandas as pd
import streamlit as st
import yaml

from skillviz.analysis import known_truth as hidden_skills
from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput, SkillvizError, StoreError, visible
from skillviz.jobs.devices import Device
from skillviz.jobs.devices import devices as devices_now
from skillviz.live.client import Client
from skillviz.models import preflight as headers
from skillviz.models.examples import ExamplePair, example_pairs, table_file, tasks_folder
from skillviz.models.local_models import LocalModels, find_models, roots
from skillviz.models.preflight import Preflight
from skillviz.runs import store as libraries
from skillviz.runs.memory import Facts, facts_of
from skillviz.runs.packed import stamp as packed_stamp
from skillviz.runs.plan import planned
from skillviz.runs.record import RunRecord
from skillviz.runs.run import RECORD as RUN_FILE
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Library, Store, Unfinished, Unreadable
from skillviz.runs.texts import example_columns, example_texts
from skillviz.serving import sign_in
from skillviz.serving.downloads import Tab
from skillviz.show.briefs import Briefs, RunBrief, brief_of
from skillviz.studies.paper import request
from skillviz.studies.paper.claims import Verdict
from skillviz.studies.paper.experiments import verdicts
from skillviz.studies.paper.request import refuse_wrong
from skillviz.studies.paper.setting import SettingRow
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import FILE, StudyFolder, list_studies, studies_in, study_folders, unreadable_studies
from skillviz.studies.store import RECORD as STUDY_RECORD
from skillviz.studies.subject import Subject, subject
from skillviz.studies.time_left import Preview, preview
from skillviz.tasks import registry, uploaded
from skillviz.tasks.project import expanded, located, project_root
from skillviz.tasks.splits import load_test
from skillviz.tasks.task import Files, Task
from skillviz.tasks.uploaded import Upload, UploadedRows
from skillviz.tasks.user_file import data_files, task_stamp
from skillviz.ui import script

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
Stamp = tuple[tuple[str, int], ...]  # files with their modification times: equal stamps, equal content

STORES = 256  # stores of users whose values are kept; enough for a class of 200
TABLE_READS = 256  # tables of the open run
LARGE_REGION = 2**22  # entries: 32 MiB of indices
TEXTS = 16  # splits whose texts are kept, some hundred kilobytes each
TEXTS_SECONDS = 600  # notes on texts are requested again after this time, in case reading failed
SCAN_SECONDS = 5
TASK_FOLDERS = ("benchmarks/tasks", registry.EXAMPLE_TASKS)
HUB_SECONDS = 600  # data that could not be downloaded from a hub are requested again after this time
ANSWERS = 64  # answers of the worker, so that a rerun of a page requests none twice
DEVICE_SECONDS, LOCAL_MODELS_SECONDS = 10, 30
PAIR = "pair"  # the key of the notes on a pair, beside one key per split
DATA_READ = 2  # data sets whose rows are kept for a form
COMPUTED = 512  # tables and sentences that pages derive from stored tables; enough for about thirty runs
TABLES = 64  # tables of studies kept in memory
PREVIEW_SECONDS = 60  # a new fine-tuned model changes no run.json or study.json
REFUSAL_SECONDS = 60  # a model's folder can change without a new run

copied: Any = st.cache_data
"""The cache that gives each page its own copy; changes to it affect no other page."""
shared: Any = st.cache_resource
"""The cache that gives all pages the same value, which none may change.

Tables are copied for each page, because pandas keeps hundreds of references to past column views of a table that stays
in memory. Such a copy takes a tenth of the time that `copied` takes."""


def remembered(
    cache: Any, key: Callable[Arguments, Any], **limits: int
) -> Callable[[Callable[Arguments, Value]], Callable[Arguments, Value]]:
    """Return a decorator that caches a function's value in `copied` or `shared`, by the key of its arguments.

    Errors are not cached. `limits` are `max_entries` and `ttl` in seconds.
    """

    def decorate(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        def content(key: Any, _read: Callable[[], Value]) -> Value:
            return _read()

        content.__qualname__ = function.__qualname__  # Streamlit separates the caches of functions by this name
        stored = cache(content, show_spinner=False, **limits)

        @wraps(function)
        def read(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
            value: Value = stored(key(*args, **kwargs), partial(function, *args, **kwargs))
            return value.copy() if cache is shared and isinstance(value, pd.DataFrame) else value

        return read

    return decorate


def library() -> Library:
    """The visitor's own store, the stores shared with the visitor, and the shipped runs; raises NotSignedIn."""
    return script.once_read("library", lambda: libraries.library(sign_in.user_root()))


@dataclass
class _Known:
    """A finished run, the modification time of its file, and its briefs by whether it is the user's own."""

    changed: int
    run: Run
    briefs: dict[bool, RunBrief] = field(default_factory=dict)

    def brief(self, is_of_user: bool) -> RunBrief:
        """The run's brief, made once."""
        if is_of_user not in self.briefs:
            self.briefs[is_of_user] = brief_of(self.run, is_of_user=is_of_user)
        return self.briefs[is_of_user]


class _Listing:
    """The runs of one store as they were when its files were last looked at.

    A run is read again only if its file has changed: a store has thousands. `known` has the newest first, `runs` the
    oldest, both by id; `digest` changes with any file.
    """

    def __init__(self) -> None:
        self.lock, self.scanned, self.digest = threading.Lock(), -math.inf, ""
        self.known: dict[str, _Known] = {}
        self.runs: dict[str, Run] = {}

    def look(self, store: Store) -> _Listing:
        """Looks at the store's files and reads the new runs; returns itself.

        Finished runs do not change, so their files are looked at every SCAN_SECONDS only. Shipped runs change only with
        skillviz itself.
        """
        with self.lock:
            is_due = time.monotonic() - self.scanned > SCAN_SECONDS
            if not is_due and store.root == libraries.shipped_root():
                return self
            if is_due:
                self.scanned = time.monotonic()
            changed = _changed(store, {} if is_due else self.known)
            lines = "\0".join([str(store.root), *(f"{name}\0{at}" for name, at in changed.items())])
            digest = hashlib.blake2b(os.fsencode(lines), digest_size=16).hexdigest()
            if digest != self.digest:
                kept = {name: one for name, one in self.known.items() if changed.get(name) == one.changed}
                read = store.list(among=[name for name in changed if name not in kept])
                known = [*kept.values(), *(_Known(changed[run.id], run) for run in read)]
                known.sort(key=lambda one: (one.run.record.created, one.run.id), reverse=True)
                self.known, self.digest = {one.run.id: one for one in known}, digest
                self.runs = {one.run.id: one.run for one in reversed(known)}
            return self


def _changed(store: Store, known: Mapping[str, _Known]) -> dict[str, int]:
    """The modification times of the run.json files of a store, and of the packed files of its studies' runs, by run.

    The files of `known` runs are not looked at.
    """
    root, look, changed = str(store.root), os.stat, {}
    with suppress(StoreError):  # a store that cannot be listed is reported by `others`
        for name in store.names():
            if name in known:
                changed[name] = known[name].changed
                continue
            with suppress(OSError):  # not a run, deleted just now, or unreadable
                changed[name] = look(f"{root}{os.sep}{name}{os.sep}{RUN_FILE}").st_mtime_ns
        for name, path in store.packed().items():
            with suppress(OSError):
                changed.setdefault(name, packed_stamp(path)[1])
    return changed


@shared(show_spinner=False, max_entries=STORES)
def _listing_of(root: str) -> _Listing:
    return _Listing()


def _listing(store: Store) -> _Listing:
    """The runs of a store, looked at once in a script run, which reads them several times."""
    # `visible`: Streamlit cannot hash a folder's name that is not valid in any encoding
    return script.once_read(f"runs {store.root}", lambda: _listing_of(visible(str(store.root))).look(store))


def _run_files(store: Store) -> str:
    """The digest of a store and its run files."""
    return _listing(store).digest


def _study_files(store: Store) -> Stamp:
    """The stamp of a store and its study files."""
    stamp = [(str(store.root), 0)]
    for path in (folder / STUDY_RECORD for folder in study_folders(store)):
        with suppress(OSError):
            stamp.append((visible(str(path)), path.stat().st_mtime_ns))
    return tuple(stamp)


def _seen() -> tuple[tuple[str, Stamp], ...]:
    """The run and study files that the visitor's stores hold now, as stamps."""
    return tuple((_run_files(store), _study_files(store)) for store in library().stores)


def _stamp(*paths: Path) -> Stamp:
    """The stamp of these files, with time 0 for a missing file."""
    return tuple((str(path), path.stat().st_mtime_ns if path.is_file() else 0) for path in paths)


def _study_file(study: StudyFolder) -> Stamp:
    return _stamp(study.path / FILE)


def _model_files(*sources: str) -> list[Path]:
    """The files in the models' folders that change when a model does."""
    names = ("config.json", "model.safetensors", "adapter_config.json", "adapter_model.safetensors")
    return [located(source) / name for source in sources if source for name in (*names, "tokenizer.json")]


def _task_files(task: str | None) -> list[Path]:
    """A task's file and data files; empty for a task of the registry. Raises a SkillvizError."""
    definition = task_named(task) if task else None
    if definition is None or definition.path is None or not isinstance(definition.data, Files):
        return []
    return [definition.path, *data_files(definition).values()]


def task_named(name: str) -> Task:
    """The task of this name or file with its data files, as `registry.task` returns it, with the same errors."""
    return registry.with_data(task_defined(name))


@remembered(shared, lambda name: (expanded(name), _stamp(located(name))), max_entries=64)
def task_defined(name: str) -> Task:
    """The task of this name or file, whether its data are present or not, as `registry.defined` returns it."""
    return registry.defined(name)


def _yaml_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.y*ml")) if folder.is_dir() else []


def briefs() -> tuple[RunBrief, ...]:
    """One brief per finished run: the user's own first, and in each store the newest first."""
    listings = enumerate(map(_listing, library().stores))
    return Briefs(one.brief(not number) for number, listing in listings for one in listing.known.values())


def _runs_by_id() -> Mapping[str, Run]:
    """All finished runs by id; if two stores have the same id, the user's own run."""
    return ChainMap(*[_listing(store).runs for store in library().stores])


def read_shared() -> None:
    """Reads the runs that every visitor sees, so that the first visitor does not wait for them."""
    for store in libraries.library().stores:
        for one in _listing(store).known.values():
            one.brief(False)


def run(run_id: str) -> Run:
    """The finished run of this id or unique prefix; raises a StoreError."""
    listed = _runs_by_id()
    return listed[run_id] if run_id in listed else library().open(run_id)


def runs(run_ids: Iterable[str]) -> list[Run]:
    """The finished runs of these ids; raises a StoreError."""
    listed = _runs_by_id()
    return [listed[run_id] if run_id in listed else run(run_id) for run_id in run_ids]


def records() -> list[RunRecord]:
    """The records of all finished runs."""
    return [run.record for run in _runs_by_id().values()]


def own_runs() -> Sequence[Run | Unfinished]:
    """The runs of the user's own store, finished or not."""
    store = user_store()
    return [*reversed(_listing(store).runs.values()), *_others_in(store)[0]]


def others() -> tuple[Sequence[Unfinished], Sequence[Unreadable]]:
    """The runs that are queued, running, failed or cancelled and so cannot be opened, and the unreadable folders."""
    found = [_others_in(store) for store in library().stores]
    return [run for runs, _ in found for run in runs], [folder for _, folders in found for folder in folders]


@remembered(shared, _run_files, max_entries=STORES, ttl=SCAN_SECONDS)
def _others_in(store: Store) -> tuple[Sequence[Unfinished], Sequence[Unreadable]]:
    return store.others(set(_listing(store).runs))


@remembered(
    shared,
    lambda what, subjects, make: (what, [(str(one.path), str(one.record.finished)) for one in subjects]),
    max_entries=COMPUTED,
)
def computed(what: Sequence[str], subjects: Sequence[Run | StudyFolder], make: Callable[[], Value]) -> Value:
    """The value of `make`, cached by `what` and the runs or studies; it may depend on nothing else."""
    return make()


def note(run_id: str) -> str:
    """The user's note on a run, read each time because it is small and changes. Raises NotReadable."""
    return user_store().note(run_id)


def notes(run_ids: Iterable[str]) -> dict[str, str]:
    """The user's notes by run id, for runs that have one; the reason in place of a note that cannot be read."""
    noted, found = user_store().noted(), {}
    for run_id in run_ids:
        if run_id in noted:
            try:
                found[run_id] = note(run_id)
            except StoreError as error:
                found[run_id] = sign_in.sentence_of(error)
    return found


def user_store() -> Store:
    """The user's store, the only one that the dashboard changes."""
    return library().stores[0]


@remembered(shared, lambda run, name: (str(run.path), run.record.finished, name), max_entries=TABLE_READS)
def stored_table(run: Run, name: str) -> pd.DataFrame:
    """One of the run's tables: predictions, curve, history, layers or interpolation."""
    frame: pd.DataFrame = getattr(run, name)()
    return frame


@remembered(shared, lambda run: (str(run.path), run.record.finished))
def curve(run: Run) -> pd.DataFrame:
    """The run's curve. All curves are kept, at some kilobytes each, because a page reads all runs of a pair."""
    return run.curve()


@remembered(shared, lambda run, dataset=None: (str(run.path), run.record.finished, dataset), max_entries=8)
def predictions(run: Run, dataset: str | None = None) -> pd.DataFrame:
    """The run's predictions on one of its data sets, by default on its own task."""
    return run.predictions(dataset)


def region(run: Run) -> Region:
    """The run's main region. Only one large region is kept, because in the largest models a region has gigabytes."""
    return _region(run) if (run.record.size or 0) <= LARGE_REGION else _large_region(run)


@remembered(shared, lambda run: (str(run.path), run.record.finished), max_entries=16)
def _region(run: Run) -> Region:
    return run.region()


@remembered(shared, lambda run: (str(run.path), run.record.finished), max_entries=1)
def _large_region(run: Run) -> Region:
    return run.region()


def texts(run: Run, split: str) -> pd.DataFrame:
    """The texts of a split's examples; raises a SkillvizError if the task's data are missing or are not the run's."""
    frame = _texts_or_reason(run, split)
    if isinstance(frame, str):
        raise BadData(frame)
    return frame


def texts_mark(run: Run, split: str) -> str:
    """The cache key of a split's `texts` and `columns`, for values `computed` from them; raises a SkillvizError."""
    task, spec = task_named(run.spec.task), run.spec
    stamp = task_stamp(task) if isinstance(task.data, Files) else [task.name, int(time.time() // HUB_SECONDS)]
    drawn = (spec.k_shot, spec.data_seed, spec.max_train, spec.max_validation, spec.max_test)
    fingerprint = run.record.task.fingerprint if run.record.task else ""
    return json.dumps([stamp, drawn, fingerprint, split])


@remembered(shared, texts_mark, max_entries=TEXTS)
def _texts_or_reason(run: Run, split: str) -> pd.DataFrame | str:
    """The frame, or the reason why there is none, cached because finding it takes as long as reading the data."""
    try:
        return example_texts(run, split)
    except SkillvizError as error:
        return str(error.args[0])


@remembered(shared, texts_mark, max_entries=TEXTS)
def columns(run: Run, split: str) -> pd.DataFrame:
    """The lengths and the data's own columns of a split's examples; raises a SkillvizError as `texts` does."""
    return example_columns(run, split)


@remembered(
    copied,
    lambda run, operation, arguments, client, topic: (
        str(client.store),
        run.id,
        run.record.finished,
        operation,
        arguments,
    ),
    max_entries=ANSWERS,
)
def answer(run: Run, operation: str, arguments: str, client: Client, topic: str) -> dict[str, Any]:
    """The worker's answer about the run's pair; `arguments` as canonical JSON. Raises the worker's errors."""
    tab = Tab()
    return client.ask(
        operation, topic=f"{tab.id} {topic}", is_wanted=lambda: tab.is_open, pair={"run": run.id},
        **json.loads(arguments),
    )  # fmt: skip


@remembered(shared, lambda folder: _stamp(*_yaml_files(folder)), max_entries=4)
def tasks_in(folder: Path) -> tuple[Task, ...]:
    """The tasks of a folder's YAML files, by file name, without files that hold no task or lack their data files."""
    tasks = []
    for file in _yaml_files(folder):
        with suppress(SkillvizError):
            tasks.append(registry.task(file))
    return tuple(tasks)


@remembered(shared, lambda: _stamp(table_file()), max_entries=2)
def _example_table() -> tuple[ExamplePair, ...]:
    return example_pairs()


def examples() -> tuple[ExamplePair, ...]:
    """The example pairs that ship and are built here."""
    return tuple(pair for pair in _example_table() if pair.ships and pair.is_built)


def example_tasks() -> tuple[Task, ...]:
    """The tasks of the example pairs, by file name."""
    return tasks_in(tasks_folder())


@remembered(copied, lambda: list(map(str, roots())), max_entries=4, ttl=LOCAL_MODELS_SECONDS)
def local_models() -> LocalModels:
    """The models in the folders that `local_models.roots` returns."""
    return find_models(roots())


@remembered(copied, lambda: os.environ.get("CUDA_VISIBLE_DEVICES"), max_entries=2, ttl=DEVICE_SECONDS)
def devices() -> list[Device]:
    """The devices that jobs can run on here, with the memory that was free some seconds ago."""
    return devices_now()


@remembered(
    shared,
    lambda base, finetuned, task=None, readout=None: (
        base, finetuned, task, readout, _stamp(*_model_files(base, finetuned), *_task_files(task))
    ),
    max_entries=32,
)  # fmt: skip
def preflight(base: str, finetuned: str, task: str | None = None, readout: str | None = None) -> Preflight:
    """The preflight of a pair, from the headers of its files; raises a SkillvizError."""
    return headers.preflight(base, finetuned, registry.task(task) if task else None, readout)


def _without_caps(spec: RunSpec) -> RunSpec:
    fields = spec.model_dump(include={"base", "finetuned", "task", "readout", "k_shot", "data_seed"})
    return RunSpec(**fields, sizes=("1",))


@remembered(copied, lambda spec: (_without_caps(spec).json_text(), _spec_files(spec)), max_entries=32)
def facts(spec: RunSpec) -> Facts:
    """The facts of a run from its headers and all of its data, without its caps; raises a SkillvizError."""
    return facts_of(_without_caps(spec), Session())


def _data_of(spec: RunSpec) -> RunSpec:
    """The spec with only the fields that decide how its data are encoded."""
    caps = {"max_train", "max_validation", "max_test"}
    return _without_caps(spec).model_copy(update=spec.model_dump(include=caps))


def _spec_files(spec: RunSpec) -> Stamp:
    return _stamp(*_model_files(spec.base, spec.finetuned), *_task_files(spec.task))


@remembered(
    shared,
    lambda spec, client: (str(client.store), _data_of(spec).json_text(), _spec_files(spec)),
    max_entries=TEXTS,
    ttl=TEXTS_SECONDS,
)
def encoding_notes(spec: RunSpec, client: Client) -> Future[dict[str, list[str]]]:
    """The worker's notes on changes by encoding, by split, and under PAIR its notes on the pair with its tokenizers.

    Only the worker has torch. The notes are a future, because starting a worker takes seconds and a busy one takes
    longer.
    """
    pair, future = _data_of(spec).model_dump(mode="json"), Future[dict[str, list[str]]]()

    def read() -> None:
        try:
            answer = client.ask("encoded_texts", pair=pair)
            future.set_result({**answer["notes"], PAIR: answer["pair"]})
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=read, daemon=True).start()
    return future


@dataclass
class _Encoded:
    """The notes on texts, in place of the encoded texts."""

    notes: Sequence[str]


class _KnownTexts(Session):
    """A session that loads no tokenizer and encodes no text, but uses the worker's notes."""

    by_split: Mapping[str, Sequence[str]] = MappingProxyType({})

    def texts(self, spec: RunSpec) -> dict[str, Any]:
        """The notes on the texts of each split."""
        return {split: _Encoded(notes) for split, notes in self.by_split.items() if split != PAIR}

    def rehearsed(self, spec: RunSpec) -> tuple[Preflight, Any]:
        """The preflight with the worker's notes on the pair; until they arrive, with the notes from its headers."""
        check = self.preflight(spec)
        return replace(check, notes=tuple(self.by_split.get(PAIR, check.notes))), None


@remembered(shared, lambda spec: (_data_of(spec).json_text(), _spec_files(spec)), max_entries=DATA_READ)
def _rows_read(spec: RunSpec) -> Session:
    """A session that keeps the rows of a run's data, so that another size or localizer does not read them again."""
    session = Session()
    session.overlap(spec)
    return session


@remembered(copied, lambda spec, by_split: (spec.json_text(), repr(by_split), _spec_files(spec)), max_entries=32)
def notes_before_start(spec: RunSpec, by_split: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The notes that a run will store, as far as they are known before its start.

    `by_split` holds the notes on its texts. Raises a SkillvizError if the run would be refused."""
    session = _KnownTexts(values=dict(_rows_read(spec).values))
    session.by_split = by_split
    return planned(spec, session, library()).notes


def scored_rows(task: str) -> int | None:
    """The number of test examples of a task of files, without any cap; None for data of a hub or unreadable data."""
    with suppress(SkillvizError):
        if isinstance(task_named(task).data, Files):
            return _rows_of_test(task)
    return None


@remembered(copied, lambda task: (task, _stamp(*_task_files(task))), max_entries=64)
def _rows_of_test(task: str) -> int:
    return len(load_test(registry.task(task))[0])


@remembered(copied, lambda task: task, max_entries=256)
def task_title(task: str) -> str:
    """The title in the shipped task file of this name; empty if none ships."""
    for folder in TASK_FOLDERS if re.fullmatch(r"[\w-]+", task) else ():
        path = project_root() / folder / f"{task}.yaml"
        if path.is_file():
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
            return str(content.get("title", "")) if isinstance(content, dict) else ""
    return ""


@remembered(shared, lambda file_id, upload: file_id, max_entries=3)
def rows(file_id: str, upload: Upload) -> UploadedRows:
    """The rows of an uploaded file; raises BadData."""
    return uploaded.read(upload)


def studies() -> Sequence[StudyFolder]:
    """The stored studies by name; if two have the same name, the user's own once it has tables."""
    return list_studies(library(), _studies_in)


@remembered(shared, _study_files, max_entries=STORES, ttl=SCAN_SECONDS)
def _studies_in(store: Store) -> Sequence[StudyFolder]:
    return studies_in(store)


def broken_studies() -> Sequence[Unreadable]:
    """The folders of studies that cannot be read, with the reason."""
    return [broken for store in library().stores for broken in _broken_studies_in(store)]


@remembered(shared, _study_files, max_entries=STORES, ttl=SCAN_SECONDS)
def _broken_studies_in(store: Store) -> Sequence[Unreadable]:
    return unreadable_studies(store)


def study_table(study: StudyFolder, name: str) -> pd.DataFrame:
    """One of a study's tables; an empty frame if the study has none of this name."""
    return _study_table(study, name) if name in study.tables() else pd.DataFrame()


@remembered(shared, lambda study, name: (str(study.path), study.record.finished, name), max_entries=TABLES)
def _study_table(study: StudyFolder, name: str) -> pd.DataFrame:
    return study.table(name)


@remembered(shared, lambda study: (str(study.path), study.record.finished), max_entries=64)
def study_verdicts(study: StudyFolder) -> Sequence[Verdict]:
    """The study's verdict on each of the paper's claims; empty if its experiment has no claim."""
    tables = {name: study_table(study, name) for name in study.tables()}
    return tuple(verdicts(study.record.experiment, tables, study.record.scale))


@remembered(shared, lambda study: (str(study.path), study.record.finished, _seen()), max_entries=16)
def study_runs(study: StudyFolder) -> Sequence[Run]:
    """The finished runs that the study's file plans, from all stores, in the order of the file."""
    by_key = {run.record.key: run for run in _runs_by_id().values()}
    return [by_key[spec.key()] for spec in study_plan(study.study).runs if spec.key() in by_key]


@remembered(shared, _study_file, max_entries=TABLES)
def study_subject(study: StudyFolder) -> Subject | None:
    """The subject of the study, from its file; None if the file cannot be read."""
    try:
        return subject(study.study)
    except BadInput:
        return None


@remembered(shared, _study_file, max_entries=TABLES)
def is_as_requested(study: StudyFolder) -> bool:
    """True if the command of its experiment still makes this study; False if its file cannot be read or planned."""
    try:
        return request.is_as_requested(study.study)
    except BadInput:
        return False


@remembered(shared, _study_file, max_entries=TABLES)
def setting_differences(study: StudyFolder) -> tuple[SettingRow, ...]:
    """The differences between the study's setting and the paper's; empty if its file cannot be read or planned."""
    try:
        return request.setting_differences(study.study)
    except BadInput:
        return ()


@remembered(
    copied,
    lambda study, store, workers: (study.yaml_text(), workers, _seen()),
    max_entries=16,
    ttl=PREVIEW_SECONDS,
)
def study_preview(study: StudySpec, store: Store, workers: int) -> Preview:
    """The plan of a study, and the time left if it is measured; raises a SkillvizError."""
    return preview(study, store, workers)


@remembered(copied, lambda study, store: (study.yaml_text(), _seen()), max_entries=16, ttl=REFUSAL_SECONDS)
def refuse_study(study: StudySpec, store: Store) -> None:
    """Raises the SkillvizError that prevents the study; errors are not cached, so it ends when its cause does."""
    refuse_wrong(study, store)


@remembered(copied, lambda: _stamp(*hidden_skills.files()), max_entries=1)
def known_truth() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The leaderboard of localizers on hidden skills and its planted models; both are empty if none is stored."""
    models = hidden_skills.models()
    return hidden_skills.board(hidden_skills.searches(), models), models
