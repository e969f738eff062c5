"""The smooth calibration error from its definition: kernels at every image of an example, the integral as a sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

STEPS = 1000


def kernel(t: float, sure: float, width: float) -> float:
    """The Gaussian density at t, around a confidence and its reflections at 0 and 1."""
    images = [2 * k + side * sure for k in range(-4, 5) for side in (1, -1)]
    return sum(math.exp(-(((t - image) / width) ** 2) / 2) for image in images) / (width * math.sqrt(2 * math.pi))


def error_at(sure: Sequence[float], right: Sequence[bool], width: float) -> float:
    """The integral over t of |mean over examples of (confidence - right) times the kernel|."""
    places, every = ((step + 0.5) / STEPS for step in range(STEPS)), list(zip(sure, right, strict=True))
    return fmean(abs(fmean((s - r) * kernel(t, s, width) for s, r in every)) for t in places)
