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
        for blocks in range(min(count, len(queue)), 0, -1):
            length = -(-len(queue) // blocks)
            dropped, queue = set(queue[:length]), queue[length:]
            rest = [entry for entry in kept if entry not in dropped]
            kept = rest if rest and loss(rest) <= most else kept
        count *= 2
    return kept


def slow_adversarial(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, draws: Sequence[np.ndarray], region: list[int],
    candidates: list[int], size: int,
) -> list[int]:  # fmt: skip
    """The most harmful entries outside the region, from gradients at the graft with the entries chosen so far."""
    harm, chosen = {entry: 0.0 for entry in candidates if entry not in set(region)}, list[int]()
    for step, rows in enumerate(draws, start=1):
        grafted = set(region) | set(chosen)
        slope = gradient(np.array([tuned[i] if i in grafted else base[i] for i in range(len(base))]), rows)[1]
        harm = {entry: h + float(slope[entry]) * float(tuned[entry] - base[entry]) for entry, h in harm.items()}
        most = max(1, round(size * step / len(draws)))
        chosen = sorted(harm, key=lambda entry: (-harm[entry], entry))[:most]
    return sorted(chosen)
