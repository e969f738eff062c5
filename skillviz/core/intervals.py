"""Intervals: Wilson for shares, Tango for paired ones, percentile bootstrap for any metric, Student's t, jackknife.

Bootstrap resamples are matrix products: a resample is the number of times it draws each example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core.calibration_error import BINS, FEWEST, calibration_difference, calibration_error
from skillviz.core.metrics import METRICS, Statistic, statistic
from skillviz.core.scores import Floats, checked_logits, correct, f1
from skillviz.errors import BadData, BadInput

LEVEL = 0.95
RESAMPLES = 1000
CELLS = 4_000_000  # weights held at a time: 32 MB
MOST_RESAMPLES = 1_000_000
FEW = 10
"""If two models differ on fewer examples than this, resamples of their difference vary too little."""
HALVINGS = 34
"""Halvings in the search for an interval's end: to 1e-10."""


class Interval(NamedTuple):
    """An estimate with the ends of its interval; low <= value <= high.

    For a calibration error low <= debiased <= high, and the plug-in `value` may lie outside; `debiased` is NaN for
    other metrics. In a difference a - b of shares, `gained` and `lost` are the examples that only a and only b
    gets right; NaN for everything else.
    """

    value: float
    low: float
    high: float
    debiased: float = float("nan")
    gained: float = float("nan")
    lost: float = float("nan")


class SeedsInterval(NamedTuple):
    """The mean over seeds with its t-interval, the standard deviation (n - 1) and the number of seeds."""

    value: float
    low: float
    high: float
    sd: float
    n: int


def draws(n: int, resamples: int, seed: int, cells: int = CELLS) -> Iterator[Floats]:
    """Yield weights [some, n] of `resamples` draws with replacement, in blocks of at most `cells` numbers.

    Each row sums to n. The draws depend on n and the seed alone, not on the blocks.
    """
    if not 1 <= resamples <= MOST_RESAMPLES:
        raise BadInput(f"the number of resamples must be 1..{MOST_RESAMPLES:,}; got {resamples}.")
    generator, block = np.random.default_rng(seed), max(1, cells // n)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        picks = generator.integers(0, n, (rows, n)) + np.arange(rows)[:, None] * n
        yield np.bincount(picks.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def resampled_values(statistics: Sequence[Statistic], n: int, resamples: int, seed: int) -> list[Floats]:
    """Return each statistic on the same resamples, one vector [resamples] per statistic."""
    blocks = [[of(weights) for of in statistics] for weights in draws(n, resamples, seed)]
    return [np.concatenate(column) for column in zip(*blocks, strict=True)]


def whole_and_resampled(
    statistics: Sequence[Statistic], n: int, resamples: int = RESAMPLES, seed: int = 0
) -> list[tuple[float, Floats]]:
    """Return each statistic on all n examples, and on the same resamples of them [resample]."""
    whole = np.ones((1, n))
    drawn = resampled_values(statistics, n, resamples, seed)
    return [(float(of(whole)[0]), draws) for of, draws in zip(statistics, drawn, strict=True)]


@overload
def wilson(successes: float, n: float, level: float = ...) -> tuple[float, float]: ...
@overload
def wilson(successes: NDArray[np.generic], n: ArrayLike, level: float = ...) -> tuple[Floats, Floats]: ...
def wilson(successes: ArrayLike, n: ArrayLike, level: float = LEVEL) -> tuple[object, object]:
    """Return the ends (low, high) of Wilson's score interval of a share: numbers for numbers, arrays for arrays.

    Exactly 0 for no success and exactly 1 for n successes; NaN if n is 0.
    """
    hits, count = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(n, np.float64))
    if (hits < 0).any() or (hits > count).any():
        raise BadInput("successes must lie between 0 and n in every place.")
    z2 = NormalDist().inv_cdf(0.5 + _checked_level(level) / 2) ** 2
    size = np.where(count > 0, count, np.nan)
    share = hits / size
    centre = (share + z2 / (2 * size)) / (1 + z2 / size)
    half = np.sqrt(z2 * (share * (1 - share) / size + z2 / (4 * size**2))) / (1 + z2 / size)
    low = np.where(hits == 0, size * 0, np.maximum(centre - half, 0.0))
    high = np.where(hits == count, size / size, np.minimum(centre + half, 1.0))
    return (low, high) if low.ndim else (float(low), float(high))


@overload
def tango(only_a: float, only_b: float, n: float, level: float = ...) -> tuple[float, float]: ...
@overload
def tango(
    only_a: NDArray[np.generic], only_b: ArrayLike, n: ArrayLike, level: float = ...
) -> tuple[Floats, Floats]: ...
def tango(only_a: ArrayLike, only_b: ArrayLike, n: ArrayLike, level: float = LEVEL) -> tuple[object, object]:
    """The ends (low, high) of the score interval of a paired difference of shares (Tango 1998): numbers or arrays.

    Among n pairs `only_a` succeed in a alone and `only_b` in b alone; the difference is (only_a - only_b) / n. The
    interval has a width even if no pair differs: such a sample does not exclude a small difference. NaN if n is 0.
    """
    first, second, count = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (only_a, only_b, n)))
    if (first < 0).any() or (second < 0).any() or (first + second > count).any():
        raise BadInput("the pairs that differ must be at least 0 each, and together at most n.")
    z = NormalDist().inv_cdf(0.5 + _checked_level(level) / 2)
    size = np.where(count > 0, count, np.nan)
    inside, outside = (
        np.stack([(first - second) / size] * 2),
        np.stack([np.full(size.shape, end) for end in (-1.0, 1.0)]),
    )
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        variance = np.maximum(score_variance(first, second, size, middle), 0.0)
        likely = (first - second - size * middle) ** 2 <= z**2 * variance  # within z standard deviations
        inside, outside = np.where(likely, middle, inside), np.where(likely, outside, middle)
    low, high = np.where(np.isnan(size), np.nan, outside)
    return (low, high) if low.ndim else (float(low), float(high))


