"""The best entries by score, by sorting a list of pairs."""

from __future__ import annotations

from collections.abc import Sequence


def slow_top(scores: Sequence[float], k: int) -> list[int]:
    """The k best, best first; of equals the earlier one."""
    return [i for _, i in sorted((-float(score), i) for i, score in enumerate(scores))][:k]
