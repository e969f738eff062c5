"""Sufficiency and necessity of regions by size: the gain that a graft recovers, and the gain that is left without
the region. This is ours: PAPER.md has only the graft's curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.size_curve import by_size
from skillviz.analysis.tables import task_metric
from skillviz.core.intervals import recovered_gain
from skillviz.core.log_area import mean_over_log_size
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix

RECOVERED = "recovered"
HALF, MOST = 0.5, 0.95
"""The shares of the gain for which a size is reported: half (sufficiency and necessity), and nearly all."""


@dataclass(frozen=True)
class GainSize:
    """The share of the graftable parameters (0..1) at which a curve crosses a share of the gain.

    Linear in the logarithm of the share between the scored sizes. Between `low` and `high`, the curve's own 95%
    interval at each size contains that share of the gain: 0 means below the smallest scored size, infinity above the
    largest.
    """

    share: float
    low: float
    high: float
    smallest: float
    largest: float

    @property
    def is_crossed(self) -> bool:
        """True if the crossing is between two sizes that were scored."""
        return 0 < self.share < inf


def without_region(run: Run, split: str) -> pd.DataFrame:
    """The metrics of the complement at every size of a run: the columns of curve.parquet, for one split.

    `recovered` is the share of the gain that is left without the region. A run in a study's file may lack the table: it
    has only `recovered` at its main size, computed from its predictions, and no row without a complement or base.
    """
    stored = run.complement()
    if len(stored):
        return stored[stored["split"] == split]
    record, task = run.record, run.record.task
    rows = run.predictions()
    rows = rows[rows["split"] == split]
    states = {str(state): part for state, part in rows.groupby("state", sort=False)}
    if task is None or not record.size or not {"pretrained", "finetuned", "complement"} <= states.keys():
        return stored
    complement, pretrained, finetuned = (
        score_matrix(states[name], task.labels).astype(float) for name in ("complement", "pretrained", "finetuned")
    )
    labels, positive = states["finetuned"]["label"].to_numpy(), 1 if task.positive is None else task.positive
    left = recovered_gain(complement, pretrained, finetuned, labels, task.metric, positive=positive)
    row = {
        "localizer": run.spec.localizer, "seed": run.spec.seed, "size": record.size, "share": record.share,
        "dataset": task.name, "split": split, "metric": RECOVERED,
        "value": left.value, "low": left.low, "high": left.high,
    }  # fmt: skip
    return pd.DataFrame([row])


def restored_and_left(curve: pd.DataFrame, complement: pd.DataFrame) -> pd.DataFrame:
    """One row per `state` (grafted, complement) and size, with the columns of `size_curve.by_size`.

    `value` is the share of the gain that the graft recovers (grafted), or that is left without the region (complement).
    Both frames have the columns of curve.parquet, for one localizer, data set and split.
    """
    parts = []
    for state, rows in (("grafted", curve), ("complement", complement)):
        rows = rows[rows["metric"] == RECOVERED].dropna(subset=["value"]) if len(rows) else rows
        if len(rows):
            parts.append(by_size(rows, RECOVERED, per_run=()).assign(state=state))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["state", "share", "value"])


def gain_size(points: pd.DataFrame, state: str, level: float = HALF) -> GainSize | None:
    """The smallest region whose graft recovers `level` of the gain (`grafted`), or whose removal costs that much
    (`complement`); `points` come from `restored_and_left`. None if fewer than two sizes were scored."""
    rows = points[points["state"] == state].sort_values("share") if len(points) else points
    if len(rows) < 2:
        return None
    shares = rows["share"].to_numpy(float)
    value, low, high = (rows[name].to_numpy(float) for name in ("value", "low", "high"))
    if state == "complement":  # the loss rises with the size, like the recovered share
        value, low, high = 1 - value, 1 - high, 1 - low
    earliest, latest = _crossing(shares, high, level), _crossing(shares, low, level)
    return GainSize(_crossing(shares, value, level), earliest, latest, float(shares[0]), float(shares[-1]))


def areas(curves: Mapping[Any, pd.DataFrame]) -> pd.DataFrame:
    """One row per curve, in order: `value`, `low` and `high` of its mean over the logarithm of the size from `smallest`
    to `largest`, the range of shares that all curves of two or more sizes have in common.

    Curves have the columns share, value, low, high. The interval joins the intervals of the sizes as if their errors
    were perfectly correlated, so it is the widest that they allow. NaN for a curve of fewer than two sizes, and if
    there is no common range.
    """
    known = {name: rows.dropna(subset=["value"]) for name, rows in curves.items()}
    ends = [(rows["share"].min(), rows["share"].max()) for rows in known.values() if rows["share"].nunique() > 1]
    smallest, largest = max((low for low, _ in ends), default=inf), min((high for _, high in ends), default=0.0)
    table = []
    for rows in known.values():
        has_area = rows["share"].nunique() > 1 and smallest < largest
        columns = ("value", "low", "high")
        means = {
            name: mean_over_log_size(rows["share"], rows[name], smallest, largest) if has_area else np.nan
            for name in columns
        }
        table.append({**means, "smallest": smallest, "largest": largest, "sizes": rows["share"].nunique()})
    return pd.DataFrame(table, index=pd.Index(list(known), tupleize_cols=False))


def given_and_cost(points: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The curves of `restored_and_left` as shares of the gain: `given` by the graft, and the `cost` of its removal."""
    left = points[points["state"] == "complement"]
    cost = left.assign(value=1 - left["value"], low=1 - left["high"], high=1 - left["low"]) if len(left) else left
    return {"given": points[points["state"] == "grafted"], "cost": cost}


def study_areas(scores: pd.DataFrame) -> pd.DataFrame:
    """The areas of a study's table `scores`: for each model and search, the areas of its graft and of its
    complement, in the task's metric on the test set; the range of sizes is common to each task. NaN for a search of
    one size."""
    keys = ["base", "id_task", "setting", "readout", "recipe", "variant", "localizer", "search_variant", "state"]
    rows = scores[(scores["split"] == "test") & (scores["task"] == scores["id_task"]) & (scores["share"] > 0)]
    rows = rows[(rows["method"] == "complement") | rows["method"].str.startswith("graft")]
    rows = rows.assign(state=rows["method"].where(rows["method"] == "complement", "grafted")).rename(
        columns={"mean": "value"}
    )
    tables = [pd.DataFrame(columns=[*keys, "metric", "value"])]
    for _, of_task in rows.groupby("id_task", sort=False):
        metric = task_metric(of_task["metric"])
        groups = dict(iter(of_task[of_task["metric"] == metric].groupby(keys, sort=False)))
        names = pd.DataFrame(list(groups), columns=keys).assign(metric=metric)
        tables.append(names.join(areas(groups).reset_index(drop=True)))
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _crossing(shares: np.ndarray, values: np.ndarray, level: float) -> float:
    """The first share at which the values reach `level`: 0 if the first already does, infinity if none does."""
    reached = np.flatnonzero(values >= level)
    if not len(reached):
        return inf
    at = int(reached[0])
    if at == 0:
        return 0.0
    before, after = float(values[at - 1]), float(values[at])
    if not np.isfinite(before):
        return float(shares[at])
    way = (level - before) / (after - before)
    return exp(log(shares[at - 1]) + way * (log(shares[at]) - log(shares[at - 1])))
