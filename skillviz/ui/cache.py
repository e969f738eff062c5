"""The one memory of the dashboard: reads of runs, studies, models, tasks and devices, and the worker's answers.

Nothing is computed here. What is kept goes by what names its content: a finished run or study by its folder and time
of completion, a list by the times of change of its files, anything else by the files it is read from, or for seconds.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
import yaml

from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput, SkillvizError
from skillviz.jobs.devices import Device
from skillviz.jobs.devices import devices as devices_now
from skillviz.live.client import Client
from skillviz.models import preflight as headers
from skillviz.models.local_models import LocalModels, find_models, roots
from skillviz.models.preflight import Preflight
from skillviz.runs.estimate import Facts, facts_of
from skillviz.runs.library import Library, library
from skillviz.runs.record import RunRecord
from skillviz.runs.run import RECORD as RUN_FILE
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, Unfinished, Unreadable
from skillviz.runs.texts import example_texts, task_of
from skillviz.show.entries import Entry, entry_of
from skillviz.studies import subject as subjects
from skillviz.studies.estimate import Preview, preview
from skillviz.studies.paper import request
from skillviz.studies.paper.request import refuse_wrong
from skillviz.studies.paper.setting import SettingRow
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import FILE, FOLDER, StudyFolder, list_studies
from skillviz.studies.store import RECORD as STUDY_RECORD
from skillviz.studies.subject import Subject, subject
from skillviz.tasks import demo_world, registry, uploaded
from skillviz.tasks.demo_world import World
from skillviz.tasks.project import located, project_root
from skillviz.tasks.splits import load_test
from skillviz.tasks.task import Files, Task
from skillviz.tasks.uploaded import Upload
from skillviz.tasks.user_file import data_files, task_stamp

TABLE_READS = 256  # a pair's curve over some seventy runs, and the open run's other tables
SCAN_SECONDS = 5
TASK_FOLDERS = ("benchmarks/tasks", "demo_world/tasks")
HUB_SECONDS = 600  # after which data of a hub that could not be had are asked for again
ANSWERS = 64  # of the worker: so that a rerun of a page asks nothing twice
DEVICE_SECONDS, LOCAL_MODELS_SECONDS = 10, 30
TABLES = 64  # of studies, kept in memory
PREVIEW_SECONDS = 60  # fine-tuned models are made without a run or study.json
REFUSAL_SECONDS = 60  # a model's folder changes without a run


def entries() -> tuple[Entry, ...]:
    """One entry for each finished run, the user's first, each store's newest first."""
    return _entries(_run_files(library()))


def run(run_id: str) -> Run:
    """The finished run of this id or unique prefix; raises a StoreError."""
    stores = library()
    listed = _runs(_run_files(stores))
    return listed[run_id] if run_id in listed else stores.open(run_id)


def runs(run_ids: Iterable[str]) -> list[Run]:
    """The finished runs of these ids; raises a StoreError."""
    listed = _runs(_run_files(library()))
    return [listed[run_id] if run_id in listed else run(run_id) for run_id in run_ids]


def others() -> tuple[Sequence[Unfinished], Sequence[Unreadable]]:
    """The runs that cannot be opened: queued, running, failed or cancelled; and folders that cannot be read."""
    return _others(_run_files(library()))


def note(run_id: str) -> str:
    """The user's note on a run; small and changing, so it is read each time."""
    return user_store().note(run_id)


def user_store() -> Store:
    """The user's store, the only one that the dashboard changes."""
    return library().stores[0]


def table(run: Run, name: str) -> pd.DataFrame:
    """One of the run's tables: predictions, curve, history, layers or interpolation."""
    return _table(name, str(run.path), run.record.finished, run)


def predictions(run: Run, dataset: str | None = None) -> pd.DataFrame:
    """The run's predictions on one of its data sets, on its own task's where none is named."""
    return _predictions(str(run.path), run.record.finished, dataset, run)


def region(run: Run) -> Region:
    """The run's main region."""
    return _region(str(run.path), run.record.finished, run)