def score_variance(only_a: Floats, only_b: Floats, n: Floats, difference: Floats) -> Floats:
    """The variance of only_a - only_b if the shares differ by `difference`, with the likeliest only_b (Tango 1998)."""
    b = (2 * n - only_a + only_b) * difference - only_a - only_b
    root = np.sqrt(np.maximum(b**2 + 8 * n * only_b * difference * (1 - difference), 0.0))
    return np.asarray(n * ((root - b) / (2 * n) + difference * (1 - difference)))


def bootstrap(
    logits: ArrayLike,
    labels: ArrayLike,
    metric: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
    positive: int = 1,
    bins: int = BINS,
    level: float = LEVEL,
) -> Interval:
    """Return the metric with its percentile bootstrap interval over examples.

    Resampling adds noise to every bin, so resampled calibration errors are biased upwards; the interval is stretched to
    include the estimate if necessary. All three are NaN if the metric is undefined, and the ends if no resample differs
    (as with a single example), because the spread is then unknown.
    """
    z, y = checked_logits(logits, labels)
    ((value, drawn),) = whole_and_resampled([statistic(metric, z, y, positive, bins)], len(y), resamples, seed)
    return spread_interval(value, drawn, level)


def paired_bootstrap(
    logits_a: ArrayLike,
    logits_b: ArrayLike,
    labels: ArrayLike,
    metric: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
    positive: int = 1,
    bins: int = BINS,
    level: float = LEVEL,
) -> Interval:
    """Return the difference a - b of a metric on the same examples, with its percentile bootstrap interval.

    Both models are scored on the same resampled examples, so shared noise cancels.
    """
    of = [statistic(metric, *checked_logits(z, labels), positive, bins) for z in (logits_a, logits_b)]
    return _interval(of, len(np.asarray(labels)), lambda v: v[0] - v[1], resamples, seed, level)


