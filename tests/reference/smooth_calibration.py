"""The smooth calibration error from its definition: kernels at every image of an example, integrals as sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

STEPS = 1000


def kernel(t: float, sure: float, width: float) -> float:
    """The Gaussian density at t, around a confidence and its reflections at 0 and 1."""
    images = [2 * k + side * sure for k in range(-4, 5) for side in (1, -1)]
    return sum(math.exp(-(((t - image) / width) ** 2) / 2) for image in images) / (width * math.sqrt(2 * math.pi))


def mean_under_kernel(t: float, sure: Sequence[float], values: Sequence[float], width: float) -> float:
    """The mean of the values, weighted by the kernel at t."""
    weights = [kernel(t, one, width) for one in sure]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def error_at(sure: Sequence[float], right: Sequence[bool], width: float) -> float:
    """The integral over t of |mean over examples of (confidence - right) times the kernel|."""
    total = 0.0
    for step in range(STEPS):
        t = (step + 0.5) / STEPS
        gaps = [(s - r) * kernel(t, s, width) for s, r in zip(sure, right, strict=True)]
        total += abs(sum(gaps) / len(gaps)) / STEPS
    return total
