"""A folder of runs: a run is created atomically, listed if complete, verified by hash, and deleted atomically.

Runs in the files of studies (runs/packed.py) are listed, opened and verified like folders, and are read-only.

A `Library` is all visible runs as one list: the user's own, those shared with the user, and the shipped ones.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillviz.atomic import clear_abandoned, disk_errors, remove_folder, whole_folder, write_text
from skillviz.errors import UNKNOWN, CorruptRun, NotReadable, RunNotFound, StoreError, advice, visible
from skillviz.regular_file import folder_names, is_regular, may_be_regular, reading
from skillviz.runs import packed
from skillviz.runs.folder import OPEN, WORK, RunFolder, artifacts, now, record_text
from skillviz.runs.liveness import ALIVE, PROCESS, end_on_cluster, is_alive, life
from skillviz.runs.record import Failure, RunRecord
from skillviz.runs.run import RECORD, Run, forget_all_but, is_as_written, read_record
from skillviz.runs.slurm_queue import CANCELLED, FAILURES
from skillviz.runs.spec import KEY, RunSpec
from skillviz.serving import read_only
from skillviz.serving.settings import RUNS_VARIABLE, settings
from skillviz.serving.users import shared_root
from skillviz.tasks.project import app_root, expanded, project_root

NOTES = ".notes"
PARTS = "parts"  # scores of the parts of runs' regions, one folder per run
SETS, FEDERATIONS = ".sets", "federated"  # named sets of examples, and federations of studies, one JSON file each
ANSWERS = ".live"  # results computed by the live pages
KILLED = Failure(
    kind="killed",
    message="The process of this run has stopped.",
    hint="It was killed, ran out of memory, or the disk was full; "
    "`python -m skillviz jobs resume` continues where it stopped.",
)
UNSEEN = Failure(
    kind=UNKNOWN,
    message="Whether this job still runs cannot be seen from here: it was started on another machine, or its folder is "
    "on a file system without locks.",
    hint=advice(UNKNOWN).hint,
)
STARTUP = 60.0  # seconds within which the process of a queued run records itself


@dataclass(frozen=True)
class Unfinished:
    """A run that is queued, running, failed or cancelled. Its record shows the actual status."""

    path: Path
    record: RunRecord

    @property
    def id(self) -> str:
        """The run's id."""
        return self.record.run_id


@dataclass(frozen=True)
class Unreadable:
    """A folder that contains a run.json but cannot be shown, with the error; or a store that cannot be listed."""

    path: Path
    error: StoreError

    @property
    def reason(self) -> str:
        """The reason in a sentence."""
        return str(self.error.args[0])

    @property
    def name(self) -> str:
        """The folder's name in printable form, since a file name may contain almost any byte."""
        return visible(self.path.name)


