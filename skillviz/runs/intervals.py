"""The intervals of calibration, of paired accuracies and of recovered gains of runs and scores stored before schema
version 9.

They stand in a table beside the runs. What is stored is never changed, and these `low` and `high` in it are legacy:
before version 3 percentile bootstraps, which lie above the true calibration error, and know too little where two models
differ on few examples (a random region's gain was 0, with an interval from 0 to 0); later too narrow where a gap
changes its sign, or with equal mass. Where a record is read they are replaced by the rows of `intervals.parquet`,
computed from the stored predictions without a model. A run without rows there gets them when it is first read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skillviz import read_only
from skillviz.atomic import write_file
from skillviz.core.intervals import metric_difference, metric_interval
from skillviz.core.metrics import METRICS
from skillviz.errors import DiskFull, SkillvizError
from skillviz.regular_file import regular
from skillviz.runs import tables
from skillviz.runs.metrics import SCALED, estimate, recovered, with_scaled
from skillviz.runs.record import Estimate, RunRecord, Scores, TaskNote, TransferNote

FILE = "intervals.parquet"
PREDICTIONS = "predictions.parquet"
METHOD = 6
"""Raised with every change of core/ that changes an interval of the table: older rows are then made again."""
CALIBRATION = tuple(name for name, metric in METRICS.items() if metric.interval == "calibration")
PAIRED = (*CALIBRATION, "accuracy")
"""The metrics whose paired differences are in the table."""
DIFFERENCES = {"differences": "finetuned", "scaled_differences": SCALED}
"""The fields of Scores that hold paired differences, and what is subtracted from the graft there."""
RECOVERED = "recovered"  # among the states and fields of differences
TEXTS = ("run", "dataset", "split", "of", "metric")
COLUMNS = (*TEXTS, "value", "debiased", "low", "high", "method")

Rows = Mapping[tuple[str, str, str, str], tuple[float | None, float | None, float | None]]
"""Dataset, split, state or field of differences, metric -> debiased, low and high of one run."""


def with_intervals(record: RunRecord, folder: Path) -> RunRecord:
    """The record of a run of an older version with the intervals that hold."""
    if not record.metrics or record.task is None:
        return record
    own = record.task.name
    rows = _rows(folder, folder.name, own, record.metrics, record.transfers, record.task, record.temperature)
    metrics = {split: replaced(scores, rows, own, split, record.metric) for split, scores in record.metrics.items()}
    transfers = replaced_transfers(record.transfers, rows, record.metric)
    return record.model_copy(update={"metrics": metrics, "transfers": transfers})


def replaced_transfers(transfers: tuple[TransferNote, ...], rows: Rows, metric: str) -> tuple[TransferNote, ...]:
    """The scores on other tasks with these intervals."""
    return tuple(
        note.model_copy(update={"scores": replaced(note.scores, rows, note.name, "test", metric)}) for note in transfers
    )


def replaced(scores: Scores, rows: Rows, dataset: str, split: str, gained_in: str) -> Scores:
    """The scores with these intervals; a calibration error without a row keeps its value alone.

    `gained_in` is the task's metric, in which the recovered gain is measured.
    """

    def of(name: str, metrics: Mapping[str, Estimate], names: Sequence[str]) -> dict[str, Estimate]:
        return {
            metric: _row(rows, (dataset, split, name, metric), one) if metric in names else one
            for metric, one in metrics.items()
        }

    states = {state: of(state, metrics, CALIBRATION) for state, metrics in scores.states.items()}
    differences = {field: of(field, getattr(scores, field), PAIRED) for field in DIFFERENCES}
    gain = scores.recovered and _row(rows, (dataset, split, RECOVERED, gained_in), scores.recovered)
    return scores.model_copy(update={"states": states, **differences, "recovered": gain})


def _row(rows: Rows, key: tuple[str, str, str, str], stored: Estimate) -> Estimate:
    """The row's interval about the stored value, which stays what it is to the last bit."""
    row = rows.get(key)
    if row is None:
        return Estimate(value=stored.value) if key[3] in CALIBRATION else stored
    debiased, low, high = row
    return Estimate.model_construct(value=stored.value, debiased=debiased, low=low, high=high)


def score_rows(
    folder: Path,
    splits: Mapping[str, Scores],
    dataset: str,
    task: TaskNote,
    temperature: float | None,
) -> Rows:
    """The same of the scores of a fine-tuned model, `scores/<folder>`, on one data set."""
    return _rows(folder, f"{folder.parent.name}/{folder.name}", dataset, splits, (), task, temperature)


def table(root: Path) -> pd.DataFrame:
    """The table of a store, without rows where there is none that can be read: it can always be made again."""
    try:
        return pd.read_parquet(regular(root / FILE))[list(COLUMNS)]
    except (OSError, ValueError, KeyError):
        return pd.DataFrame(columns=list(COLUMNS))


