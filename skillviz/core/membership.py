"""Membership inference by loss: how well a model's losses tell its training examples from unseen ones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core.intervals import Interval
from skillviz.errors import BadData

FEWEST = 50
"""The fewest examples on each side for an interval: with 20, it covered 89% of 2,000 simulated ones, not 95%."""
NORMAL = 1.959963984540054
"""The 97.5% quantile of the standard normal distribution."""


def membership_auc(members: ArrayLike, unseen: ArrayLike) -> Interval:
    """Return the probability that a member's loss is below an unseen example's, with its 95% interval.

    Ties count half. Both are losses in nats, of at least two examples. 0.5 reveals nothing, 1 everything (Yeom et al.
    2018). The interval is DeLong's (1988), cut to 0..1; its ends are missing with less than FEWEST examples on a side,
    or if the two sets do not overlap. Raises BadData for fewer than two examples or losses that are not finite.
    """
    inside, outside = (np.asarray(losses, dtype=np.float64) for losses in (members, unseen))
    if min(inside.size, outside.size) < 2 or not (np.isfinite(inside).all() and np.isfinite(outside).all()):
        raise BadData(
            f"membership needs finite losses of two or more members and unseen examples; got {inside.size} and "
            f"{outside.size}."
        )
    of_members, of_unseen = 1.0 - _share_below(inside, outside), _share_below(outside, inside)
    value = float(of_members.mean())
    if min(inside.size, outside.size) < FEWEST or value in (0.0, 1.0):
        return Interval(value, math.nan, math.nan)
    half = NORMAL * math.sqrt(sum(float(each.var(ddof=1)) / each.size for each in (of_members, of_unseen)))
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def _share_below(losses: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each loss the share of the others below it, ties counted half."""
    ranked = np.sort(others)
    return (np.searchsorted(ranked, losses, "left") + np.searchsorted(ranked, losses, "right")) / (2 * others.size)
