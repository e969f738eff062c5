"""The table `scores`: every method's metrics, mean over seeds, with intervals over seeds and over examples too."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.intervals import SeedsInterval, percentile_interval, seeds_interval
from skillviz.core.metrics import metric_row
from skillviz.studies.observations import Observed
from skillviz.studies.resampled import Resampled, mean_draws, of_test
from skillviz.studies.tables import check

KEYS = ("base", "recipe", "setting", "id_task", "task", "split", "method", "localizer", "asked")
SORTED = ["id_task", "setting", "task", "split", "metric", "method", "recipe", "localizer", "size"]


def scores(found: Sequence[Observed], resampled: Resampled | None = None) -> pd.DataFrame:
    """One row a method, size, task, split and metric.

    Where there are several fine-tuned models, `seeds` are those, and each counts by the mean over its mask seeds; with
    one model they are its mask seeds. `low` and `high` speak of seeds alone and are missing for a single one;
    `pooled_low` and `pooled_high` of examples and seeds: drawn again together, or at sizes without stored predictions
    (and on validation) the mean reach of the runs' own intervals and that over seeds, added as squares.
    """
    drawn = resampled or of_test(found)
    rows = [_row(side, metric, drawn) for side in sides(found) for metric in side[0].metrics]
    frame = pd.DataFrame(rows)
    return check(frame.sort_values(SORTED, kind="stable") if len(frame) else frame, "scores")


def sides(found: Iterable[Observed]) -> list[list[Observed]]:
    """Observations that differ in their seeds alone, together."""
    groups: dict[tuple[str, ...], list[Observed]] = {}
    for one in found:
        groups.setdefault(tuple(getattr(one, key) for key in KEYS), []).append(one)
    return list(groups.values())


def by_unit(side: Sequence[Observed], metric: str) -> dict[Any, float]:
    """The metric by what the seeds are: by fine-tuned model where there are several, else by mask seed."""
    values = {one.unit: one.values[metric] for one in side if np.isfinite(one.values.get(metric, np.nan))}
    members = {member for member, _ in values}
    if len(members) < 2:
        return {seed: value for (_, seed), value in values.items()}
    ordered = sorted(values)
    grouped = itertools.groupby(ordered, key=lambda unit: unit[0])
    return {member: float(np.mean([values[unit] for unit in units])) for member, units in grouped}


def over_seeds(values: Iterable[float], metric: str = "") -> SeedsInterval:
    """Mean and t-interval of one value a seed, cut to what the metric can be; all missing without values."""
    defined = [value for value in values if np.isfinite(value)]
    if not defined:
        return SeedsInterval(np.nan, np.nan, np.nan, np.nan, 0)
    found = seeds_interval(defined)
    low, high = cut(metric, found.low, found.high)
    return found._replace(low=low, high=high)


def cut(metric: str, low: float, high: float) -> tuple[float, float]:
    """The ends of an interval, neither beyond what the metric can be; a missing one stays missing."""
    row = metric_row(metric)
    ends = np.clip([low, high], row.lowest, row.highest)
    return float(ends[0]), float(ends[1])


def _row(side: Sequence[Observed], metric: str, drawn: Resampled) -> dict[str, Any]:
    first = side[0]
    over = over_seeds(by_unit(side, metric).values(), metric)
    low, high = cut(metric, *_pooled(side, metric, drawn))
    return {
        **{key: getattr(first, key) for key in KEYS if key != "asked"},
        "size": mean_of(one.size for one in side), "share": mean_of(one.share for one in side),
        "touched": mean_of(one.touched for one in side), "metric": metric,
        "mean": over.value, "sd": over.sd, "low": over.low, "high": over.high,
        "pooled_low": low, "pooled_high": high, "seeds": over.n, "n": first.n,
    }  # fmt: skip


def _pooled(side: Sequence[Observed], metric: str, drawn: Resampled) -> tuple[float, float]:
    """Over examples and seeds; of a single observation the interval that it was stored with."""
    if len(side) == 1:
        return side[0].ends.get(metric, (np.nan, np.nan))
    draws = drawn.of(side, metric)
    values = [one.values.get(metric, np.nan) for one in side]
    over = over_seeds(by_unit(side, metric).values())
    if draws is not None and np.isfinite(values).all():
        ends = percentile_interval(over.value, mean_draws(draws))
        return ends.low, ends.high
    low, high = halves(side, metric)
    half = over.high - over.value if np.isfinite(over.high) else 0.0
    return over.value - float(np.hypot(half, low)), over.value + float(np.hypot(half, high))


def halves(side: Sequence[Observed], metric: str) -> tuple[float, float]:
    """How far the stored intervals over examples reach below and above their values, mean over the side."""
    rows = [(one.values.get(metric, np.nan), *one.ends.get(metric, (np.nan, np.nan))) for one in side]
    return mean_of(value - low for value, low, _ in rows), mean_of(high - value for value, _, high in rows)


def mean_of(values: Iterable[float]) -> float:
    """The mean; exactly the value where all are equal."""
    found = list(values)
    return found[0] if len(set(found)) == 1 else float(np.mean(found))
