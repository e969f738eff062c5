"""The interval of a mean over few seeds on one test set: both the seeds and the examples are samples.

The variance of the mean has two parts: the spread of the seeds, estimated from few values, and the sampling of
examples, estimated well. Student's t of the seeds alone ignores the examples; a bootstrap over both has too few seeds
to draw from. Welch and Satterthwaite (1946) give the sum of both variances a number of degrees of freedom; with two to
four seeds this number is too large if the seeds' part is uncertain, so it is moved towards the seeds' own (ours,
measured).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.intervals import LEVEL, SeedsInterval
from skillviz.core.scores import Floats
from skillviz.errors import BadData, BadInput

TOWARDS_SEEDS = 0.125
"""The used part of the Welch-Satterthwaite degrees of freedom beyond seeds - 1; for two seeds none is used. The largest
of 0, 1/8, 1/4 and 3/8 that covers the mean of three to five normal seeds in 95 of 100 cases, at any spread."""


def seeds_and_examples(values: ArrayLike, examples_sd: float, level: float = LEVEL) -> SeedsInterval:
    """Return the mean over seeds with its interval over seeds and examples.

    `values` [seed] is one value per seed: a metric, or a paired difference on the same seed. [seed of a, seed of b] are
    the differences of two methods whose seeds are not paired. `examples_sd` is the standard deviation of the mean over
    resampled examples, with the seeds fixed. Its unit is the unit of the values. A single seed has the interval over
    examples alone. Raises BadData for no values or one that is not finite.
    """
    x = _checked(values)
    if not np.isfinite(examples_sd) or examples_sd < 0:
        raise BadData(f"the standard deviation over examples must be a number from 0 up; got {examples_sd}.")
    mean, half = float(x.mean()), _half(x, examples_sd, level)
    return SeedsInterval(mean, mean - half, mean + half, _sd(x), max(x.shape))


def mean_of_intervals(values: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> SeedsInterval:
    """Return the mean over seeds of an estimate with its own 95% interval over examples, such as a calibration error.

    All three are [seed], or [seed of a, seed of b] as above. The examples' part reaches as far as the intervals do on
    average, as if all seeds had the same error on them, so the mean's interval is at least as wide; ends may be uneven.
    A single seed keeps its interval.
    """
    x, low, high = _checked(values), _checked(lows), _checked(highs)
    if not x.shape == low.shape == high.shape:
        raise BadInput(f"every seed needs a value and both ends; got {x.size}, {low.size} and {high.size}.")
    if x.size == 1:
        return SeedsInterval(float(x[0]), float(low[0]), float(high[0]), float("nan"), 1)
    mean, normal = float(x.mean()), _quantile(math.inf, LEVEL)
    down, up = (_half(x, float(reach.mean()) / normal, LEVEL) for reach in (x - low, high - x))
    return SeedsInterval(mean, mean - down, mean + up, _sd(x), max(x.shape))


def _half(x: Floats, examples_sd: float, level: float) -> float:
    """Return half the width of the interval of the mean of x."""
    normal = _quantile(math.inf, level)
    if x.ndim == 2:  # two sets of seeds: the parts are joined as squares, each with its own t
        means = x.mean(axis=1), x.mean(axis=0)
        parts = [_quantile(len(m) - 1, level) * math.sqrt(float(m.var(ddof=1)) / len(m)) for m in means]
        return math.hypot(*parts, normal * examples_sd)
    n = len(x)
    seeds, examples = (float(x.var(ddof=1)) / n if n > 1 else 0.0), examples_sd**2
    if seeds == 0:
        return normal * examples_sd
    if n == 2:
        return math.hypot(_quantile(1, level) * math.sqrt(seeds), normal * examples_sd)
    freedom = (seeds + examples) ** 2 / (seeds**2 / (n - 1))
    freedom = n - 1 + TOWARDS_SEEDS * (freedom - (n - 1))
    return _quantile(freedom, level) * math.sqrt(seeds + examples)


def _sd(x: Floats) -> float:
    return float(x.std(ddof=1)) if x.ndim == 1 and len(x) > 1 else float("nan")


def _checked(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=np.float64)
    x = x if x.ndim == 2 and min(x.shape) > 1 else x.ravel()
    if not x.size or not np.isfinite(x).all():
        raise BadData("an interval over seeds needs at least one value, and every value finite.")
    return x


def _quantile(freedom: float, level: float) -> float:
    """Student's t quantile of a two-sided interval; the normal one for infinite degrees of freedom."""
    if not 0 < level < 1:
        raise BadInput(f"the level of an interval must lie between 0 and 1, such as 0.95; got {level}.")
    from scipy.special import ndtri, stdtrit  # importing takes 0.2 s, which `import skillviz` should not cost

    share = 0.5 + level / 2
    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))
