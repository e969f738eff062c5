"""Many comparisons at once: the verdicts expected by chance, and the verdicts that hold at a false discovery rate.

A 95% interval excludes zero in 5 of 100 comparisons where nothing differs. Benjamini and Hochberg (1995) keep the share
of such false verdicts among all verdicts at or below a rate. This is proven for independent comparisons and some
positive dependence (Benjamini and Yekutieli 2001), not for two-sided ones on the same examples: for these it is
simulated (tests/core/test_many_comparisons.py).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.intervals import LEVEL, score_variance
from skillviz.core.scores import Floats
from skillviz.errors import BadInput

RATE = 0.05


class Comparisons(NamedTuple):
    """Counts of `n` comparisons with an interval.

    `decided` exclude zero, `by_chance` would if nothing differed, and `held` remain with the false discovery rate at
    RATE.
    """

    n: int
    decided: int
    by_chance: float
    held: int


def expected_by_chance(n: int, level: float = LEVEL) -> float:
    """Return how many of n intervals of this level exclude zero, on average, if nothing differs."""
    return n * (1 - level)


def p_values(
    values: ArrayLike, lows: ArrayLike, highs: ArrayLike, debiased: ArrayLike | None = None, level: float = LEVEL, *,
    seeds: ArrayLike | None = None, gained: ArrayLike | None = None, lost: ArrayLike | None = None,
    examples: ArrayLike | None = None, limits: ArrayLike = 0.0,
) -> Floats:  # fmt: skip
    """Return two-sided p-values of differences [n] from their intervals, each against its limit.

    `debiased` are the differences of calibration errors that the intervals are about; they replace the values where
    they are finite. The standard error is computed from the part of the interval on the side of the limit (from all of
    it if the value is its end), so a p below 1 - level goes with an interval that excludes the limit. An interval
    without width decides nothing: p = 1. A value outside its interval (a plug-in without its debiased error) is
    replaced by the middle. NaN without an interval.

    Far from the limit the normal approximation is overconfident for two kinds of intervals. A mean over `seeds` has
    Student's t of seeds - 1 degrees of freedom, as if only seeds varied: safe, and too cautious if examples vary more.
    A difference of two shares of the same `examples`, of which `gained` and `lost` are right in one model alone, has
    the test that Tango's interval inverts, against zero McNemar's. Both are missing or NaN if they do not apply.
    """
    value, low, high = (np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (values, lows, highs))
    if debiased is not None:
        center = np.atleast_1d(np.asarray(debiased, dtype=np.float64))
        value = np.where(np.isfinite(center), center, value)
    value = np.where((low <= value) & (value <= high), value, (low + high) / 2)
    limit = np.broadcast_to(np.asarray(limits, dtype=np.float64), value.shape)
    value, low, high = value - limit, low - limit, high - limit
    towards_zero = np.where(value > 0, value - low, high - value)
    reach = np.where(towards_zero > 0, towards_zero, high - low)
    ratio = np.abs(value) / np.where(reach > 0, reach, np.inf)
    z = NormalDist().inv_cdf(0.5 + level / 2) * ratio
    p = np.array([math.erfc(one / math.sqrt(2)) for one in z])
    freedom = np.full(len(value), np.nan) if seeds is None else np.asarray(seeds, dtype=np.float64) - 1
    several = np.flatnonzero(freedom > 0)
    if len(several):
        from scipy.special import stdtr, stdtrit  # importing takes 0.2 s, which `import skillviz` should not cost

        t = stdtrit(freedom[several], 0.5 + level / 2) * ratio[several]
        p[several] = 2 * stdtr(freedom[several], -t)
    if gained is not None:
        a, b, n = (np.asarray(counts, dtype=np.float64) for counts in (gained, lost, examples))
        difference = a - b - n * limit
        z = np.abs(difference) / np.sqrt(np.maximum(score_variance(a, b, n, limit), 1e-9))
        p = np.where(np.isfinite(a) & (low < high), [math.erfc(one / math.sqrt(2)) for one in z], p)
    return np.where(np.isfinite(low) & np.isfinite(high), p, np.nan)


def discoveries(p: ArrayLike, rate: float = RATE) -> np.ndarray:
    """Return which p-values [n] are discoveries at this false discovery rate (Benjamini and Hochberg 1995), bool [n].

    NaN is no comparison and no discovery.
    """
    if not 0 < rate < 1:
        raise BadInput(f"the false discovery rate must lie between 0 and 1, such as 0.05; got {rate}.")
    from scipy.stats import false_discovery_control  # importing takes a second, which `import skillviz` should not cost

    values = np.asarray(p, dtype=np.float64)
    found = ~np.isnan(values)
    found[found] = false_discovery_control(values[found]) <= rate
    return found


def compared(
    values: ArrayLike, lows: ArrayLike, highs: ArrayLike, debiased: ArrayLike | None = None, level: float = LEVEL,
    **known: ArrayLike,
) -> Comparisons:  # fmt: skip
    """Return the counts for these differences [n] and their intervals; differences without an interval do not count.

    `debiased` and what else is `known` are as in `p_values`.
    """
    low, high = (np.asarray(x, dtype=np.float64) for x in (lows, highs))
    p = p_values(values, low, high, debiased, level, **known)
    return tallied(p, decided(low, high), level)


def decided(lows: ArrayLike, highs: ArrayLike) -> np.ndarray:
    """Return which intervals [n] exclude zero, bool [n]; False for one without width and for a missing one."""
    low, high = (np.asarray(x, dtype=np.float64) for x in (lows, highs))
    return ((low > 0) | (high < 0)) & (low < high)


def tallied(p: ArrayLike, is_decided: ArrayLike, level: float = LEVEL) -> Comparisons:
    """Return the counts for comparisons with these p-values [n], of which some are decided; NaN does not count."""
    known, verdicts = np.asarray(p, dtype=np.float64), np.asarray(is_decided, dtype=bool)
    n = int(np.isfinite(known).sum())
    held = int((discoveries(known) & verdicts).sum())
    return Comparisons(n, int(verdicts.sum()), expected_by_chance(n, level), held)


def simultaneous(
    low: float, high: float, value: float, n: int, level: float = LEVEL, examples: int | None = None
) -> tuple[float, float]:
    """The ends of an interval that holds for all of n estimates at once, from one's own; so for the best of them too.

    Each side is stretched by the ratio of the normal quantiles (Bonferroni): valid under any dependence of the
    estimates, and wider than needed if they are dependent, like points on one path. A `value` outside the ends (a
    plug-in calibration error) is replaced by their middle. A paired difference of accuracies gives its `examples`: if k
    predictions differ, the score interval reaches about z^2 / 2 + z sqrt(k + z^2 / 4) examples, which grows faster.
    """
    if n < 1:
        raise BadInput(f"an interval can hold for 1 or more estimates at once; got {n}.")
    middle = value if low <= value <= high else (low + high) / 2
    quantile = NormalDist().inv_cdf
    z, wide = quantile(0.5 + level / 2), quantile(1 - (1 - level) / (2 * n))

    def reach(own: float) -> float:
        if examples is None or low == high:
            return wide / z * own
        differ = max((own * examples / z) ** 2 - own * examples, 0.0)
        return max(wide / z * own, (wide**2 / 2 + wide * math.sqrt(differ + wide**2 / 4)) / examples)

    return middle - reach(middle - low), middle + reach(high - middle)
