"""Metrics and confidence histograms of many models on the same examples, as in the WiSE grid.

All points share their resamples. So a grid costs little more than one point, and every interval equals the one from
`runs.metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.calibration import reliability
from skillviz.core.generation import Generated
from skillviz.core.intervals import metric_difference, percentile_interval, spread_interval, whole_and_resampled
from skillviz.core.metrics import METRICS, metric_names, score, statistic
from skillviz.core.scores import checked_logits
from skillviz.runs import tables
from skillviz.runs.metrics import estimate, metrics, positive
from skillviz.runs.record import TaskNote

MOST_SIZES = 5
DIFFERENCE = "_difference"

Point = tuple[Mapping[str, Any], np.ndarray]
"""The columns that identify a point, and its logits [n, label]."""


def grid_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a run in its grid: the main one and the next, at most five, smallest first."""
    return tuple(sorted(sizes[:MOST_SIZES]))


def metric_rows(
    points: Sequence[Point], labels: np.ndarray, task: TaskNote, reference: np.ndarray
) -> list[dict[str, Any]]:
    """Return one row per point and metric: the point's columns, metric, value, debiased, low, high.

    The metrics are as in `runs.metrics.metrics`. For the metrics of `metric_names` there is also `<metric>_difference`,
    the paired difference to `reference` (logits of the fine-tuned model on the same examples).
    """
    scored = score(reference, labels, task.metric, positive(task))
    names = [name for name in scored if METRICS[name].interval == "bootstrap"]
    compared = metric_names(task.metric)
    shared = [name for name in compared if METRICS[name].interval == "bootstrap" and not METRICS[name].of_predictions]
    values = [_values(logits, labels, task, names) for _, logits in points]
    values.append(_values(reference, labels, task, shared))
    draws_in_turn = iter(whole_and_resampled([of for point in values for of in point.values()], len(labels)))
    *resampled_points, end = [{name: next(draws_in_turn) for name in point} for point in values]
    rows = []
    for (common, logits), drawn in zip(points, resampled_points, strict=True):
        row = {name: estimate(spread_interval(*drawn[name])) for name in names}
        row |= metrics(logits, labels, task, [name for name in scored if name not in names])
        for name in compared:
            if name not in shared:
                less = metric_difference(logits, reference, labels, name, positive(task))
                row[name + DIFFERENCE] = estimate(less)
                continue
            (value, draws), (base, base_draws) = drawn[name], end[name]
            row[name + DIFFERENCE] = estimate(percentile_interval(value - base, draws - base_draws))
        rows += [{**common, "metric": name, **one.columns()} for name, one in row.items()]
    return rows


def bin_rows(points: Sequence[Point], labels: np.ndarray) -> pd.DataFrame:
    """Return one row per point and confidence bin (15 of equal width).

    The columns are the point's, bin, count, correct and confidence. `confidence` is the bin's mean, missing for an
    empty bin. References give no rows.
    """
    parts = []
    if any(isinstance(logits, Generated) for _, logits in points):  # references have no confidence in a class
        return tables.empty("interpolation_bins")[[*points[0][0], "bin", "count", "correct", "confidence"]]
    for common, logits in points:
        bins = reliability(logits, labels)
        right = np.rint(bins["accuracy"].fillna(0) * bins["count"]).astype("int64")
        parts.append(bins[["bin", "count", "confidence"]].assign(correct=right, **common))
    return pd.concat(parts, ignore_index=True)


def _values(logits: np.ndarray, labels: np.ndarray, task: TaskNote, names: Sequence[str]) -> dict[str, Any]:
    return {name: statistic(name, *checked_logits(logits, labels), positive(task)) for name in names}
