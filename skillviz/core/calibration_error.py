"""Calibration error with an interval that covers: one model, the paired difference of two, and a test of calibration.

The plug-in error (Eq. 6 of the paper) is biased upwards: the gap of every bin is |signal + noise|, so a perfectly
calibrated model shows an error of several points on a few hundred examples, and a bootstrap adds the noise once more.
The interval here inverts a test instead. For a candidate error, each bin gets the gap that fits the data best; with
these gaps the plug-in is a sum of folded normals of known mean and variance. The ends are the candidates at which the
observed plug-in is `Z` standard deviations from that mean; `debiased` is the candidate at which the two are equal.

Sources: test inversion with the nuisance at its constrained estimate (Chuang and Lai 2000, hybrid resampling); gaps
shrink towards the candidate by the non-negative garrote (Breiman 1995); the noise of a bin is Wilson's (1927), taken at
the candidate. The difference joins two intervals by MOVER (Zou and Donner 2008). The combination and the constants are
our own: `python -m benchmarks coverage` measures them, and docs/research/coverage.md has the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core.scores import Floats, Integers, checked_logits, confidence, correct, numbers, probabilities
from skillviz.errors import BadData, BadInput

BINS = 15  # from the implementation the paper used; the paper itself gives none
MOST_BINS = 1000


def checked_bins(bins: int) -> int:
    """Return the number of bins; raises BadInput outside 1..1000."""
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or not 1 <= bins <= MOST_BINS:
        raise BadInput(f"the number of bins must be a whole number from 1 to {MOST_BINS}; got {bins!r}.")
    return int(bins)


def equal_width_edges(bins: int, lowest: float = 0.0) -> Floats:
    """Edges of bins of equal width from `lowest` to 1, [bins + 1]; each k/bins is the nearest float to it."""
    shares = np.arange(checked_bins(bins) + 1) / bins
    return shares if lowest == 0.0 else lowest + (1.0 - lowest) * shares


def equal_mass_edges(confidences: Floats, bins: int) -> Floats:
    """Return edges that put about n / bins examples in each bin, [bins + 1], from 0 to the largest confidence.

    An edge is the confidence of the example of rank ceil(k n / bins). Equal confidences are never split, so the bins do
    not depend on the order of the examples; with many ties some are empty and others larger.
    """
    ranks = -(-np.arange(1, checked_bins(bins) + 1, dtype=np.int64) * len(confidences) // bins)
    return np.concatenate([[0.0], np.sort(confidences)[ranks - 1]])


def bin_numbers(confidences: Floats, edges: Floats) -> Integers:
    """Return the number of each confidence's bin, [n], 0..bins-1; a confidence on an edge counts in the lower bin.

    The lowest edge itself, and anything below it, counts in bin 0.
    """
    inside = np.searchsorted(edges, confidences, side="left") - 1
    return np.clip(inside, 0, len(edges) - 2).astype(np.int64)


Z = 2.1
"""Standard deviations to either end. A normal estimate has 1.96; the rest makes up for gaps that single bins hide
(measured)."""
OVERALL = (2.3, 1.9)
"""The same to the lower and the upper end for the gap of the sample as a whole."""
PAIRED = 0.93
"""A difference's interval reaches this share of its two parts joined (measured)."""
FLOOR = 1.15
"""The least reach of a part downwards, as a multiple of Z standard deviations, also for errors cut at 0 (measured)."""
LEFT_OUT = 0.5
"""The share of an error that a difference leaves out if that error's interval reaches 0. Such an error is overestimated
on average; if the other is underestimated, both biases add up (measured)."""
FADE = 0.1
"""If the lower end is this many standard deviations above 0, nothing is left out; in between it fades linearly."""
SLOPE = 2.0
"""The rate at which a bin's sign counts as known in the correlation of two errors: its weight is
2 Phi(SLOPE |gap| / s) - 1."""
RARE = 3
"""Bins in which a calibrated model expects fewer errors than this have their errors counted exactly, not as normal."""
STEPS = 14
"""Steps of the bisection; one linear step follows, which leaves less than a thousandth of the interval's width."""
FEWEST = 10
CELLS = 4_000_000  # simulated labels held at a time
UNDERFLOW = 1000.0
"""A logit this far below the largest has a probability of exactly 0."""


