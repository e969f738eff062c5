"""Rows of the table `scores` from logits: mean over seeds, and intervals over seeds and over examples and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skillviz.core.intervals import percentile_interval, resampled_values, wilson
from skillviz.core.metrics import METRICS, statistic, with_own
from skillviz.runs.evaluate import positive
from skillviz.runs.record import TaskNote
from skillviz.studies.means import cut, over_seeds
from skillviz.studies.resampled import seeds_drawn

RESAMPLES = 1000


def score_rows(
    logits: Sequence[np.ndarray], labels: np.ndarray, task: TaskNote, common: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """One row a metric (the task's own first) of several seeds' logits [n, label] on the same examples.

    `common` holds the columns that do not depend on the metric. A single seed has no interval over seeds; its pooled
    one is Wilson's for accuracy.
    """
    n = len(labels)
    names = with_own(task.metric)
    of = [[statistic(name, np.asarray(z, np.float64), labels, positive(task)) for z in logits] for name in names]
    drawn = iter(resampled_values([f for row in of for f in row], n, RESAMPLES, 0))
    rows = []
    for name, row in zip(names, of, strict=True):
        values = np.array([float(f(np.ones((1, n)))[0]) for f in row])
        draws = np.stack([next(drawn) for _ in row])
        ends = cut(name, *_pooled(name, values, draws, n))
        over = over_seeds(values, name)
        told = {"mean": over.value, "sd": over.sd, "low": over.low, "high": over.high, "seeds": over.n, "n": n}
        rows.append({**common, "metric": name, **told, "pooled_low": ends[0], "pooled_high": ends[1]})
    return rows


def _pooled(name: str, values: np.ndarray, draws: np.ndarray, n: int) -> tuple[float, float]:
    if METRICS[name].interval == "wilson" and len(values) == 1:
        return wilson(round(float(values[0]) * n), n)
    found = percentile_interval(float(values.mean()), seeds_drawn(draws, np.random.default_rng(1)))
    return found.low, found.high