def texts(run: Run, split: str) -> pd.DataFrame:
    """The texts of a split's examples, where its task's data are here and the run's own; raises a SkillvizError."""
    task, spec = task_of(run), run.spec
    stamp = task_stamp(task) if isinstance(task.data, Files) else [task.name, int(time.time() // HUB_SECONDS)]
    drawn = (spec.k_shot, spec.data_seed, spec.max_train, spec.max_validation, spec.max_test)
    fingerprint = run.record.task.fingerprint if run.record.task else ""
    frame = _texts(json.dumps([stamp, drawn, fingerprint, split]), split, run)
    if isinstance(frame, str):
        raise BadData(frame)
    return frame


def answer(run: Run, operation: str, arguments: str, client: Client, topic: str) -> dict[str, Any]:
    """The worker's answer about the run's pair; `arguments` as canonical JSON. Raises what the worker raises."""
    return _answer(run.id, run.record.finished, operation, arguments, client, topic)


def records() -> list[RunRecord]:
    """What all finished runs say of themselves."""
    return [run.record for run in _runs(_run_files(library())).values()]


def _run_files(stores: Library) -> tuple[tuple[str, int], ...]:
    """The stores and their run.json files with times of change: equal stamps, equal lists."""
    stamp: list[tuple[str, int]] = []
    for store in stores.stores:
        files = [folder / RUN_FILE for folder in store.folders()]
        stamp.append((str(store.root), len(files)))
        for path in files:  # one may be deleted just now
            with suppress(OSError):
                stamp.append((str(path), path.stat().st_mtime_ns))
    return tuple(stamp)


@st.cache_data(show_spinner=False, max_entries=4)
def _entries(stamp: tuple[tuple[str, int], ...]) -> tuple[Entry, ...]:
    stores = library()
    return tuple(entry_of(run, is_own=store is stores.stores[0]) for store in stores.stores for run in store.list())


@st.cache_resource(show_spinner=False, max_entries=4)
def _runs(stamp: tuple[tuple[str, int], ...]) -> dict[str, Run]:
    """The user's run where two stores hold one id."""
    return {run.id: run for run in reversed(library().list())}


@st.cache_data(show_spinner=False, max_entries=4, ttl=SCAN_SECONDS)
def _others(stamp: tuple[tuple[str, int], ...]) -> tuple[Sequence[Unfinished], Sequence[Unreadable]]:
    stores = library()
    return stores.unfinished(), stores.unreadable()


@st.cache_data(show_spinner=False, max_entries=TABLE_READS)
def _table(name: str, path: str, finished: str | None, _run: Run) -> pd.DataFrame:
    return getattr(_run, name)()


@st.cache_data(show_spinner=False, max_entries=8)
def _predictions(path: str, finished: str | None, dataset: str | None, _run: Run) -> pd.DataFrame:
    return _run.predictions(dataset)


@st.cache_resource(show_spinner=False, max_entries=16)
def _region(path: str, finished: str | None, _run: Run) -> Region:
    return _run.region()


@st.cache_resource(show_spinner=False, max_entries=4)
def _texts(key: str, split: str, _run: Run) -> pd.DataFrame | str:
    """The frame, or the sentence on why there is none: reading the data to find that out takes as long."""
    try:
        return example_texts(_run, split)
    except SkillvizError as error:
        return str(error.args[0])


@st.cache_data(show_spinner=False, max_entries=ANSWERS)
def _answer(
    run_id: str, finished: str | None, operation: str, arguments: str, _client: Client, _topic: str
) -> dict[str, Any]:
    return _client.ask(operation, topic=_topic, pair={"run": run_id}, **json.loads(arguments))


def world() -> World | None:
    """The demo world that ships, None where none was built; raises BadData."""
    path = demo_world.shipped_world() / demo_world.FILE
    return _world(str(path.parent), _times(path))


def vocabulary(source: str) -> frozenset[str]:
    """The words that a model of the demo world knows; empty for any other model."""
    path = located(source) / demo_world.TOKENIZER
    return _vocabulary(str(path), _times(path)) if source.startswith(demo_world.PREFIX) else frozenset()


def tasks_in(folder: Path) -> tuple[Task, ...]:
    """The tasks of a folder's YAML files, by file name; what is none, or has no data files, is passed over."""
    files = tuple(sorted(folder.glob("*.y*ml"))) if folder.is_dir() else ()
    return _tasks(files, _times(*files))


def local_models() -> LocalModels:
    """The models under the folders that `local_models.roots` names."""
    return _local_models(tuple(map(str, roots())))


def devices() -> list[Device]:
    """What jobs can run on here, with the memory that was free some seconds ago."""
    return _devices(os.environ.get("CUDA_VISIBLE_DEVICES"))


def preflight(base: str, finetuned: str, task: str | None = None, readout: str | None = None) -> Preflight:
    """What the headers say of a pair; raises a SkillvizError."""
    return _preflight(base, finetuned, task, readout, _times(*_model_files(base, finetuned), *_task_files(task)))


def facts(spec: RunSpec) -> Facts:
    """What a run's headers and all its data say, without its caps; raises a SkillvizError."""
    fields = spec.model_dump(include={"base", "finetuned", "task", "readout", "k_shot", "data_seed"})
    core = RunSpec(**fields, sizes=("1",))
    return _facts(core.json_text(), _times(*_model_files(spec.base, spec.finetuned), *_task_files(spec.task)), core)


def scored_rows(task: str) -> int | None:
    """Test examples of a task of files, without any cap; None for data of a hub, and where they cannot be read."""
    with suppress(SkillvizError):
        if isinstance(registry.task(task).data, Files):
            return _scored_rows(task, _times(*_task_files(task)))
    return None


def task_title(task: str) -> str:
    """The title in the task file of this name; empty where none ships."""
    return _task_title(task)


def rows(file_id: str, upload: Upload) -> pd.DataFrame:
    """The rows of an uploaded file; raises BadData."""
    return _rows(file_id, upload)


@st.cache_resource(show_spinner=False, max_entries=4)
def _tasks(files: tuple[Path, ...], times: tuple[int, ...]) -> tuple[Task, ...]:
    tasks = []
    for file in files:
        with suppress(SkillvizError):
            tasks.append(registry.task(file))
    return tuple(tasks)


def _times(*paths: Path) -> tuple[int, ...]:
    """The times of change of files, 0 for one that is not there."""
    return tuple(path.stat().st_mtime_ns if path.is_file() else 0 for path in paths)


def _model_files(*sources: str) -> list[Path]:
    """The files of models' folders that change when a model does."""
    names = ("config.json", "model.safetensors", "adapter_config.json", "adapter_model.safetensors")
    return [located(source) / name for source in sources if source for name in (*names, "tokenizer.json")]


def _task_files(task: str | None) -> list[Path]:
    """A task's own file and its data; none for one of the registry. Raises a SkillvizError."""
    definition = registry.task(task) if task else None
    if definition is None or definition.path is None or not isinstance(definition.data, Files):
        return []
    return [definition.path, *data_files(definition).values()]


@st.cache_data(show_spinner=False, max_entries=2)
def _world(folder: str, times: tuple[int, ...]) -> World | None:
    return demo_world.read_world(Path(folder))


@st.cache_data(show_spinner=False, max_entries=2)
def _vocabulary(path: str, times: tuple[int, ...]) -> frozenset[str]:
    return demo_world.words(Path(path))


@st.cache_data(show_spinner=False, max_entries=4, ttl=LOCAL_MODELS_SECONDS)
def _local_models(places: tuple[str, ...]) -> LocalModels:
    return find_models([Path(place) for place in places])


@st.cache_data(show_spinner=False, max_entries=2, ttl=DEVICE_SECONDS)
def _devices(visible: str | None) -> list[Device]:
    return devices_now()


@st.cache_resource(show_spinner=False, max_entries=32)
def _preflight(base: str, finetuned: str, task: str | None, readout: str | None, times: tuple[int, ...]) -> Preflight:
    return headers.preflight(base, finetuned, registry.task(task) if task else None, readout)


@st.cache_data(show_spinner=False, max_entries=32)
def _facts(key: str, times: tuple[int, ...], _spec: RunSpec) -> Facts:
    return facts_of(_spec)


@st.cache_data(show_spinner=False, max_entries=64)
def _scored_rows(task: str, times: tuple[int, ...]) -> int:
    return len(load_test(registry.task(task))[0])


@st.cache_data(show_spinner=False, max_entries=256)
def _task_title(task: str) -> str:
    for folder in TASK_FOLDERS if re.fullmatch(r"[\w-]+", task) else ():
        path = project_root() / folder / f"{task}.yaml"
        if path.is_file():
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
            return str(content.get("title", "")) if isinstance(content, dict) else ""
    return ""


@st.cache_resource(show_spinner=False, max_entries=3)
def _rows(file_id: str, _upload: Upload) -> pd.DataFrame:
    return uploaded.rows_of(_upload)


def studies() -> Sequence[StudyFolder]:
    """The stored studies by name, of two of one name the user's own once it has tables."""
    return _studies(_study_files(library()))


def study_table(study: StudyFolder, name: str) -> pd.DataFrame:
    """One of a study's tables, an empty frame where it has none of this name."""
    if name not in study.tables():
        return pd.DataFrame()
    return _study_table(name, str(study.path), study.record.finished, study)


def study_runs(study: StudyFolder) -> Sequence[Run]:
    """The finished runs that the study's file asks for, from all stores, in the order of the file."""
    return _study_runs(str(study.path), study.record.finished, len(library().list()), study)


def study_subject(study: StudyFolder) -> Subject | None:
    """What the study is about, by its file; None where that cannot be read."""
    return _subject(*_spec_file(study), study)


def is_demo_world(study: StudyFolder) -> bool:
    """Whether it is of the demo world, by its file; False where that cannot be read or planned."""
    return _is_demo_world(*_spec_file(study), study)


def setting_differences(study: StudyFolder) -> tuple[SettingRow, ...]:
    """Where its setting differs from the paper's, by its file; nothing where that cannot be read or planned."""
    return _differences(*_spec_file(study), study)


def study_preview(study: StudySpec, store: Store, workers: int) -> Preview:
    """What a study would do and how long it would take, by what is stored now; raises a SkillvizError."""
    return _preview(study.yaml_text(), workers, _study_files(library()), len(library().list()), study, store)


def _study_files(stores: Library) -> tuple[tuple[str, int], ...]:
    """The studies' files with times of change: equal stamps, equal lists."""
    stamp: list[tuple[str, int]] = []
    for store in stores.stores:
        stamp.append((str(store.root), 0))
        for path in sorted((store.root / FOLDER).glob(f"*/{STUDY_RECORD}")):
            with suppress(OSError):
                stamp.append((str(path), path.stat().st_mtime_ns))
    return tuple(stamp)


def _spec_file(study: StudyFolder) -> tuple[str, int]:
    """The study's file and its time of change, 0 where it is gone."""
    file = study.path / FILE
    return str(file), file.stat().st_mtime_ns if file.is_file() else 0


@st.cache_resource(show_spinner=False, max_entries=4, ttl=SCAN_SECONDS)
def _studies(stamp: tuple[tuple[str, int], ...]) -> Sequence[StudyFolder]:
    return list_studies(library())


@st.cache_data(show_spinner=False, max_entries=TABLES)
def _study_table(name: str, path: str, finished: str | None, _study: StudyFolder) -> pd.DataFrame:
    return _study.table(name)


@st.cache_resource(show_spinner=False, max_entries=16)
def _study_runs(path: str, finished: str | None, count: int, _study: StudyFolder) -> Sequence[Run]:
    by_key = {run.record.key: run for run in reversed(library().list())}
    return [by_key[spec.key()] for spec in plan(_study.study).runs if spec.key() in by_key]


@st.cache_resource(show_spinner=False, max_entries=TABLES)
def _subject(file: str, changed: int, _study: StudyFolder) -> Subject | None:
    try:
        return subject(_study.study)
    except BadInput:
        return None


@st.cache_resource(show_spinner=False, max_entries=TABLES)
def _is_demo_world(file: str, changed: int, _study: StudyFolder) -> bool:
    try:
        return subjects.is_demo_world(_study.study)
    except BadInput:
        return False


@st.cache_resource(show_spinner=False, max_entries=TABLES)
def _differences(file: str, changed: int, _study: StudyFolder) -> tuple[SettingRow, ...]:
    try:
        return request.setting_differences(_study.study)
    except BadInput:
        return ()


@st.cache_data(show_spinner=False, max_entries=16, ttl=PREVIEW_SECONDS)
def _preview(
    study_text: str, workers: int, stamp: tuple[tuple[str, int], ...], runs: int, _study: StudySpec, _store: Store
) -> Preview:
    return preview(_study, _store, workers)


def refuse_study(study: StudySpec, store: Store) -> None:
    """Raises the SkillvizError that stands against the study; it is looked for again each time until it is gone."""
    _refuse_study(study.yaml_text(), len(library().list()), study, store)


@st.cache_data(show_spinner=False, max_entries=16, ttl=REFUSAL_SECONDS)
def _refuse_study(text: str, runs: int, _study: StudySpec, _store: Store) -> None:
    refuse_wrong(_study, _store)