class Store:
    """The runs under one root folder; the root need not exist yet."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    def create(self, spec: RunSpec, *, size: int | None = None, task: str | None = None) -> RunFolder:
        """Create a queued run, whose name contains the main size in entries (0: none requested) and the task's name.

        Raises StoreError if the root is not writable.
        """
        with written(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            clear_abandoned(self.root)
            name = name_of(spec, size, task)
            run_id = f"{name}-{secrets.token_hex(3)}"
            while (self.root / run_id).exists():
                run_id = f"{name}-{secrets.token_hex(3)}"
            with whole_folder(self.root / run_id) as draft:
                (draft / WORK).mkdir()
                record = RunRecord(run_id=run_id, spec=spec, key=spec.key(), status="queued", created=now())
                (draft / RECORD).write_text(record_text(record), encoding="utf-8")
        return RunFolder(self.root / run_id)

    def refuse_unwritable(self) -> None:
        """Raise StoreError if no run could be stored; the test leaves nothing behind."""
        place = next(folder for folder in (self.root, *self.root.absolute().parents) if folder.exists())
        with written(self.root):
            try:
                tempfile.TemporaryDirectory(dir=place, prefix=".skillviz-").cleanup()
            except OSError as error:
                error.filename = str(self.root)  # the test folder's name means nothing to a user
                raise

    def list(self, among: Collection[str] | None = None) -> Sequence[Run]:
        """Return the finished runs whose files all exist, newest first; with `among`, only those with these names."""
        return [entry for entry in self._scan(among=among) if isinstance(entry, Run)]

    def unfinished(self) -> Sequence[Unfinished]:
        """Return the unfinished runs, newest first. An open one counts as failed (killed) if its process is gone."""
        return [entry for entry in self._scan() if isinstance(entry, Unfinished)]

    def unreadable(self) -> Sequence[Unreadable]:
        """Return the folders with a run.json that cannot be shown: broken, incomplete, or of another version."""
        return [entry for entry in self._scan() if isinstance(entry, Unreadable)]

    def others(self, finished: Collection[str]) -> tuple[Sequence[Unfinished], Sequence[Unreadable]]:
        """Return `unfinished` and `unreadable` in one scan, which skips folders known to be finished runs."""
        entries = self._scan(finished)
        unfinished = [entry for entry in entries if isinstance(entry, Unfinished)]
        return unfinished, [entry for entry in entries if isinstance(entry, Unreadable)]

    def open(self, run_id: str) -> Run:
        """Return the finished run with this id or unique prefix; raises RunNotFound, CorruptRun or OtherVersion."""
        path = self.path(self.resolve(run_id))
        entry = _entry(path)
        if isinstance(entry, Run):
            return entry
        if isinstance(entry, Unfinished):
            raise RunNotFound(
                f"run {path.name} is {entry.record.status}, not finished; `python -m skillviz jobs log {path.name}"
                f"{option_of(self.root)}` says where it stands, and `jobs resume` resumes one that stopped."
            )
        raise type(entry.error)(f"run {path.name} cannot be opened: {entry.reason}") from entry.error

    def look(self, run_id: str) -> Run | Unfinished | Unreadable:
        """Return the present state of the run with this id or unique prefix, finished or not; raises RunNotFound."""
        return _entry(self.path(self.resolve(run_id)))

    def resolve(self, run_id: str) -> str:
        """Return the full id for this id or prefix, finished or not.

        Raises RunNotFound, and NotReadable if the root cannot be listed.
        """
        if self.has(run_id):
            return run_id
        folders = self._folders_among(name for name in self.names() if run_id and name.startswith(run_id))
        studied = [name for name in self.packed() if run_id and name.startswith(run_id)]
        matches = list(dict.fromkeys([*(path.name for path in folders), *studied]))
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise RunNotFound(
                f"'{run_id}' is the beginning of {len(matches)} runs: {', '.join(matches[:5])}. Give more of it."
            )
        raise RunNotFound(
            f"there is no run '{run_id}' in {self.root}; `python -m skillviz runs list` shows what there is."
        )

    def has(self, run_id: str) -> bool:
        """True if there is a run with exactly this id, finished or not, readable or not; raises NotReadable."""
        return self.has_folder(run_id) or run_id in self.packed()

    def has_folder(self, run_id: str) -> bool:
        """True if there is a run folder (not a run in a study's file) with exactly this id; raises NotReadable."""
        if run_id[:1] in ("", ".") or Path(run_id).name != run_id:
            return False
        try:
            return is_regular(self.root / run_id / RECORD)
        except OSError:  # in an unreadable root, files cannot be tested, whether they exist or not
            return run_id in self.names()

    def path(self, run_id: str) -> Path:
        """Return the folder of exactly this run, or its path in a study's file."""
        folder = self.root / run_id
        return folder if self.has_folder(run_id) else self.packed().get(run_id, folder)

    def packed(self) -> Mapping[str, Path]:
        """Return the paths of the runs in the studies' files by id; the first one counts if an id occurs twice.

        Raises NotReadable. An unreadable file has no runs here; it is listed as unreadable.
        """
        return _first_of(self._packs())

    def _packs(self) -> Sequence[tuple[Path, Mapping[str, Path] | StoreError]]:
        """Return each study's file with its runs, or with the error if it cannot be read."""
        packs: list[tuple[Path, Mapping[str, Path] | StoreError]] = []
        for pack in packed.packs(self.root):
            try:
                packs.append((pack, packed.packed_runs(pack)))
            except StoreError as error:
                packs.append((pack, error))
        return packs

    def verify(self, run_id: str) -> Sequence[str]:
        """Return one sentence for each difference between the run's files and the hashes in run.json."""
        return [problem.sentence for problem in problems_of(self._vouched(run_id))]

    def delete(self, run_id: str) -> None:
        """Delete the run with exactly this id, finished or not, with its note and part scores.

        It never leaves half a run. Raises RunNotFound if the root has no such run folder, StoreError while the run is
        running.
        """
        path = self.root / run_id
        if (pack := packed.pack_of(self.path(run_id))) is not None:
            raise StoreError(
                f"run {run_id} is in {pack}, the file of a study, and is read-only; it goes when the study's folder is "
                "deleted."
            )
        if not self.has(run_id) or path.is_symlink():
            raise RunNotFound(f"there is no run folder '{run_id}' in {self.root}; nothing was deleted.")
        if is_alive(path / WORK):
            raise StoreError(f"run {run_id} is running; cancel it before deleting it.")
        with written(self.root):
            remove_folder(path)
            self._note_path(run_id).unlink(missing_ok=True)
            parts = self.root / PARTS / run_id
            if parts.is_dir():
                remove_folder(parts)

    def note(self, run_id: str) -> str:
        """Return the user's note on a run; empty if there is none. Raises NotReadable."""
        path = self._note_path(run_id)
        with reading(f"the note on run {run_id}"):
            return path.read_text(encoding="utf-8") if is_regular(path) else ""

    def noted(self) -> Collection[str]:
        """Return the ids that have a note, with one read of the disk; empty if the notes cannot be listed."""
        with suppress(OSError):
            return {name.removesuffix(".txt") for name in os.listdir(self.root / NOTES)}
        return ()

    def set_note(self, run_id: str, text: str) -> None:
        """Store a note on a run, beside the run and not in it; an empty text removes it."""
        path = self._note_path(self.resolve(run_id))
        with written(self.root):
            if not text.strip():
                path.unlink(missing_ok=True)
                return
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)

    def _note_path(self, run_id: str) -> Path:
        return self.root / NOTES / f"{Path(run_id).name}.txt"

    def _vouched(self, run_id: str) -> Run:
        """Return the finished run, without checking that its files are there and unchanged."""
        path = self.path(self.resolve(run_id))
        record = read_record(path)
        if record.status != "finished":
            raise RunNotFound(f"run {path.name} is {record.status}: only finished runs can be verified.")
        return Run(path, record)

    def folders(self) -> Sequence[Path]:
        """Return the folders with a run.json, by name, without drafts and removed ones. Raises NotReadable."""
        return self._folders_among(self.names())

    def _folders_among(self, names: Iterable[str]) -> Sequence[Path]:
        return [self.root / name for name in names if may_be_regular(os.path.join(self.root, name, RECORD))]

    def names(self) -> Sequence[str]:
        """Return the names of everything in the root that may be a run; raises NotReadable if it cannot be listed."""
        return folder_names(self.root)

    def _scan(
        self, besides: Collection[str] = (), among: Collection[str] | None = None
    ) -> Sequence[Run | Unfinished | Unreadable]:
        try:
            names = self.names() if among is None else among
            packs = self._packs()
        except NotReadable as error:
            return [Unreadable(self.root, error)]
        if among is None:
            forget_all_but(self.root, names)
        # known runs, nearly all of a thousand, are skipped before the disk is read
        paths = {path.name: path for path in self._folders_among(name for name in names if name not in besides)}
        for name, path in _first_of(packs).items():
            if name not in besides and (among is None or name in among):
                paths.setdefault(name, path)
        entries = [_entry(path) for path in paths.values()]
        if among is None:
            entries += [Unreadable(pack, error) for pack, error in packs if isinstance(error, StoreError)]
        return sorted(
            entries, key=lambda e: ("" if isinstance(e, Unreadable) else e.record.created, e.path.name), reverse=True
        )


