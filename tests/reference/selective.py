"""Risk at every coverage, averaged over every order of the examples that keeps the surest first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from statistics import fmean


def risks(sure: Sequence[float], wrong: Sequence[bool]) -> list[float]:
    """The mean share of wrong answers among the k surest examples, k = 1 to n."""
    n = len(sure)
    orders = [order for order in permutations(range(n)) if all(sure[a] >= sure[b] for a, b in pairwise(order))]
    return [fmean(fmean(wrong[i] for i in order[:k]) for order in orders) for k in range(1, n + 1)]
