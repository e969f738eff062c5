"""Scores of a fine-tuned model, made and kept: whole or not at all."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pandas as pd

from skillviz.atomic import folder_lock, sha256, whole_folder
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
    with written(store.root), folder_lock(target):
        with whole_folder(target, replace=True) as draft:
            path = draft / PREDICTIONS
            checked = tables.check(frame, "predictions")
            checked.to_parquet(path, index=False, **tables.encoding(checked))
            files = {PREDICTIONS: FileNote(sha256=sha256(path), size=path.stat().st_size)}
            seconds = round(time.perf_counter() - started, 3)
            record = ScoreRecord(key=spec.key(), spec=spec, created=now(), seconds=seconds, files=files, **fields)
            text = json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
            (draft / RECORD).write_text(text, encoding="utf-8")
        scores = read_score(target)
    assert scores is not None
    return scores


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
