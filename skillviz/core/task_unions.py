"""Regions of several tasks: unions and intersections, what chance would cover, and the relative gain (paper, Eq. 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.intervals import LEVEL, Interval, percentile_interval
from skillviz.core.overlap import Regions
from skillviz.core.region import Region
from skillviz.core.resample import draws
from skillviz.core.scores import Floats
from skillviz.errors import BadData, BadInput

__all__ = [
    "chance_intersection", "chance_union", "gain_interval", "gain_lost", "intersection", "relative_gain", "union",
    "unions",
]  # fmt: skip


def union(regions: Regions, names: Iterable[str] | None = None) -> Region:
    """The entries of any of the named regions (all of them by default)."""
    return reduce(Region.union, _named(regions, names))


def intersection(regions: Regions, names: Iterable[str] | None = None) -> Region:
    """The entries that all of the named regions share (all of them by default)."""
    return reduce(Region.intersection, _named(regions, names))


def unions(regions: Regions, groups: Iterable[Sequence[str]]) -> dict[str, Region]:
    """The union of each group of names, as `a+b` in the groups' order."""
    return {"+".join(group): union(regions, group) for group in groups}


def chance_union(sizes: Sequence[int], d: int) -> float:
    """Share of all d entries that independent random regions of these sizes cover together, on average.

    1 - prod(1 - s / d): also the share of any other region that their union covers by chance.
    """
    return 1 - prod(1 - share for share in _shares(sizes, d))


def chance_intersection(sizes: Sequence[int], d: int) -> float:
    """Share of all d entries that independent random regions of these sizes have in common, on average."""
    return prod(_shares(sizes, d))


def relative_gain(grafted: ArrayLike, pretrained: ArrayLike, finetuned: ArrayLike) -> Floats:
    """(P_gamma - P_0) / (P_1 - P_0), elementwise (paper, Eq. 5); below 0 and above 1 are possible.

    NaN where fine-tuning gains nothing (P_1 <= P_0): there is nothing to have a share of. In the paper P_1 is the
    multi-task model and P_0 the pre-trained one.
    """
    values = np.broadcast_arrays(*(np.asarray(p, dtype=np.float64) for p in (grafted, pretrained, finetuned)))
    gained = values[2] - values[1]
    return np.divide(values[0] - values[1], gained, out=np.full(gained.shape, np.nan), where=gained > 0)


def gain_interval(
    grafted: ArrayLike,
    pretrained: ArrayLike,
    finetuned: ArrayLike,
    resamples: int = 1000,
    seed: int = 0,
    level: float = LEVEL,
) -> Interval:
    """Relative gain in accuracy with its paired bootstrap interval, from three answers an example (1 right, 0 wrong).

    All three models are scored on the same resampled examples. Resamples in which fine-tuning gains nothing are left
    out; NaN for all three where it gains nothing at all. From logits, and for other metrics:
    `intervals.recovered_gain`.
    """
    right = _answers(grafted, pretrained, finetuned)
    value = float(relative_gain(*right.mean(axis=1)))
    return percentile_interval(value, _resampled(right, resamples, seed), level)


def gain_lost(
    grafted: ArrayLike, pretrained: ArrayLike, finetuned: ArrayLike, resamples: int = 1000, seed: int = 0
) -> float:
    """Share of the resamples of `gain_interval` in which fine-tuning gains nothing: where large, distrust the ratio."""
    return float(np.isnan(_resampled(_answers(grafted, pretrained, finetuned), resamples, seed)).mean())


def _resampled(right: Floats, resamples: int, seed: int) -> Floats:
    n = right.shape[1]
    shares = np.concatenate([weights @ right.T / n for weights in draws(n, resamples, seed)])
    return relative_gain(*shares.T)


def _answers(*given: ArrayLike) -> Floats:
    """The answers as float64 [model, n]; raises BadData unless they are 0 and 1 of the same examples."""
    rows = [np.asarray(answers, dtype=np.float64).ravel() for answers in given]
    if len({len(row) for row in rows}) > 1 or not len(rows[0]):
        raise BadData("a relative gain needs the answers of all three models to the same examples, at least one.")
    right = np.stack(rows)
    if not np.isin(right, (0, 1)).all():
        raise BadData("answers are 1 where the model is right and 0 where it is wrong; other numbers were given.")
    return right


def _shares(sizes: Sequence[int], d: int) -> list[float]:
    if d < 1 or any(not 0 <= size <= d for size in sizes):
        raise BadInput(f"region sizes must lie in 0..d with d at least 1; got {tuple(sizes)} with d = {d:,}.")
    return [size / d for size in sizes]


def _named(regions: Mapping[str, Region], names: Iterable[str] | None) -> list[Region]:
    wanted = list(regions if names is None else names)
    missing = [name for name in wanted if name not in regions]
    if missing:
        raise BadInput(f"there is no region named '{missing[0]}'; there are: {', '.join(regions)}.")
    if not wanted:
        raise BadInput("name at least one region to unite or intersect.")
    return [regions[name] for name in wanted]