def paired_differences(
    baseline: ArrayLike,
    others: Sequence[ArrayLike],
    labels: ArrayLike,
    metrics: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
    positive: int = 1,
    bins: int = BINS,
    level: float = LEVEL,
) -> list[dict[str, Interval]]:
    """Return for each of the others, by metric, the `metric_difference` between it and the baseline.

    All are scored on the same resamples, which are drawn once for all of them.
    """
    models = [checked_logits(z, labels) for z in (baseline, *others)]
    drawn = [metric for metric in metrics if METRICS[metric].interval not in ("calibration", "wilson")]
    of = [[statistic(metric, *model, positive, bins) for metric in drawn] for model in models]
    every = [f for row in of for f in row]
    flat = iter(whole_and_resampled(every, len(np.asarray(labels)), resamples, seed) if every else ())
    first, *rows = [{metric: next(flat) for metric in drawn} for _ in models]

    def difference(other: ArrayLike, row: dict[str, tuple[float, Floats]], metric: str) -> Interval:
        if METRICS[metric].interval == "wilson":
            return accuracy_difference(other, baseline, labels, level)
        if metric not in row:
            return metric_difference(other, baseline, labels, metric, positive, bins)
        (value, draws), (base, base_draws) = row[metric], first[metric]
        drawn = percentile_interval(value - base, draws - base_draws, level)
        return _stretched(drawn, other, baseline, labels, metric, positive, level)

    return [
        {metric: difference(other, row, metric) for metric in metrics} for other, row in zip(others, rows, strict=True)
    ]


def metric_interval(logits: ArrayLike, labels: ArrayLike, metric: str, positive: int = 1, bins: int = BINS) -> Interval:
    """Return a metric of one model with the kind of 95% interval in its row of METRICS; NaN ends if there is none.

    A calibration error has none on fewer than 10 examples.
    """
    kind, n = METRICS[metric].interval, len(np.asarray(labels))
    if kind == "bootstrap":
        return bootstrap(logits, labels, metric, positive=positive, bins=bins)
    value = float(statistic(metric, logits, labels, positive, bins)(np.ones((1, n)))[0])
    if kind == "wilson":
        return Interval(value, *wilson(round(value * n), n))
    if kind == "none" or n < FEWEST:
        return Interval(value, float("nan"), float("nan"))
    error = calibration_error(logits, labels, bins)
    return Interval(error.value, error.low, error.high, error.debiased)


def metric_difference(
    logits_a: ArrayLike, logits_b: ArrayLike, labels: ArrayLike, metric: str, positive: int = 1, bins: int = BINS
) -> Interval:
    """The difference a - b of a metric on the same examples, with its paired 95% interval; NaN ends as above.

    Accuracy has Tango's interval; F1 the bootstrap's, stretched to include the one from the predictions that differ.
    """
    n, kind = len(np.asarray(labels)), METRICS[metric].interval
    if kind == "wilson":
        return accuracy_difference(logits_a, logits_b, labels)
    if kind == "none" or (kind == "calibration" and n < FEWEST):
        a, b = (metric_interval(z, labels, metric, bins=bins).value for z in (logits_a, logits_b))
        return Interval(a - b, float("nan"), float("nan"))
    if kind != "calibration":
        drawn = paired_bootstrap(logits_a, logits_b, labels, metric, positive=positive, bins=bins)
        return _stretched(drawn, logits_a, logits_b, labels, metric, positive)
    less = calibration_difference(logits_a, logits_b, labels, bins)
    return Interval(less.value, less.low, less.high, less.debiased)


def accuracy_difference(logits_a: ArrayLike, logits_b: ArrayLike, labels: ArrayLike, level: float = LEVEL) -> Interval:
    """Return the difference a - b of two accuracies on the same examples, with Tango's interval.

    Identical logits mean the same model, so they differ by exactly 0; so do other metrics.
    """
    if np.array_equal(logits_a, logits_b):
        return Interval(0.0, 0.0, 0.0, gained=0, lost=0)
    a, b = (correct(*checked_logits(logits, labels)) for logits in (logits_a, logits_b))
    gained, lost, n = int((a & ~b).sum()), int((b & ~a).sum()), len(a)
    return Interval((gained - lost) / n, *tango(gained, lost, n, level), gained=gained, lost=lost)