@dataclass(frozen=True)
class CalibrationError:
    """The binned calibration error of one model, or a difference a - b of two; shares, so 0.01 is one point.

    `value` is the plug-in that papers publish. `debiased`, `low` and `high` are about the error of the population: the
    plug-in is too large by the noise of its bins, so it may lie above `high`. A difference takes the two estimates
    before they are cut at 0, and half of an estimate whose interval reaches 0, so its `debiased` is not always the
    difference of the two models' own.
    """

    value: float
    debiased: float
    low: float
    high: float
    bins: int
    n: int


@dataclass(frozen=True)
class CalibrationTest:
    """The test of the hypothesis that the labels were drawn from the model's own confidences.

    `statistic` is the plug-in error, a share; `p_value` is from the Monte Carlo test, whose size is exact: a calibrated
    model is rejected at `p_value <= 0.05` in 5 of 100 cases.
    """

    statistic: float
    p_value: float
    draws: int


class Binned(NamedTuple):
    """The sums of a sample by bin, each [..., bin].

    Examples, and sums of confidence, hits, squared confidence, and squared gap (confidence - right).
    """

    examples: Floats
    confidence: Floats
    hits: Floats
    squares: Floats
    gaps: Floats


class Ends(NamedTuple):
    """`value`, `debiased`, `low` and `high` of several samples, each [...]."""

    value: Floats
    debiased: Floats
    low: Floats
    high: Floats


def calibration_error(logits: ArrayLike, labels: ArrayLike, bins: int = BINS) -> CalibrationError:
    """Return the binned calibration error of logits [n, label] on these examples, and its estimate for the population.

    The error is the paper's ECE in `bins` of equal width: the mean over examples of |confidence - accuracy| of their
    bin. `value` is the plug-in error of the examples, as papers publish it; `debiased`, with the 95% interval `low` to
    `high`, is about the error on all data. All are shares: 0.01 is one point.

    A class may be masked by -inf. Raises BadData for fewer than 10 examples, other logits that are not finite, and
    labels that are not a class; BadInput for probabilities in place of logits.
    """
    edges = equal_width_edges(bins)
    sure, right = _outcomes(logits, labels)
    return _answer(_plug_in(sure, right, edges), error_interval(binned(sure, right, edges)), bins, len(sure))


def calibration_difference(
    logits_a: ArrayLike,
    logits_b: ArrayLike,
    labels: ArrayLike,
    bins: int = BINS,
) -> CalibrationError:
    """Return the calibration error of a minus b's on the same examples, with a 95% interval: below zero, a is better.

    If both models have the same predictions, the difference is exactly 0. Raises the errors of `calibration_error`.
    """
    edges = equal_width_edges(bins)
    logits_a, logits_b = numbers(logits_a, "logits_a"), numbers(logits_b, "logits_b")
    for name, logits in (("logits_a", logits_a), ("logits_b", logits_b)):
        if np.shape(logits)[:1] != np.shape(labels)[:1]:
            n, count = len(np.atleast_1d(logits)), len(np.atleast_1d(labels))
            raise BadInput(
                f"{name} has {n:,} predictions, and labels has {count:,}; there must be one label for each prediction."
            )
    if np.shape(logits_a) != np.shape(logits_b):
        raise BadInput(
            f"logits_a and logits_b must have one shape, those of the same classes; got {np.shape(logits_a)} and "
            f"{np.shape(logits_b)}."
        )
    (sure_a, right_a), (sure_b, right_b) = (
        _outcomes(logits, labels, name) for name, logits in (("logits_a", logits_a), ("logits_b", logits_b))
    )
    a, b = binned(sure_a, right_a, edges), binned(sure_b, right_b, edges)
    if np.array_equal(sure_a, sure_b) and np.array_equal(right_a, right_b):
        return CalibrationError(0.0, 0.0, 0.0, 0.0, int(bins), len(sure_a))
    cell = bin_numbers(sure_a, edges) * bins + bin_numbers(sure_b, edges)
    products = np.bincount(cell, weights=(sure_a - right_a) * (sure_b - right_b), minlength=bins * bins)
    ends = difference_interval(a, b, products.reshape(bins, bins).astype(np.float64))
    value = _plug_in(sure_a, right_a, edges) - _plug_in(sure_b, right_b, edges)
    return _answer(value, ends, bins, len(sure_a))