def write(root: Path, frame: pd.DataFrame) -> None:
    """Stores the table of a store, sorted; raises OSError or DiskFull."""
    ordered = frame.sort_values(list(TEXTS), ignore_index=True)
    ordered = ordered.astype({**dict.fromkeys(COLUMNS[5:9], "float64"), "method": "int64"})
    write_file(root / FILE, lambda part: ordered.to_parquet(part, index=False, **tables.encoding(ordered)))


def computed(
    folder: Path,
    name: str,
    dataset: str,
    splits: Mapping[str, Scores],
    transfers: tuple[TransferNote, ...],
    task: TaskNote,
    temperature: float | None,
) -> pd.DataFrame:
    """The rows of one run or of the scores `name`, from its predictions; none where they cannot be read."""
    try:
        predictions = pd.read_parquet(regular(folder / PREDICTIONS))
        wanted = [(dataset, split, scores) for split, scores in splits.items()]
        wanted += [(note.name, "test", note.scores) for note in transfers]
        rows = [row for one in wanted for row in _of_split(predictions, *one, task, temperature)]
    except (OSError, ValueError, KeyError, SkillvizError):
        rows = []
    frame = pd.DataFrame(rows, columns=[*TEXTS[1:], *COLUMNS[5:9]])
    return frame.assign(run=name, method=METHOD)[list(COLUMNS)]


def _of_split(
    predictions: pd.DataFrame,
    dataset: str,
    split: str,
    scores: Scores,
    task: TaskNote,
    temperature: float | None,
) -> Iterator[dict[str, Any]]:
    frame = predictions[(predictions["dataset"] == dataset) & (predictions["split"] == split)]
    columns = tables.logit_columns(task.labels)
    logits = {str(state): rows[columns].to_numpy(np.float32) for state, rows in frame.groupby("state", sort=False)}
    if not logits:
        return
    y = frame.loc[frame["state"] == frame["state"].iloc[0], "label"].to_numpy()
    logits = with_scaled(logits, temperature if SCALED in scores.states else None)
    common = {"dataset": dataset, "split": split}
    for state in scores.states.keys() & logits.keys():
        for metric in scores.states[state].keys() & set(CALIBRATION):
            one = estimate(metric_interval(logits[state], y, metric))
            yield {**common, "of": state, "metric": metric, **one.columns()}
    for field, other in DIFFERENCES.items():
        for metric in getattr(scores, field).keys() & set(PAIRED):
            less = estimate(metric_difference(logits["grafted"], logits[other], y, metric))
            yield {**common, "of": field, "metric": metric, **less.columns()}
    if scores.recovered is not None:
        yield {**common, "of": RECOVERED, "metric": task.metric, **recovered(logits, y, task).columns()}


def _rows(
    folder: Path,
    name: str,
    dataset: str,
    splits: Mapping[str, Scores],
    transfers: tuple[TransferNote, ...],
    task: TaskNote,
    temperature: float | None,
) -> Rows:
    """The rows of one run: those of the table, else computed now and stored where the folder can be written."""
    root = folder.parents[name.count("/")]
    rows = _stored(root).get(name)
    if rows is None:
        frame = computed(folder, name, dataset, splits, transfers, task, temperature)
        rows = _by_run(frame).get(name, {})
        if len(frame) and not read_only.is_on():
            with suppress(OSError, DiskFull):
                rest = table(root)
                write(root, pd.concat([rest[rest["run"] != name], frame]) if len(rest) else frame)
    return rows


def _stored(root: Path) -> Mapping[str, Rows]:
    """Run -> rows, of the table of a store; a table that has not changed is not read again."""
    try:
        state = (root / FILE).stat()
    except OSError:
        return {}
    return _read(root, state.st_ino, state.st_mtime_ns)


@lru_cache(maxsize=4)
def _read(root: Path, inode: int, changed: int) -> Mapping[str, Rows]:
    frame = table(root)
    return _by_run(frame[frame["method"] == METHOD])


def _by_run(frame: pd.DataFrame) -> Mapping[str, Rows]:
    """The rows of each run. Columns as lists: a list of 437 runs waits for this, and rows of a frame are slow."""
    texts = zip(*(frame[name].tolist() for name in TEXTS[1:]), strict=True)
    ends = [[None if x != x else x for x in frame[name].astype(float).tolist()] for name in ("debiased", "low", "high")]
    runs: dict[str, dict[Any, Any]] = {}
    for run, key, row in zip(frame["run"].tolist(), texts, zip(*ends, strict=True), strict=True):
        runs.setdefault(run, {})[key] = row
    return runs
