"""Accuracy of every task after every stage of continual learning, and that grafting leaves earlier answers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.intervals import Interval, paired_bootstrap, percentile_interval, resampled_values, wilson
from skillviz.core.metrics import METRICS, statistic, with_own
from skillviz.errors import BadData
from skillviz.runs.evaluate import positive
from skillviz.runs.record import TaskNote
from skillviz.runs.tables import LOGIT

NAIVE, GRAFTING, INDEPENDENT = MODES = ("naive", "grafting", "independent")
RESAMPLES = 1000


@dataclass(frozen=True)
class Answers:
    """A model's class scores [n, label] on a task's unseen test examples, by id."""

    task: TaskNote
    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray


Stages = Mapping[tuple[int, str], Answers]
"""Of one mode: by stage (from 1) and task name."""


def answers(predictions: pd.DataFrame, task: TaskNote, seen: frozenset[str], state: str = "finetuned") -> Answers:
    """What a table of predictions holds of the task's own test set in this state, without the examples `seen`."""
    rows = predictions[(predictions["state"] == state) & (predictions["split"] == "test")]
    rows = rows[(rows["dataset"] == task.name) & ~rows["example_id"].isin(seen)].sort_values("example_id")
    logits = rows[[LOGIT + label for label in task.labels]].to_numpy(np.float64)
    return Answers(task, rows["example_id"].to_numpy(object), rows["label"].to_numpy(), logits)


def stage_rows(mode: str, found: Stages, order: Sequence[str]) -> list[dict[str, Any]]:
    """One row a stage, task and metric, with the paired change since the task's own stage."""
    rows = []
    for (stage, task), own in sorted(found.items()):
        first = found.get((order.index(task) + 1, task))
        told = {"mode": mode, "stage": stage, "stage_task": order[stage - 1], "task": task, "n": len(own.labels)}
        for metric in with_own(own.task.metric, ("accuracy", "ece")):
            rows.append({**told, "metric": metric, **estimate(own, metric), **_change(own, first, metric)})
    return rows


def estimate(own: Answers, metric: str) -> dict[str, float]:
    """value, low and high of a metric."""
    n = len(own.labels)
    of = statistic(metric, own.logits, own.labels, positive(own.task))
    value = float(of(np.ones((1, n)))[0])
    if METRICS[metric].interval == "wilson":
        low, high = wilson(round(value * n), n)
        return {"value": value, "low": low, "high": high}
    return percentile_interval(value, resampled_values([of], n, RESAMPLES, 0)[0])._asdict()


def difference(a: Answers, b: Answers, metric: str) -> Interval:
    """a - b on the same examples; raises BadData where they were not asked the same."""
    _refuse_unlike(a, b)
    return paired_bootstrap(a.logits, b.logits, a.labels, metric, RESAMPLES, positive=positive(a.task))


def refuse_changed(found: Stages, order: Sequence[str]) -> None:
    """Raises BadData where an earlier task's logits after a later stage are not bit for bit those right after its own.

    In grafting this cannot happen: later training moves no entry that an earlier task's model is made of.
    """
    for (stage, task), own in sorted(found.items()):
        first = found.get((order.index(task) + 1, task))
        if first is None or first is own:
            continue
        _refuse_unlike(own, first)
        changed = int((own.logits != first.logits).any(axis=1).sum())
        if changed:
            other = int((own.logits.argmax(axis=1) != first.logits.argmax(axis=1)).sum())
            raise BadData(
                f"after stage {stage} the grafting model answers {changed:,} of {len(own.ids):,} test examples of "
                f"'{task}' otherwise than after its own stage (other logits; {other:,} other predictions), which later "
                "training must not change; the stored stages are wrong: delete the member's folder and run the study "
                "again."
            )


def _change(own: Answers, first: Answers | None, metric: str) -> dict[str, float]:
    found = Interval(np.nan, np.nan, np.nan) if first is None else difference(own, first, metric)
    return {"change": found.value, "change_low": found.low, "change_high": found.high}


def _refuse_unlike(a: Answers, b: Answers) -> None:
    if not np.array_equal(a.ids, b.ids) or not np.array_equal(a.labels, b.labels):
        raise BadData(f"'{a.task.name}' was not scored on the same test examples at both stages; score it again.")