@contextmanager
def written(root: Path) -> Iterator[None]:
    """Turn the system's refusal to write under a root into StoreError, or DiskFull if there is no space left.

    Errors about files elsewhere, which can only have been read, stay as they are. Raises ReadOnly before the body if
    nothing may be written.
    """
    read_only.refuse()
    try:
        with disk_errors(root / RECORD):
            yield
    except OSError as error:
        if isinstance(error.filename, str):
            path, folder = Path(error.filename).absolute(), root.absolute()
            if not (path.is_relative_to(folder) or folder.is_relative_to(path)):
                raise
        raise StoreError(
            f"the folder of runs {root} cannot be written ({error.strerror or error}); name another one with "
            f"--runs-dir or in {RUNS_VARIABLE}."
        ) from error


def store_root(runs_dir: Path | str | None = None) -> Path:
    """Return the folder for a user's runs: `runs_dir`, else $SKILLVIZ_RUNS, else cached_runs/local."""
    chosen = runs_dir or settings.runs
    return Path(expanded(str(chosen))) if chosen else usual_root()


def option_of(root: Path, known: Path | None = None) -> str:
    """Return ` --runs-dir FOLDER` for a command about runs in this folder; empty as `folder_to_name` is."""
    folder = folder_to_name(root, known)
    return f" --runs-dir {shlex.quote(folder)}" if folder else ""


