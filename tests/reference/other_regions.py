"""Slow twins of droppable and of harmful entries, in float64 with lists, one entry at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.reference.searches import Gradient


def slow_minimal(
    entries: list[int], worth: Callable[[list[int]], dict[int, float]], loss: Callable[[list[int]], float],
    finest: float,
) -> list[int]:  # fmt: skip
    """The remaining entries after dropping blocks (halves, quarters and so on) that do not raise the loss."""
    kept, most, count = list(entries), loss(list(entries)), 2
    while count * finest <= 1:
        by_worth = worth(kept)
        queue = sorted(kept, key=lambda entry: (by_worth[entry], entry))
        blocks = min(count, len(queue))
        for number in range(blocks):
            length = len(queue) // (blocks - number) + (len(queue) % (blocks - number) > 0)
            dropped, queue = set(queue[:length]), queue[length:]
            rest = [entry for entry in kept if entry not in dropped]
            if rest and loss(rest) <= most:
                kept = rest
        count *= 2
    return kept


def slow_adversarial(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, draws: Sequence[np.ndarray], region: list[int],
    candidates: list[int], size: int,
) -> list[int]:  # fmt: skip
    """The most harmful entries outside the region, from gradients at the graft with the entries chosen so far."""
    free = [entry for entry in candidates if entry not in set(region)]
    harm, chosen = dict.fromkeys(free, 0.0), list[int]()
    for step, rows in enumerate(draws, start=1):
        theta = base.copy()
        for entry in [*region, *chosen]:
            theta[entry] = tuned[entry]
        slope = gradient(theta, rows)[1]
        for entry in free:
            harm[entry] += float(slope[entry]) * float(tuned[entry] - base[entry])
        chosen = sorted(free, key=lambda entry: (-harm[entry], entry))[: max(1, round(size * step / len(draws)))]
    return sorted(chosen)
