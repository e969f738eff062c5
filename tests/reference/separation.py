"""AUROC and the variance of DeLong, DeLong and Clarke-Pearson (1988) by pairs, and risk by coverage over all orders."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations
from statistics import covariance as covariance_of
from statistics import fmean as mean

Groups = tuple[Sequence[float], Sequence[float]]


def wins(x: float, y: float) -> float:
    """1 if x is larger, 1/2 if both are equal, else 0."""
    return (x > y) + 0.5 * (x == y)


def auroc(inside: Sequence[float], outside: Sequence[float]) -> float:
    """The AUROC: the mean of `wins` over all pairs."""
    return mean(wins(x, y) for x in inside for y in outside)


def covariance(first: Groups, second: Groups) -> float:
    """The covariance of the AUROCs of two models on the same examples, each given as (inside, outside)."""
    parts = [
        ([mean(wins(x, y) for y in outside) for x in inside], [mean(wins(x, y) for x in inside) for y in outside])
        for inside, outside in (first, second)
    ]
    return sum(covariance_of(one, other) / len(one) for one, other in zip(*parts, strict=True))


def risks(sure: Sequence[float], wrong: Sequence[bool]) -> list[float]:
    """The mean share of wrong answers among the k surest examples, k = 1 to n."""
    n = len(sure)
    orders = [order for order in permutations(range(n)) if all(sure[a] >= sure[b] for a, b in pairwise(order))]
    return [mean(mean(wrong[i] for i in order[:k]) for order in orders) for k in range(1, n + 1)]