def folder_to_name(root: Path, known: Path | None = None) -> str:
    """Return the folder of runs as code has to name it.

    It is empty if the folder is the one that is used by default: `known`, or that of this environment.
    """
    is_found = root.resolve() == (known or store_root()).resolve()
    return "" if is_found else str(root.resolve())


def usual_root() -> Path:
    """Return the default folder for a user's runs: in the checkout, or in the current folder if installed."""
    return project_root() / "cached_runs" / "local"


def shipped_root() -> Path:
    """Return the folder of the shipped runs: in the checkout, or in the installed package."""
    return app_root() / "cached_runs"


def name_of(spec: RunSpec, size: int | None = None, task: str | None = None) -> str:
    """Return the readable part of a run's id, such as sst2-minilm-l6-stagewise-10646-s0."""
    task = task or (Path(spec.task).stem if re.search(r"\.ya?ml$", spec.task) else spec.task)
    amount = spec.sizes[0].replace("%", "pct") if size is None else str(size or "")
    base = spec.base.split("@")[0].replace("\\", "/").rstrip("/").split("/")[-1]
    parts = (_slug(task), _slug(base), _slug(spec.localizer), _slug(amount), f"s{spec.seed}")
    return "-".join(part for part in parts if part)


def _first_of(packs: Sequence[tuple[Path, Mapping[str, Path] | StoreError]]) -> dict[str, Path]:
    """Return the paths of the runs in these files by id; the first one counts if an id occurs twice."""
    readable = [runs for _, runs in reversed(packs) if isinstance(runs, Mapping)]
    return {name: path for runs in readable for name, path in runs.items()}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-._")[:40]


def _entry(path: Path) -> Run | Unfinished | Unreadable:
    """Return the entry for a folder with a run.json, after comparing its files with the sizes in run.json."""
    try:
        with reading(f"the folder {path}"):
            return _readable_entry(path)
    except StoreError as error:
        return Unreadable(path, error)


def _readable_entry(path: Path) -> Run | Unfinished:
    record = read_record(path)
    if record.status in OPEN and (state := _life(path, record)) != ALIVE:
        record = read_record(path)  # it may have ended between the two reads
        if record.status in OPEN:
            unseen = {"status": UNKNOWN, "error": UNSEEN}
            record = record.model_copy(update=unseen if state == UNKNOWN else _end(path))
    if record.run_id != path.name:
        raise CorruptRun(f"the folder is called {path.name}, its run.json says {record.run_id}.")
    if record.status != "finished":
        return Unfinished(path, record)
    size_of = packed.sizes_of(path)
    for name, note in record.files.items():
        with reading(f"{name} of {path.name}"):
            if size_of(name) != note.size:
                raise CorruptRun(f"{name} is missing or not {note.size:,} bytes long.")
    return Run(path, record)


def _end(path: Path) -> dict[str, Any]:
    """Return the end of an open run whose process is gone: the state given by its cluster, else killed."""
    state = end_on_cluster(path / WORK)
    if state == CANCELLED:
        return {"status": "cancelled"}
    kind = FAILURES.get(state or "")
    if kind is None:
        return {"status": "failed", "error": KILLED}
    return {"status": "failed", "error": ended_by_cluster(kind)}


def ended_by_cluster(kind: str) -> Failure:
    """Return the record of an end for which a cluster gives a class of failure."""
    return Failure(kind=kind, message=f"The cluster ended this job: {kind}.", hint=advice(kind).hint)


def _life(path: Path, record: RunRecord) -> str:
    """Return the life of an open run's process. A new run counts as alive: its process has not recorded itself yet."""
    if record.status == "queued" and not (path / WORK / PROCESS).exists():
        with suppress(OSError):
            age = time.time() - (path / RECORD).stat().st_mtime
            if abs(age) < STARTUP:  # far below 0 the clock was set back, and the run would wait too long
                return ALIVE
    return life(path / WORK)


def is_awaited(path: Path) -> bool:
    """True if a run folder is queued or running, and a process works on it or is about to."""
    with suppress(StoreError, OSError):
        record = read_record(path)
        return record.status in OPEN and _life(path, record) == ALIVE
    return False


@dataclass(frozen=True)
class Problem:
    """A difference between a run's files and its run.json, or a file that cannot be compared."""

    sentence: str
    is_foreign: bool = False
    """True if it is about a file that does not belong to the run."""
    is_unknown: bool = False
    """True if the system refuses to read the file, which may be unchanged."""


