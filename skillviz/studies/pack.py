"""Pack the results of a study: its runs in one file (runs/packed.py), its scores and its own folder, no models."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from skillviz.atomic import folder_lock, remove_folder, whole_folder, write_file
from skillviz.core.comparison import Comparison
from skillviz.errors import BadInput, CorruptRun
from skillviz.regular_file import is_regular
from skillviz.runs.artifact import LOCALIZE, SCORE
from skillviz.runs.folder import record_text
from skillviz.runs.packed import FILE, bytes_of, file_names, pack_of, packed_runs, write_pack
from skillviz.runs.run import RANKING, RECORD, Run, read_record
from skillviz.runs.score import Score
from skillviz.runs.store import Store, problems_of, written
from skillviz.studies.federated import FEDERATED
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot
from skillviz.studies.store import open_study, study_path
from skillviz.tasks.definition import compared

Files = Mapping[str, Callable[[], bytes]]


@dataclass(frozen=True)
class Packed:
    """The numbers of runs and scores that were packed or copied, of existing ones, and of the bytes written."""

    runs: int
    scores: int
    there: int
    bytes: int
    path: Path


def pack(
    study: StudySpec, store: Store, to: Store, *, rankings: bool = True, as_folders: Collection[str] = ()
) -> Packed:
    """Pack the finished runs of a study into one file in its folder in `to`, and copy its scores and tables there.

    Files of runs are packed byte for byte. Without `rankings` their records leave out ranking.safetensors, and only the
    stored sizes can be cut. Runs in `as_folders` (ids) become folders in `to`. If `to` already has a run of the same
    models and data, under any id, that run is kept; scores of other models or data are replaced. If `to` is the study's
    own store, the folders of packed runs are removed after the file has been read back. Raises BadInput if the study
    has no tables yet, CorruptRun if a file of a run was changed.
    """
    here = Snapshot(study_plan(study), store)
    source, target = (study_path(root, study) for root in (store.root, to.root))
    folder = open_study(source)
    if folder is None or not folder.record.files:
        raise BadInput(f"the study '{study.name}' has no tables in {store.root}; make them with `study run`.")
    is_own = to.root.resolve() == store.root.resolve()
    finished: Mapping[str, Any] = Snapshot(study_plan(study), to).finished
    runs: Mapping[str, Run] = here.of(LOCALIZE)
    if is_own:
        there = [run for run in runs.values() if pack_of(run.path) is not None or run.id in as_folders]
    else:
        there = [r for key, r in runs.items() if to.has(r.id) or (key in finished and _is_same(finished[key], r))]
    new = [run for run in runs.values() if run not in there]
    before = packed_runs(target / FILE) if is_regular(target / FILE) else {}
    files: dict[str, Files] = {
        run: {name: partial(bytes_of, path, name) for name in (RECORD, *file_names(path))}
        for run, path in before.items()
    }
    files |= {run.id: _files_of(run, rankings) for run in new if run.id not in as_folders}
    scores, n_bytes = 0, 0
    with written(to.root):
        for run in new:
            if run.id in as_folders:
                n_bytes += _written(to.root / run.id, _files_of(run, rankings))
        if is_own and new:
            write_file(target / FILE, partial(write_pack, runs=files))
            for run in new:
                path = target / FILE / run.id
                if problems := problems_of(Run(path, read_record(path))):
                    raise CorruptRun(f"{path} cannot be read back: {problems[0].sentence} No folder is removed.")
            for run in new:
                remove_folder(run.path)
        if not is_own:
            for key, score in here.of(SCORE).items():
                if not (key in finished and _is_same(finished[key], score)):
                    n_bytes += _copied(score.path, store, to, score.record.files)
                    scores += 1
            for federation in here.of(FEDERATED).values():
                n_bytes += _copied(federation.path, store, to)
            own = ("study.yaml", "study.json", *folder.record.files)
            with whole_folder(target, replace=True) as draft:
                for name in own:
                    shutil.copyfile(source / name, draft / name)
                if files:
                    write_pack(draft / FILE, files)
    n_bytes += sum(path.stat().st_size for path in target.iterdir() if path.is_file())
    n_there = len(there) + (0 if is_own else len(here.of(SCORE)) - scores)
    return Packed(len(new), scores, n_there, n_bytes, target)


def _is_same(one: Run | Score, other: Run | Score) -> bool:
    """True if models, data and task are the same: a spec names folders and files, whose content may have changed."""
    tasks = [artifact.record.task.definition if artifact.record.task is not None else "" for artifact in (one, other)]
    return _made_of(one) == _made_of(other) and compared(*tasks) is Comparison.SAME


def _made_of(artifact: Run | Score) -> list[str]:
    """Return the fingerprints of the models and the data."""
    notes = (artifact.record.base, artifact.record.finetuned, artifact.record.task)
    return [note.fingerprint if note is not None else "" for note in notes]


def _files_of(run: Run, rankings: bool) -> Files:
    """Return the files of a run in packed form, each checked against the record."""

    def checked(name: str, sha256: str) -> bytes:
        content = bytes_of(run.path, name)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise CorruptRun(
                f"{name} of {run.id} was changed: its sha256 is not the one in {RECORD}. Nothing is packed."
            )
        return content

    kept = {name: note for name, note in run.record.files.items() if rankings or name != RANKING}
    record = run.record.model_copy(update={"files": kept})
    as_written = kept == run.record.files
    return {
        RECORD: partial(bytes_of, run.path, RECORD) if as_written else record_text(record).encode,
        **{name: partial(checked, name, note.sha256) for name, note in kept.items()},
    }


def _copied(record: Path, store: Store, to: Store, beside: Collection[str] = ()) -> int:
    """Copy a record to its place in another store, last the record itself, and return the number of bytes.

    `beside` are the names of the files that belong to it."""
    folder, names = to.root / record.parent.relative_to(store.root), (*beside, record.name)
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder / record.name):
        for name in names:
            write_file(folder / name, partial(shutil.copyfile, record.parent / name))
    return sum((folder / name).stat().st_size for name in names)


def _written(target: Path, files: Files) -> int:
    """Write the files to the folder `target` atomically, and return the number of bytes."""
    with whole_folder(target, replace=True) as draft:
        for name, content in files.items():
            (draft / name).write_bytes(content())
        return sum(path.stat().st_size for path in draft.iterdir())