def calibration_test(
    logits: ArrayLike,
    labels: ArrayLike,
    bins: int = BINS,
    draws: int = 999,
    seed: int = 0,
) -> CalibrationTest:
    """Test whether the model differs from a calibrated one: labels are drawn from its own confidences `draws` times.

    The p-value counts the observed sample among the draws (Davison and Hinkley 1997, section 4.2), which makes the size
    exact for any n and bins. Raises the errors of `calibration_error`.
    """
    edges = equal_width_edges(bins)
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 19:
        raise BadInput(f"a test at the 5% level needs a whole number of draws, at least 19; got {draws!r}.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise BadInput(f"a seed is a whole number from 0; got {seed!r}.")
    sure, right = _outcomes(logits, labels)
    number, n = bin_numbers(sure, edges), len(sure)
    observed = binned(sure, right, edges)

    def statistic(gaps: Floats) -> Floats:
        return np.asarray(np.abs(gaps).sum(-1) / n)

    value = float(statistic(observed.confidence - observed.hits))
    generator, larger = np.random.default_rng(seed), 0
    for start in range(0, draws, max(1, CELLS // n)):
        rows = min(max(1, CELLS // n), draws - start)
        drawn = generator.random((rows, n)) < sure
        cell = (number + np.arange(rows)[:, None] * bins)[drawn]
        hits = np.bincount(cell, minlength=rows * bins).reshape(rows, bins)
        # A draw that equals the observed sample counts as at least as large, despite the rounding of its sum.
        larger += int((statistic(observed.confidence - hits) >= value * (1 - 1e-12)).sum())
    return CalibrationTest(value, (1 + larger) / (1 + draws), draws)


def binned(sure: Floats, right: NDArray[np.bool_], edges: Floats) -> Binned:
    """Return the sums of a sample with confidences and outcomes [n], bin by bin."""
    number, bins = bin_numbers(sure, edges), len(edges) - 1

    def total(weights: Floats | NDArray[np.bool_] | None) -> Floats:
        return np.bincount(number, weights=weights, minlength=bins).astype(np.float64)

    return Binned(total(None), total(sure), total(right), total(sure**2), total((sure - right) ** 2))


def error_interval(sample: Binned) -> Ends:
    """Return the error of each sample with its interval; the leading axes of `sample` are samples of equal size."""
    solved = _solved(sample)
    debiased = np.clip(solved.debiased, 0.0, 1.0)
    return Ends(solved.value, debiased, np.minimum(solved.low, debiased), np.clip(solved.high, debiased, 1.0))


def difference_interval(a: Binned, b: Binned, products: Floats) -> Ends:
    """Return the difference a - b of each pair of samples with its interval.

    `products` [..., bin of a, bin of b] are sums over examples of (confidence - right) of a times the same of b.
    """
    one, other = _solved(a), _solved(b)
    together = np.einsum("...i,...ij,...j->...", one.weights, products, other.weights) / one.n
    covariance = (together - one.weighted * other.weighted) / one.n
    scale = one.sd * other.sd
    rho = np.clip(np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0), -1.0, 1.0)
    middle, most = one.middle - other.middle, _most(a, b, products)
    down = PAIRED * _joined(one.reach_down, other.reach_up, rho)
    up = PAIRED * _joined(one.reach_up, other.reach_down, rho)
    ends = (middle, middle - down, middle + up)
    return Ends(one.value - other.value, *(np.clip(end, -most, most) for end in ends))


def _most(a: Binned, b: Binned, products: Floats) -> Floats:
    """Return the largest possible difference of two errors, a bound for models that predict nearly every example alike.

    Two sums of |gaps| differ by at most the sum of |differences of gaps|, which is taken three standard deviations and
    four examples too large.
    """
    n = a.examples.sum(-1)
    difference = (a.confidence - a.hits - b.confidence + b.hits) / n[..., None]
    both = np.diagonal(products, axis1=-2, axis2=-1)
    variance = np.maximum((a.gaps + b.gaps - 2 * both).sum(-1) / n - (difference**2).sum(-1), 0.0) / n
    return np.minimum(np.abs(difference).sum(-1) + 3 * np.sqrt(variance) + 4 / n, 1.0)


def _joined(first: Floats, second: Floats, rho: Floats) -> Floats:
    """Return the reach of the difference of two estimates, from the reach of each (Zou and Donner 2008)."""
    return np.sqrt(np.maximum(first**2 + second**2 - 2 * rho * first * second, 0.0))


def _solved(sample: Binned) -> _Solved:
    """Return the test inversion of a sample, cached: the fine-tuned model is one half of every difference of a run."""
    if np.ndim(sample.examples) > 1:  # each of many simulated samples is used only once
        return _Solved(sample)
    return _remembered(b"".join(np.ascontiguousarray(part).tobytes() for part in sample))


@lru_cache(maxsize=256)
def _remembered(sums: bytes) -> _Solved:
    return _Solved(Binned(*np.frombuffer(sums).reshape(len(Binned._fields), -1)))


class _Solved:
    """The test inversion of one model on each sample; `debiased` is not cut at 0 here."""

    def __init__(self, sample: Binned) -> None:
        count = sample.examples
        self.n = n = float(count.sum(-1).flat[0])
        self.share = share = count / n
        self.sure = sure = np.where(count > 0, _over(sample.confidence, count), 0.5)
        spread = np.maximum(_over(sample.squares, count) - sure**2, 0.0) * (count > 0)
        gap = (sample.confidence - sample.hits) / n
        self.gap = size = np.abs(gap)
        sign = np.where(gap >= 0, 1.0, -1.0)

        # Wilson's interval of each bin's accuracy gives the variance towards 0, and away from 0 by the longer side.
        low, high = _wilson(sample.hits, count)
        least, most = (sure - high) * share, (sure - low) * share
        towards = np.where(sign > 0, gap - least, most - gap)
        away = np.maximum(np.abs(least), np.abs(most)) - size
        extra = (_over(size**2, share) + spread * share) / n  # the shares and confidences of bins are random too
        down, up = ((np.where(count > 0, way, 0.0) / 1.96) ** 2 + extra for way in (towards, away))
        self._spread, self._count = spread, count
        variances = np.stack([down, (down + up) / 2, up])
        signs = np.stack([sign, sign, np.where(np.abs(most) >= np.abs(least), 1.0, -1.0)])
        self.value = size.sum(-1)
        self.low, self.debiased, self.high = self._invert(variances, signs, np.array([Z, 0.0, -Z]))
        self._as_one_bin(np.abs(gap.sum(-1)), *np.sqrt(variances[[0, 2]].sum(-1)))
        self._slopes(sign, variances[1])

    def _as_one_bin(self, overall: Floats, sd_down: Floats, sd_up: Floats) -> None:
        """Raise all three estimates to at least the estimates of the sample as one wide bin.

        |mean confidence - accuracy| is at most the error, and it has no bias if its sign is clear: gaps that all have
        one sign are estimated better together than bin by bin.
        """
        self.debiased = np.where(overall > 2 * sd_down, np.maximum(self.debiased, overall), self.debiased)
        self.low = np.maximum(self.low, overall - OVERALL[0] * sd_down)
        self.high = np.maximum(self.high, overall + OVERALL[1] * sd_up)

    def _invert(self, variances: Floats, signs: Floats, targets: Floats) -> Floats:
        """Find by bisection along the path the candidate error at which the plug-in equals each target, [3, ...]."""
        targets = targets.reshape(3, *[1] * self.value.ndim)
        total = np.sqrt(np.maximum(variances.sum(-1, keepdims=True), 1e-300))
        shortest = -np.max(_over(self.gap, np.sqrt(variances)), -1) * (1 + 1e-9) - 1e-9  # every gap is 0
        longest = np.full(shortest.shape, 6.0)
        at_zero, mean = self._deviation(np.zeros_like(variances), signs)
        below, above = shortest, longest
        over, under = at_zero - targets, np.full(shortest.shape, -np.inf)
        for _ in range(STEPS):
            middle = (below + above) / 2
            left = self._deviation(self._gaps(middle, variances, total), signs)[0] - targets
            below, over = np.where(left > 0, middle, below), np.where(left > 0, left, over)
            above, under = np.where(left > 0, above, middle), np.where(left > 0, under, left)
        part = np.where(np.isfinite(under), over / np.maximum(over - under, 1e-300), 1.0)  # the last step is linear
        found = self._gaps(below + np.clip(part, 0.0, 1.0) * (above - below), variances, total).sum(-1)
        cut = np.where(targets == 0, np.minimum(self.value - mean, 0.0), 0.0)
        return np.where(at_zero <= targets, cut, found)

    def _gaps(self, step: Floats, variances: Floats, total: Floats) -> Floats:
        """Return the gaps times shares at a step of the path: shrunk below 0, unchanged at 0, grown above 0."""
        t = step[..., None]
        shrunk = self.gap - _over(t**2 * variances, np.broadcast_to(self.gap, variances.shape))
        return np.where(t < 0, np.maximum(shrunk, 0.0), self.gap + np.maximum(t, 0.0) * variances / total)

    def _deviation(self, gaps: Floats, signs: Floats) -> tuple[Floats, Floats]:
        """Return by how many standard deviations the plug-in exceeds its mean under these gaps, and that mean."""
        slope = _over(gaps, np.broadcast_to(self.share, gaps.shape))
        accuracy = np.clip(self.sure - signs * slope, 0.0, 1.0)
        chance = accuracy * (1 - accuracy)
        noise = np.maximum(chance, self._spread) * self.share / self.n
        mean = gaps + 2 * self._fold(gaps, noise, accuracy, signs)
        variance = np.maximum(gaps**2 + noise - mean**2, 0.0).sum(-1)
        between = _over(gaps**2, np.broadcast_to(self.share, gaps.shape)).sum(-1) - gaps.sum(-1) ** 2
        mean = mean.sum(-1)
        sd = np.sqrt(np.maximum(variance + np.maximum(between, 0.0) / self.n, 1e-300))
        return (self.value - mean) / sd, mean

    def _fold(self, gaps: Floats, noise: Floats, accuracy: Floats, signs: Floats) -> Floats:
        """Return E of the part of a noisy gap beyond 0: half of the increase of its mean by folding, [..., bin]."""
        sd = np.sqrt(noise)
        x = np.minimum(np.divide(gaps, sd, out=np.full_like(gaps, 40.0), where=sd > 0), 40.0)
        density, tail = _normal(x)
        fold = sd * (density - x * tail)
        expected = np.broadcast_to(self._count * (1 - self.sure), gaps.shape)
        rare = np.nonzero((expected < RARE) & (np.broadcast_to(self._count, gaps.shape) > 0))
        # errors ~ binomial: E (expected - errors)+ has few terms; with the other sign, E (errors - expected)+
        k, count = expected[rare], np.broadcast_to(self._count, gaps.shape)[rare]
        wrong = np.minimum(1 - accuracy[rare], 1 - 1e-12)
        chance = np.exp(count * np.log1p(-wrong))
        total = k * chance
        for errors in range(1, RARE):
            chance = chance * (wrong / (1 - wrong)) * np.maximum(count - errors + 1, 0.0) / errors
            total = total + np.maximum(k - errors, 0.0) * chance
        fold[rare] = np.maximum(total / self.n - np.where(signs[rare] > 0, 0.0, gaps[rare]), 0.0)
        return fold

    def _slopes(self, sign: Floats, variance: Floats) -> None:
        """Set the error's weights on each bin's gap, its standard deviation, and a difference's middle and reach."""
        x = np.minimum(_over(self.gap, np.sqrt(variance)), 40.0)
        known = 1 - 2 * _normal(SLOPE * x)[1]
        self.weights = sign * known
        self.weighted = (self.weights * sign * self.gap).sum(-1)
        self.sd = np.sqrt(variance.sum(-1))
        left_out = LEFT_OUT * (1 - np.minimum(_over(self.low, FADE * self.sd), 1.0))
        self.middle = self.debiased - left_out * np.maximum(self.debiased, 0.0)
        self.reach_down = np.maximum(self.middle - self.low, FLOOR * Z * self.sd)
        self.reach_up = np.maximum(self.high - self.middle, 0.0)


def _normal(x: Floats) -> tuple[Floats, Floats]:
    """Return the density of the standard normal at x >= 0 and the probability beyond it, to 1e-7.

    Abramowitz and Stegun (1964), 26.2.17: numpy has no error function.
    """
    density = np.exp(-x * x / 2) / 2.5066282746310002
    t = 1 / (1 + 0.2316419 * x)
    polynomial = 0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    return density, density * t * polynomial


def _wilson(hits: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's 95% interval, defined for an empty bin too (0 to 1), unlike `intervals.wilson`."""
    z2, size = 1.96**2, np.maximum(count, 1e-9)
    share = hits / size
    center = (share + z2 / (2 * size)) / (1 + z2 / size)
    half = 1.96 * np.sqrt(share * (1 - share) / size + z2 / (4 * size**2)) / (1 + z2 / size)
    return center - half, center + half


def _over(a: Floats, b: Floats) -> Floats:
    """Return a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b))), where=b > 0)


def _outcomes(logits: ArrayLike, labels: ArrayLike, name: str = "logits") -> tuple[Floats, NDArray[np.bool_]]:
    """Return confidence and correctness of the predictions, [n] each; a class masked by -inf has probability 0."""
    z = numbers(logits, name)
    if _are_probabilities(z):
        raise BadInput(
            f"{name} are probabilities: every row lies between 0 and 1 and sums to 1. Give the logits, or the "
            "logarithm of the probabilities."
        )
    if z.ndim == 2 and z.shape[1] and (masked := z == -np.inf).any():
        most = z.max(axis=1, keepdims=True)
        if (whole := np.flatnonzero(most == -np.inf)).size:
            raise BadData(f"all {name} of example {whole[0]} are -inf; at least one class must not be masked.")
        z = np.where(masked & np.isfinite(most), most - UNDERFLOW, z)
    if labels is None:
        raise BadInput("labels are needed: one class number for each prediction.")
    z, y = checked_logits(z, labels, name)
    if len(y) < FEWEST:
        raise BadData(f"an interval of calibration needs at least {FEWEST} examples; got {len(y)}.")
    return confidence(probabilities(z)), correct(z, y)


def _are_probabilities(z: Floats) -> bool:
    """True if every row is between 0 and 1 and sums to 1, and some rows are not one-hot."""
    if z.ndim != 2 or z.shape[1] < 2 or not len(z) or z.min() < 0 or z.max() > 1:
        return False
    return bool(np.allclose(z.sum(axis=1), 1.0, rtol=0, atol=0.01) and ((z > 0) & (z < 1)).any())


def _plug_in(sure: Floats, right: NDArray[np.bool_], edges: Floats) -> float:
    """Return the error of the sample itself; it equals `metrics.ece` to the last bit."""
    gaps = np.bincount(bin_numbers(sure, edges), weights=sure - right, minlength=len(edges) - 1)
    return float(np.abs(gaps).sum() / len(sure))


def _answer(value: float, ends: Ends, bins: int, n: int) -> CalibrationError:
    debiased, low, high = (float(end) for end in (ends.debiased, ends.low, ends.high))
    return CalibrationError(value, debiased, low, high, int(bins), n)
