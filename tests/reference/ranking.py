"""The best entries by score, by sorting a list of pairs."""

from __future__ import annotations

from collections.abc import Sequence


def slow_top(scores: Sequence[float], k: int) -> list[int]:
    """The k best, best first; ties go to the earlier one."""
    return [i for _, i in sorted((-float(score), i) for i, score in enumerate(scores))][:k]


def slow_equal_shares(distance: Sequence[Sequence[float]], k: int) -> list[int]:
    """The k entries of all tensors with the smallest rank over their tensor's entries, unmoved ones last."""
    ranked, start = list[tuple[bool, float, int]](), 0
    for tensor in distance:
        for rank, entry in enumerate(slow_top(tensor, len(tensor))):
            ranked.append((tensor[entry] == 0, (rank + 0.5) / len(tensor) if tensor[entry] else 0.0, start + entry))
        start += len(tensor)
    return [entry for _, _, entry in sorted(ranked)][:k]


def slow_moved_top(scores: Sequence[float], movement: Sequence[float], k: int) -> list[int]:
    """The k best moved entries, best first, followed by unmoved ones, by index."""
    moved = [i for i in slow_top(scores, len(scores)) if movement[i] != 0]
    return [*moved, *(i for i in range(len(scores)) if movement[i] == 0)][:k]
