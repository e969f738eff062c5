"""Many comparisons in words: how many there are, what chance alone would give, and what holds."""

from __future__ import annotations

from skillviz.core import formats
from skillviz.core.many_comparisons import RATE, Comparisons


def counted(counts: Comparisons) -> str:
    """`32 comparisons: 21 intervals exclude zero, about 1.6 of them by chance alone; 20 hold at a false discovery
    rate of 5%.`"""
    if not counts.n:
        return "There are too few examples to compare anything."
    noun = "interval excludes" if counts.decided == 1 else "intervals exclude"
    hold = "holds" if counts.held == 1 else "hold"
    return (
        f"{formats.counted(counts.n, 'comparison')}: {counts.decided} {noun} zero, where chance alone would give about "
        f"{counts.by_chance:.1f}; {counts.held} {hold} at a false discovery rate of {RATE:.0%}."
    )
