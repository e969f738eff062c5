"""AUROC and the variance of DeLong, DeLong and Clarke-Pearson (1988), pair by pair."""

from __future__ import annotations

from collections.abc import Sequence


def wins(x: float, y: float) -> float:
    """1 if x is larger, 1/2 if both are equal, else 0."""
    if x > y:
        return 1.0
    return 0.5 if x == y else 0.0


def auroc(inside: Sequence[float], outside: Sequence[float]) -> float:
    """The AUROC: the mean of `wins` over all pairs."""
    return sum(wins(x, y) for x in inside for y in outside) / (len(inside) * len(outside))


def covariance(
    first: tuple[Sequence[float], Sequence[float]], second: tuple[Sequence[float], Sequence[float]]
) -> float:
    """The covariance of the AUROCs of two models on the same examples, each given as (inside, outside)."""
    parts = []
    for inside, outside in (first, second):
        of_inside = [sum(wins(x, y) for y in outside) / len(outside) for x in inside]
        of_outside = [sum(wins(x, y) for x in inside) / len(inside) for y in outside]
        parts.append((of_inside, of_outside))
    total = 0.0
    for group in (0, 1):
        one, other = parts[0][group], parts[1][group]
        mean_one, mean_other = sum(one) / len(one), sum(other) / len(other)
        products = [(a - mean_one) * (b - mean_other) for a, b in zip(one, other, strict=True)]
        total += sum(products) / (len(one) - 1) / len(one)
    return total