def problems_of(run: Run) -> Sequence[Problem]:
    """Return a problem for each difference between the run's files and its run.json, and for each unreadable file."""
    problems: list[Problem] = []
    for name in (RECORD, *run.record.files, ""):  # separately: an unreadable file must not hide other problems
        try:
            with reading(name or f"the folder {run.path.name}"):
                problems += _problems_of_file(run, name) if name else _foreign_files(run)
        except StoreError as error:
            problems.append(Problem(str(error.args[0]), is_unknown=isinstance(error, NotReadable)))
    return problems


def _problems_of_file(run: Run, name: str) -> Iterator[Problem]:
    if name == RECORD:
        if not is_as_written(run.path):
            yield Problem(f"{RECORD} was changed: its sha256 is not that of its other values.")
        return
    note = run.record.files[name]
    if (size := packed.sizes_of(run.path)(name)) is None:
        yield Problem(f"{name} is missing.")
    elif size != note.size:
        yield Problem(f"{name} has {size:,} bytes; run.json says {note.size:,}.")
    elif packed.sha256_of(run.path, name) != note.sha256:
        yield Problem(f"{name} was changed: its sha256 is not the one in run.json.")


def _foreign_files(run: Run) -> Iterator[Problem]:
    is_packed = packed.pack_of(run.path) is not None
    for name in packed.file_names(run.path) if is_packed else [path.name for path in artifacts(run.path)]:
        if name not in run.record.files:
            yield Problem(f"{visible(name)} is not a file of this run.", is_foreign=True)


class Library:
    """Several stores, the user's first; a run id is looked up in all of them."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores

    def list(self) -> Sequence[Run]:
        """Return the finished runs, the user's first, each store's newest first."""
        return [run for store in self.stores for run in store.list()]

    def unfinished(self) -> Sequence[Unfinished]:
        """Return the queued, running, failed and cancelled runs."""
        return [entry for store in self.stores for entry in store.unfinished()]

    def unreadable(self) -> Sequence[Unreadable]:
        """Return the folders that cannot be shown, with the reason."""
        return [entry for store in self.stores for entry in store.unreadable()]

    def open(self, run_id: str) -> Run:
        """Return the finished run with this id or unique prefix, or the newest run of the spec in `key:<spec key>`."""
        return self.newest(run_id.removeprefix(KEY)) if run_id.startswith(KEY) else self.store_of(run_id).open(run_id)

    def newest(self, key: str) -> Run:
        """Return the newest finished run of the spec with this key, the user's own first; raises RunNotFound."""
        newest = next((run for run in self.list() if run.record.key == key), None)
        if newest is None:
            raise RunNotFound(f"no run of the spec with the key {key[:12]}... is finished; make it first.")
        return newest

    def store_of(self, run_id: str) -> Store:
        """Return the store that holds this run; raises RunNotFound if no run or several runs match.

        Raises NotReadable if no run matches and a store cannot be listed.
        """
        matches, unlisted = [], None
        for store in self.stores:
            try:
                matches.append((store.resolve(run_id), store))
            except RunNotFound as error:
                if "is the beginning of" in str(error):
                    raise
            except StoreError as error:  # the run may be in one of the other stores
                unlisted = error
        exact = [store for name, store in matches if name == run_id]
        if len(matches) > 1 and not exact:
            names = ", ".join(name for name, _ in matches)
            raise RunNotFound(f"'{run_id}' is the beginning of {len(matches)} runs: {names}. Give more of it.")
        if not matches:
            if unlisted is not None:
                raise unlisted
            places = " or ".join(str(store.root) for store in self.stores)
            raise RunNotFound(
                f"there is no run '{run_id}' in {places}; `python -m skillviz runs list` shows what there is."
            )
        return (exact or [matches[0][1]])[0]


def library(runs_dir: Path | str | None = None) -> Library:
    """Return the user's store (see store_root), the store shared with it (see users), and the shipped runs."""
    root = store_root(runs_dir).resolve()
    roots = dict.fromkeys([root, shared_root(root), shipped_root().resolve()])
    return Library([Store(root) for root in roots])


def open_run(run: str, runs_dir: Path | str | None = None) -> Run:
    """Return the finished run for an id, a unique prefix or a folder; raises RunNotFound or CorruptRun."""
    folder = Path(expanded(run))
    if (folder / "run.json").is_file():
        folder = folder.resolve()
        return Store(folder.parent).open(folder.name)
    return library(runs_dir).open(run)