def _stretched(
    drawn: Interval,
    logits_a: ArrayLike,
    logits_b: ArrayLike,
    labels: ArrayLike,
    metric: str,
    positive: int,
    level: float = LEVEL,
) -> Interval:
    """The resampled difference; F1's is stretched to include the range from the predictions that differ, even if few.

    With c the gain in hits on positive examples, d the gain on the others (shares of n), F the mean F1 and S the mean
    share of predicted plus actual positives, a - b is exactly ((2 - F) c + F d) / S. The intervals of c and d are
    Tango's, joined as squares (Zou and Donner 2008).
    """
    if metric != "f1" or not np.isfinite(drawn.value) or np.array_equal(logits_a, logits_b):
        return drawn
    (za, y), (zb, _) = checked_logits(logits_a, labels), checked_logits(logits_b, labels)
    actual, a, b = y == positive, za.argmax(1) == positive, zb.argmax(1) == positive
    n, total = len(y), float((a.sum() + b.sum()) / 2 + actual.sum())
    mean = float((f1(za, y, positive) + f1(zb, y, positive)) / 2)
    down, up = 0.0, 0.0
    for only_a, only_b, weight in (
        (actual & a & ~b, actual & b & ~a, 2 - mean),
        (b & ~a & ~actual, a & ~b & ~actual, mean),
    ):
        gained, lost = int(only_a.sum()), int(only_b.sum())
        low, high = tango(gained, lost, n, level)
        down += (weight * ((gained - lost) / n - low)) ** 2
        up += (weight * (high - (gained - lost) / n)) ** 2
    down, up = (math.sqrt(reach) * n / total for reach in (down, up))
    value = drawn.value
    return Interval(value, float(np.fmin(drawn.low, value - down)), float(np.fmax(drawn.high, value + up)))


def relative_gain(grafted: ArrayLike, pretrained: ArrayLike, finetuned: ArrayLike) -> Floats:
    """Return (P_gamma - P_0) / (P_1 - P_0), elementwise (paper, Eq. 5); below 0 and above 1 are possible.

    The arguments are values of `Metric.merit`: larger is better. NaN if fine-tuning gains nothing (P_1 <= P_0), because
    there is then no gain to recover. In the paper P_1 is the multi-task model and P_0 the pre-trained one.
    """
    values = np.broadcast_arrays(*(np.asarray(p, dtype=np.float64) for p in (grafted, pretrained, finetuned)))
    gained = values[2] - values[1]
    return np.divide(values[0] - values[1], gained, out=np.full(gained.shape, np.nan), where=gained > 0)


def has_gain(
    pretrained: ArrayLike, finetuned: ArrayLike, labels: ArrayLike, metric: str = "accuracy", positive: int = 1
) -> bool:
    """True if the 95% interval of the gain from fine-tuning lies above 0; otherwise no share of it is defined."""
    gain = metric_difference(finetuned, pretrained, labels, metric, positive)
    return gain.low > 0 if METRICS[metric].better == "higher" else gain.high < 0


def recovered_gain(
    grafted: ArrayLike,
    pretrained: ArrayLike,
    finetuned: ArrayLike,
    labels: ArrayLike,
    metric: str = "accuracy",
    resamples: int = RESAMPLES,
    seed: int = 0,
    positive: int = 1,
    level: float = LEVEL,
) -> Interval:
    """Return the relative gain (Eq. 5) of the grafted logits, 1 = fine-tuned, with its paired bootstrap interval.

    NaN if the interval of the gain reaches 0 (`has_gain`): a share of it would be meaningless. If the graft differs
    from one of the models on fewer than FEW examples, the interval is stretched to their difference's interval, as a
    share of the gain.
    """
    models = grafted, pretrained, finetuned
    of, merit = [statistic(metric, *checked_logits(z, labels), positive) for z in models], METRICS[metric].merit
    if not has_gain(pretrained, finetuned, labels, metric, positive):
        return Interval(float("nan"), float("nan"), float("nan"))
    share = _interval(of, len(np.asarray(labels)), lambda v: relative_gain(*map(merit, v)), resamples, seed, level)
    if np.isfinite(share.value) and np.array_equal(grafted, finetuned):
        return Interval(share.value, share.value, share.value)  # an identical model has all of the gain on any examples
    if METRICS[metric].interval != "wilson" or not np.isfinite(share.value):
        return share
    right = [correct(*checked_logits(z, labels)) for z in models]
    gain = float(right[2].mean() - right[1].mean())
    for reference, at in ((pretrained, 0.0), (finetuned, 1.0)):
        if (right[0] != correct(*checked_logits(reference, labels))).sum() < FEW:
            less = accuracy_difference(grafted, reference, labels, level)
            low, high = np.fmin(share.low, at + less.low / gain), np.fmax(share.high, at + less.high / gain)
            share = Interval(share.value, float(low), float(high))
    return share


