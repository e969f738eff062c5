"""The separation by confidence of a task's examples from texts that fit no class: AUROC with the interval of DeLong.

DeLong, DeLong and Clarke-Pearson (1988), by ranks as in Sun and Xu (2014). The interval of one AUROC is computed on its
logit, so it stays within 0 and 1; the interval of a paired difference is symmetric.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.intervals import LEVEL, Interval
from skillviz.core.scores import Floats
from skillviz.errors import BadData

FEWEST = 10
"""The fewest values of either group for which there is an interval."""


def auroc(inside: ArrayLike, outside: ArrayLike) -> Interval:
    """The probability that a value of `inside` [n] is larger than one of `outside` [m], ties counted half; 0 to 1.

    The ends are NaN for fewer than FEWEST values of a group, and if all values of one group are above the other's: the
    variance is then estimated as 0. Raises BadData for an empty group or values that are not finite.
    """
    above, below = _placements(inside, outside)
    value, sd = float(above.mean()), _sd(above, below)
    if not sd or not 0 < value < 1:  # a NaN sd is truthy
        return Interval(value, math.nan, math.nan)
    reach = NormalDist().inv_cdf(0.5 + LEVEL / 2) * sd / (value * (1 - value))
    low, high = (1 / (1 + math.exp(-(math.log(value / (1 - value)) + side * reach))) for side in (-1, 1))
    return Interval(value, low, high)


def auroc_difference(inside_a: ArrayLike, outside_a: ArrayLike, inside_b: ArrayLike, outside_b: ArrayLike) -> Interval:
    """AUROC of a - AUROC of b, both on the same examples in the same order, with the paired interval.

    Exactly 0 to 0 for two models that order all examples in the same way; the ends are NaN if another difference has no
    variance, and for fewer than FEWEST values of a group.
    """
    (above_a, below_a), (above_b, below_b) = _placements(inside_a, outside_a), _placements(inside_b, outside_b)
    if above_a.shape != above_b.shape or below_a.shape != below_b.shape:
        raise BadData("both models need the same examples; their numbers differ.")
    above, below = above_a - above_b, below_a - below_b
    value, sd = float(above.mean()), _sd(above, below)
    if sd == 0 and value != 0:
        sd = math.nan
    reach = NormalDist().inv_cdf(0.5 + LEVEL / 2) * sd
    return Interval(value, value - reach, value + reach)


def _placements(inside: ArrayLike, outside: ArrayLike) -> tuple[Floats, Floats]:
    """Return for each value of `inside` the share of `outside` below it, and for `outside` the share of `inside` above.

    Ties count half. Both have the AUROC as their mean.
    """
    x, y = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    if not len(x) or not len(y) or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise BadData("each group needs at least one value, and all must be finite.")
    return _share_below(x, np.sort(y)), 1 - _share_below(y, np.sort(x))


def _share_below(values: Floats, ordered: Floats) -> Floats:
    ends = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray(sum(ends) / (2 * len(ordered)), dtype=np.float64)


def _sd(above: Floats, below: Floats) -> float:
    """The standard deviation of the mean of both groups' parts; NaN for too few values."""
    if min(len(above), len(below)) < FEWEST:
        return math.nan
    return math.sqrt(above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below))
