"""The best entries by score, by sorting a list of pairs."""

from __future__ import annotations

from collections.abc import Sequence


def slow_top(scores: Sequence[float], k: int) -> list[int]:
    """The k best, best first; ties go to the earlier one."""
    return [i for _, i in sorted((-float(score), i) for i, score in enumerate(scores))][:k]


def slow_moved_top(scores: Sequence[float], movement: Sequence[float], k: int) -> list[int]:
    """The k best moved entries, best first, followed by unmoved ones, by index."""
    moved = [i for i in slow_top(scores, len(scores)) if movement[i] != 0]
    return [*moved, *(i for i in range(len(scores)) if movement[i] == 0)][:k]
