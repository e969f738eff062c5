"""The table `scores`: every method's metrics, mean over seeds, with intervals over seeds and over examples too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.observations import Observation, sides
from skillviz.analysis.seeds import (
    Resampled,
    by_unit,
    cut,
    mean_of,
    on_examples,
    over_seeds,
    pooled_ends,
    resampled_tests,
    seed_draws,
)
from skillviz.analysis.tables import check
from skillviz.core.intervals import whole_and_resampled
from skillviz.core.metrics import metric_names, statistic
from skillviz.runs.metrics import positive
from skillviz.runs.record import TaskNote

SAME_COLUMNS = (
    "base",
    "recipe",
    "variant",
    "setting",
    "id_task",
    "task",
    "split",
    "method",
    "localizer",
    "search_variant",
)
SORTED = [
    "id_task", "setting", "readout", "task", "split", "metric", "method", "recipe", "variant", "localizer",
    "search_variant", "size",
]  # fmt: skip


def scores(observations: Sequence[Observation], resampled: Resampled | None = None) -> pd.DataFrame:
    """One row a method, size, task, split and metric.

    Where there are several fine-tuned models, `seeds` are those, and each counts by the mean over its mask seeds; with
    one model they are its mask seeds. `low` and `high` speak of seeds alone and are missing for a single one;
    `pooled_low` and `pooled_high` of examples and seeds: drawn again together, or at sizes without stored predictions
    (and on validation) the mean reach of the runs' own intervals and that over seeds, added as squares.
    """
    drawn = resampled or resampled_tests(observations)
    rows = [_row(side, metric, drawn) for side in sides(observations) for metric in side[0].metrics]
    frame = pd.DataFrame(rows)
    return check(frame.sort_values(SORTED, kind="stable") if len(frame) else frame, "scores")


def _row(side: Sequence[Observation], metric: str, drawn: Resampled) -> dict[str, Any]:
    first = side[0]
    over = over_seeds(by_unit(side, metric).values(), metric)
    low, high = cut(metric, *pooled_ends(side, metric, drawn))
    return {
        **{name: getattr(first, name) for name in SAME_COLUMNS}, "readout": first.shown_readout,
        "size": mean_of(one.size for one in side), "share": mean_of(one.share for one in side),
        "touched": mean_of(one.touched for one in side), "metric": metric,
        "mean": over.value, "sd": over.sd, "low": over.low, "high": over.high,
        "pooled_low": low, "pooled_high": high, "seeds": over.n, "n": first.n,
    }  # fmt: skip


def score_rows(
    logits: Sequence[np.ndarray], labels: np.ndarray, task: TaskNote, columns: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """One row of `scores` a metric (the task's own first) of several seeds' logits [n, label] on the same examples.

    `columns` are those that do not depend on the metric; variants and readout are empty where they are not among them.
    """
    n = len(labels)
    names = metric_names(task.metric)
    of = [[statistic(name, np.asarray(z, np.float64), labels, positive(task)) for z in logits] for name in names]
    drawn = iter(whole_and_resampled([f for row in of for f in row], n))
    common = {"variant": "", "search_variant": "", "readout": "", **columns}
    rows = []
    for name, row in zip(names, of, strict=True):
        over, low, high = on_examples(name, seed_draws([next(drawn) for _ in row], 1), n)
        estimate = {"mean": over.value, "sd": over.sd, "low": over.low, "high": over.high, "seeds": over.n, "n": n}
        rows.append({**common, "metric": name, **estimate, "pooled_low": low, "pooled_high": high})
    return rows