def _interval(
    statistics: Sequence[Callable[[Floats], Floats]],
    n: int,
    combine: Callable[[list[Floats]], Floats],
    resamples: int,
    seed: int,
    level: float,
) -> Interval:
    """Return the combined statistics on all examples, and percentiles of the same on resampled ones."""
    value = float(combine([of(np.ones((1, n))) for of in statistics])[0])
    return percentile_interval(value, combine(resampled_values(statistics, n, resamples, seed)), level)


def percentile_interval(value: float, draws: Floats, level: float = LEVEL) -> Interval:
    """Percentiles of the finite draws [resample], stretched to include the value; NaN without a value or a draw.

    Draws that all equal the value carry no information on its error and give no interval, except at 0: the difference
    of two models with the same prediction on every example.
    """
    tail = (1 - _checked_level(level)) / 2
    draws = draws[np.isfinite(draws)]
    if not np.isfinite(value) or not len(draws):
        return Interval(float("nan"), float("nan"), float("nan"))
    low, high = np.quantile(draws, [tail, 1 - tail])
    if value and math.isclose(low, high, rel_tol=1e-12) and math.isclose(low, value, rel_tol=1e-12):
        return Interval(value, float("nan"), float("nan"))
    return Interval(value, min(float(low), value), max(float(high), value))


def spread_interval(value: float, draws: Floats, level: float = LEVEL) -> Interval:
    """Return `percentile_interval` of one model's metric: without ends if no draw differs, at 0 too."""
    interval = percentile_interval(value, draws, level)
    return interval if interval.high > interval.low else Interval(interval.value, float("nan"), float("nan"))


def seeds_interval(values: ArrayLike, level: float = LEVEL) -> SeedsInterval:
    """Return the mean of one value per seed, with Student's t-interval; NaN ends and sd for a single seed."""
    x = np.asarray(values, dtype=np.float64).ravel()
    if not len(x) or not np.isfinite(x).all():
        raise BadData("an interval over seeds needs at least one value, and every value finite.")
    mean, n = float(x.mean()), len(x)
    if n == 1:
        return SeedsInterval(mean, float("nan"), float("nan"), float("nan"), 1)
    from scipy.special import stdtrit  # importing takes 0.2 s, which a single seed does not need

    sd = float(x.std(ddof=1))
    half = float(stdtrit(n - 1, 0.5 + _checked_level(level) / 2)) * sd / math.sqrt(n)
    return SeedsInterval(mean, mean - half, mean + half, sd, n)


def jackknife_half(without: Sequence[Floats], level: float = LEVEL) -> float:
    """Half the jackknife interval (Student's t) of a mean over pairs, which are not independent values (Arvesen 1969).

    `without` has one array per group of drawn items, such as the regions of a task: the means without each one of them
    in turn; the groups' variances add up. NaN if nothing can be left out.
    """
    least = min((len(means) for means in without), default=1)
    if least < 2 or any(np.isnan(means).any() for means in without):
        return float("nan")
    from scipy.special import stdtrit  # importing takes 0.2 s, which a single seed does not need

    variances = [(len(m) - 1) / len(m) * float(((m - m.mean()) ** 2).sum()) for m in without]
    return float(stdtrit(least - 1, 0.5 + _checked_level(level) / 2) * np.sqrt(sum(variances)))


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise BadInput(f"the level of an interval must lie between 0 and 1, such as 0.95; got {level}.")
    return level
