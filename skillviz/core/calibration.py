"""The match of confidence and accuracy: in bins (the reliability table and the histogram of confidence), and smoothed.

The confidence of an example is the probability of its predicted class. The paper gives no number of bins and uses an
implementation with 15 bins of equal width, half-open (lower, upper]; so do we (PAPER.md, section 6).

For the smooth calibration error (smECE), confidences are smoothed with a Gaussian kernel on [0, 1], reflected at both
ends. At a bandwidth, the error is the mean distance of smoothed confidence and smoothed accuracy. smECE is the
bandwidth at which the error equals the bandwidth, so that nothing is left to choose (Blasiok and Nakkiran 2023, Smooth
ECE).

The interval is ours. The error is a norm of the gaps, so noise moves smECE by at most the norm of the noise, which is
drawn (Gaussian multipliers): its 97.5% quantile below is the lower end. The norm is convex, so the mean estimate is not
too low, and 1.645 standard deviations above is the upper end. Neither end is inside the Wilson interval of the gap
overall. Coverage: docs/research/coverage.md.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skillviz.core.calibration_error import BINS, FEWEST, bin_numbers, equal_mass_edges, equal_width_edges
from skillviz.core.intervals import RESAMPLES, Interval, wilson
from skillviz.core.scores import Floats, checked_logits, confidence, correct, probabilities


def reliability(logits: ArrayLike, labels: ArrayLike, bins: int = BINS, equal_mass: bool = False) -> pd.DataFrame:
    """Return one row per bin: bin, lower, upper, count, confidence (mean), accuracy, and its 95% Wilson low, high.

    An empty bin has count 0 and NaN for the last four. `equal_mass` puts about as many examples in each bin.
    """
    z, y = checked_logits(logits, labels)
    sure, right = confidence(probabilities(z)), correct(z, y)
    edges = equal_mass_edges(sure, bins) if equal_mass else equal_width_edges(bins)
    number = bin_numbers(sure, edges)
    count = np.bincount(number, minlength=bins)
    hits = np.bincount(number, weights=right, minlength=bins)
    low, high = wilson(hits, count)
    return pd.DataFrame(
        {
            "bin": np.arange(bins),
            "lower": edges[:-1],
            "upper": edges[1:],
            "count": count,
            "confidence": _per_count(np.bincount(number, weights=sure, minlength=bins), count),
            "accuracy": _per_count(hits, count),
            "low": low,
            "high": high,
        }
    )


def _per_count(totals: np.ndarray, count: np.ndarray) -> Floats:
    return np.divide(totals, count, out=np.full(len(count), np.nan), where=count > 0)


def confidence_histogram(logits: ArrayLike, labels: ArrayLike, bins: int = 20) -> pd.DataFrame:
    """One row per bin from 1/classes to 1: bin, lower, upper, count, share (of all examples), correct (count)."""
    z, y = checked_logits(logits, labels)
    sure = confidence(probabilities(z))
    edges = equal_width_edges(bins, lowest=1.0 / z.shape[1] if z.shape[1] > 1 else 0.0)
    number = bin_numbers(sure, edges)
    count = np.bincount(number, minlength=bins)
    return pd.DataFrame(
        {
            "bin": np.arange(bins),
            "lower": edges[:-1],
            "upper": edges[1:],
            "count": count,
            "share": count / len(y),
            "correct": np.bincount(number[correct(z, y)], minlength=bins),
        }
    )


GRID = 513
"""Points of the grid of confidences, to whose neighbors every example is split."""
HALVINGS = 30  # of the interval of bandwidths
POINTS = 201  # of a curve


def smooth_error(logits: ArrayLike, labels: ArrayLike) -> Interval:
    """Return smECE of logits [n, label], 0 to 1, with its 95% interval.

    The ends are NaN for fewer than 10 examples, and if no prediction has a gap.
    """
    z, y = checked_logits(logits, labels)
    sure, right, n = confidence(probabilities(z)), correct(z, y), len(y)
    gaps = _on_grid(sure, sure - right) / n
    value = _bandwidth(gaps)
    if n < FEWEST or not gaps.any():
        return Interval(value, math.nan, math.nan)
    spread = np.sqrt(_on_grid(sure, (sure - right) ** 2)) / n
    noise = _smoothed(spread * np.random.default_rng(0).standard_normal((RESAMPLES, GRID)), value)
    low = value - float(np.quantile(np.abs(noise).sum(axis=1), 0.975))
    high = value + 1.645 * float(np.abs(_smoothed(gaps, value) + noise).sum(axis=1).std())
    least, most = (float(sure.mean()) - end for end in wilson(int(right.sum()), n)[::-1])
    return Interval(value, min(max(low, least, -most, 0.0), value), min(max(high, -least, most), 1.0))


def smooth_reliability(logits: ArrayLike, labels: ArrayLike, bandwidth: float) -> pd.DataFrame:
    """Return smoothed confidence and accuracy along the confidences, all 0..1: confidence, accuracy, low, high, n.

    The distance of the two is the one that `smooth_error` averages. `low` and `high` are the pointwise 95% interval of
    the accuracy: Wilson's for `n`, the effective number of examples under the kernel. Places with less than one
    example under the kernel are left out.
    """
    z, y = checked_logits(logits, labels)
    sure = confidence(probabilities(z))
    grid, at = np.linspace(0, 1, GRID), np.linspace(0, 1, POINTS)[:, None]
    kernel = np.exp(-(((at - np.stack([grid, -grid, 2 - grid])[:, None]) / max(bandwidth, 1 / GRID)) ** 2) / 2).sum(
        axis=0
    )
    total, squares = (power @ _on_grid(sure, np.ones(len(y))) for power in (kernel, kernel**2))
    kernel, total, squares = (part[total >= 1] for part in (kernel, total, squares))
    smooth, hits = (kernel @ _on_grid(sure, values) / total for values in (sure, correct(z, y).astype(float)))
    accuracy, count = np.clip(hits, 0.0, 1.0), total**2 / squares
    low, high = wilson(accuracy * count, count)
    return pd.DataFrame({"confidence": smooth, "accuracy": accuracy, "low": low, "high": high, "n": count})


def _bandwidth(gaps: Floats) -> float:
    """The bandwidth that equals the error at it; the error falls as the bandwidth grows, so there is one."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if np.abs(_smoothed(gaps, middle)).sum() > middle else (low, middle)
    return high


def _on_grid(sure: Floats, values: Floats) -> Floats:
    """The sums of `values` by point of the grid, each split linearly between the two neighbors of its confidence."""
    left = np.minimum((sure * (GRID - 1)).astype(int), GRID - 2)
    part = sure * (GRID - 1) - left
    lower, upper = np.bincount(left, values * (1 - part), GRID), np.bincount(left + 1, values * part, GRID)
    return (lower + upper).astype(np.float64)


def _smoothed(cells: Floats, bandwidth: float) -> Floats:
    """The cells [..., GRID] after smoothing, with the same sum; reflection is a Fourier series of period 2.

    An end of the grid coincides with its own image, so it counts twice, and half of the result.
    """
    ends = np.where(np.arange(GRID) % (GRID - 1) == 0, 2.0, 1.0)
    series = np.fft.rfft(np.concatenate([cells * ends, cells[..., -2:0:-1]], axis=-1))
    series *= np.exp(-((bandwidth * np.pi * np.arange(GRID)) ** 2) / 2)
    return np.fft.irfft(series, 2 * (GRID - 1))[..., :GRID] / ends
