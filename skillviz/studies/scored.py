"""Scores of a fine-tuned model, made and kept: whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from filelock import FileLock

from skillviz.atomic import sha256, write_file, write_text
from skillviz.runs import tables
from skillviz.runs.folder import now
from skillviz.runs.progress import Progress, Report, silent
from skillviz.runs.record import FileNote, TaskNote
from skillviz.runs.store import Store, written
from skillviz.studies.score import (
    PREDICTIONS,
    RECORD,
    Score,
    ScoreRecord,
    ScoreSpec,
    read_score,
    score_path,
)  # fmt: skip

if TYPE_CHECKING:
    from skillviz.runs.session import Session


def make_score(
    spec: ScoreSpec, store: Store, session: Session, *, device: str = "auto", progress: Report | None = None
) -> Score:
    """The scores, computed with the session's pair and stored; those that were there are replaced."""
    report, started = progress or silent, time.perf_counter()
    report(Progress("load", text="loading both models and the data"))
    asked = spec.run_spec(device)
    session.refuse_unfit(asked)
    fields, frame = _computed(spec, asked, session, report)
    target = score_path(store.root, spec)
    part = target.parent / f".new-{target.name}-{secrets.token_hex(3)}"
    with _alone(store.root, target):
        try:
            part.mkdir()
            _store(part, frame)
            path = part / PREDICTIONS
            files = {PREDICTIONS: FileNote(sha256=sha256(path), size=path.stat().st_size)}
            seconds = round(time.perf_counter() - started, 3)
            record = ScoreRecord(key=spec.key(), spec=spec, created=now(), seconds=seconds, files=files, **fields)
            write_text(part / RECORD, json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n")
            _swap(part, target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        found = read_score(target)
    assert found is not None
    return found


@contextmanager
def _alone(root: Path, target: Path) -> Iterator[None]:
    """While one stores these scores others wait; what a killed process left of them is taken away."""
    locks = target.parent / ".locks"
    with written(root):
        locks.mkdir(parents=True, exist_ok=True)
        with FileLock(locks / f"{target.name}.lock"):
            for left in (*target.parent.glob(f".new-{target.name}-*"), target.parent / f".old-{target.name}"):
                shutil.rmtree(left, ignore_errors=True)
            yield


def _computed(spec: ScoreSpec, asked: Any, session: Session, report: Report) -> tuple[dict[str, Any], pd.DataFrame]:
    """The fields of the record and the predictions."""
    from skillviz.models.device import describe
    from skillviz.runs.evaluate import scores
    from skillviz.runs.provenance import architecture_note, commit, model_note, task_note, versions
    from skillviz.runs.transfer_scores import prediction_rows

    pair, encoded = session.pair(asked), session.encoded(asked)
    task: TaskNote = task_note(session.task(asked), session.splits(asked))
    report(Progress("predict", text="scoring the pre-trained and the fine-tuned model"))
    ends = session.ends(asked)
    report(Progress("evaluate", text="intervals"))
    temperature, known = session.end_metrics(asked, task)
    transfer = None
    if spec.on is None:
        splits = {s: scores(z, encoded[s].labels, task, temperature, known[s]) for s, z in ends.items()}
        frames = [
            prediction_rows(z, encoded[s].ids, encoded[s].labels, task.name, s, task.labels) for s, z in ends.items()
        ]
    else:
        (other,) = session.others(asked)
        found = session.other_ends(asked, task)[other.task.name]
        labels = found.encoded.labels
        splits = {"test": scores(found.logits, labels, task, temperature, found.metrics)}
        transfer = other.note(pair.readout_name, labels, splits["test"])
        frames = [prediction_rows(found.logits, found.encoded.ids, labels, other.task.name, "test", task.labels)]
    fields = {
        "base": model_note(spec.base, pair.base_info), "finetuned": model_note(spec.finetuned, pair.finetuned_info),
        "task": task, "architecture": architecture_note(pair.table), "readout": pair.readout_name,
        "device": describe(pair.device), "temperature": temperature, "splits": splits, "transfer": transfer,
        "versions": versions(), "commit": commit(),
    }  # fmt: skip
    return fields, pd.concat(frames, ignore_index=True)


def _store(part: Path, frame: pd.DataFrame) -> None:
    checked = tables.check(frame, "predictions")
    write_file(part / PREDICTIONS, lambda to: checked.to_parquet(to, index=False, **tables.encoding(checked)))


def _swap(part: Path, target: Path) -> None:
    """Puts the finished folder in place; an old one is taken away only then."""
    old = target.parent / f".old-{target.name}"
    if target.exists():
        os.rename(target, old)
    os.rename(part, target)
    shutil.rmtree(old, ignore_errors=True)
