"""What a study has made, copied into another store: its runs, its scores and its own folder, without the models."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillviz.atomic import sha256, whole_folder
from skillviz.core.comparison import Comparison
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.runs.artifact import LOCALIZE, SCORE
from skillviz.runs.folder import record_text
from skillviz.runs.record import FileNote
from skillviz.runs.run import RANKING, RECORD, REGION, Run
from skillviz.runs.score import Score
from skillviz.runs.store import Store, written
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot
from skillviz.studies.store import FOLDER, open_study, study_path
from skillviz.tasks.definition import compared


@dataclass(frozen=True)
class Packed:
    """How many runs and scores were copied, how many were there already, and the bytes written."""

    runs: int
    scores: int
    there: int
    bytes: int
    path: Path


def pack(study: StudySpec, store: Store, to: Store, *, rankings: bool = True) -> Packed:
    """Copies the finished runs, scores and tables of a study into another store, each whole or not at all.

    Without `rankings` runs go without ranking.safetensors, which is most of their bytes: their main region stays, and
    other sizes can no longer be cut from it. Region files are written compact. A run that `to` holds already of the
    same models and data, under whatever id, is not copied again; scores of others are replaced. Raises BadInput where
    the study has no tables yet.
    """
    here = Snapshot(plan(study), store)
    there: Mapping[str, Any] = Snapshot(plan(study), to).finished
    source = study_path(store.root, study)
    folder = open_study(source)
    if folder is None or not folder.record.files:
        raise BadInput(f"the study '{study.name}' has no tables in {store.root}; make them with `study run`.")
    if to.root.resolve() == store.root.resolve():
        raise BadInput(f"{to.root} is the store that the study is in; name another folder to pack it to.")
    counts = {"runs": 0, "scores": 0, "there": 0, "bytes": 0}
    with written(to.root):
        for key, run in here.of(LOCALIZE).items():
            is_there = (to.root / run.id).exists() or (key in there and _is_same(there[key], run))
            _count(counts, "runs", 0 if is_there else _copied_run(run, to.root, rankings))
        for key, score in here.of(SCORE).items():
            target, names = to.root / score.path.relative_to(store.root), ("score.json", *score.record.files)
            is_there = key in there and _is_same(there[key], score)
            _count(counts, "scores", 0 if is_there else _copied(score.path, target, names))
        target = to.root / FOLDER / source.name
        counts["bytes"] += _copied(source, target, ("study.yaml", "study.json", *folder.record.files))
    return Packed(**counts, path=target)


def _is_same(one: Run | Score, other: Run | Score) -> bool:
    """Whether models, data and task are the same: a spec names folders and files, whose content may have changed."""
    tasks = [artifact.record.task.definition if artifact.record.task is not None else "" for artifact in (one, other)]
    return _made_of(one) == _made_of(other) and compared(*tasks) is Comparison.SAME


def _made_of(artifact: Run | Score) -> list[str]:
    """Fingerprints of the models and the data."""
    notes = (artifact.record.base, artifact.record.finetuned, artifact.record.task)
    return [note.fingerprint if note is not None else "" for note in notes]


def _copied_run(run: Run, root: Path, rankings: bool) -> int:
    """The bytes written for a run."""
    kept = {name: note for name, note in run.record.files.items() if rankings or name != RANKING}

    def compacted(part: Path) -> None:
        """Writes the region anew, and the record that vouches for it."""
        path = part / REGION
        if REGION in kept:
            region = run.region()
            own = ("format", "version", "size", "d", "shapes")
            header = {name: value for name, value in run.region_header().items() if name not in own}
            region.save(path, header, compact=True)
            if Region.load(path) != region:
                raise BadInput(f"the region of {run.id} could not be written compact; nothing was copied.")
            kept[REGION] = FileNote(sha256=sha256(path), size=path.stat().st_size)
        record = run.record.model_copy(update={"files": kept})
        (part / RECORD).write_text(record_text(record, None), encoding="utf-8")

    return _copied(run.path, root / run.id, tuple(kept), compacted)


def _copied(source: Path, target: Path, names: tuple[str, ...], changed: Callable[[Path], None] | None = None) -> int:
    """The bytes written to the folder `target`: these files of `source`, changed in place."""
    with whole_folder(target, replace=True) as draft:
        for name in names:
            shutil.copyfile(source / name, draft / name)
        if changed is not None:
            changed(draft)
        return sum(path.stat().st_size for path in draft.iterdir())


def _count(counts: dict[str, int], kind: str, written_bytes: int) -> None:
    counts[kind if written_bytes else "there"] += 1
    counts["bytes"] += written_bytes
