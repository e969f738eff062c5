"""Many comparisons in words: how many there are, what chance alone would give, and what holds."""

from __future__ import annotations

from skillviz.core import formats
from skillviz.core.many_comparisons import RATE, Comparisons


def counted(counts: Comparisons) -> str:
    """`Of 32 comparisons, 21 exclude zero; chance alone would give about 1.6. 20 hold at a false discovery rate ...`"""
    if not counts.n:
        return "There are too few examples to compare anything."
    of = formats.counted(counts.n, "comparison")
    if not counts.decided:
        return f"None of {of} excludes zero."
    exclude, hold = ("excludes" if counts.decided == 1 else "exclude"), ("holds" if counts.held == 1 else "hold")
    return (
        f"Of {of}, {counts.decided} {exclude} zero; chance alone would give about {counts.by_chance:.1f}. "
        f"{counts.held} {hold} at a false discovery rate of {RATE:.0%}."
    )
