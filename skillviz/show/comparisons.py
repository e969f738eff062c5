"""Many comparisons in words: their number, the number expected by chance alone, and the ones that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.many_comparisons import RATE, Comparisons, compared, decided, discoveries, p_values
from skillviz.core.verdicts import NOT_MEASURED

MARK = "†"
"""Follows a verdict that excludes zero but does not hold at the false discovery rate."""

FEW = 5
"""The number of comparisons up to which a page does not count them."""

KNOWN = {name: name for name in ("debiased", "seeds", "gained", "lost")} | {"n": "examples"}
"""Columns of a table of differences, and the arguments of `p_values` that they are."""


def counted(counts: Comparisons, limit: str = "zero") -> str:
    """`Of 32 comparisons, 21 exclude zero; chance alone would give about 1.6. 20 hold at a false discovery rate ...`

    `limit` names the value that an interval has to exclude for a verdict. Empty for at most FEW.
    """
    if not counts.n:
        return "No comparison has an interval: too few examples, or no stored predictions."
    if counts.n <= FEW:
        return ""
    of = formats.counted(counts.n, "comparison")
    if not counts.decided:
        return f"None of {of} excludes {limit}."
    exclude, hold = ("excludes" if counts.decided == 1 else "exclude"), ("holds" if counts.held == 1 else "hold")
    return (
        f"Of {of}, {counts.decided} {exclude} {limit}; chance alone would give about {counts.by_chance:.1f}. "
        f"{counts.held} {hold} at a false discovery rate of {RATE:.0%}."
    )


def counted_rows(rows: pd.DataFrame) -> str:
    """The same of differences, rows as of `compared_rows`, and how many have no interval; empty for fewer than two
    values."""
    known = rows.dropna(subset=["value"])
    if len(known) < 2:
        return ""
    counts = compared_rows(known)
    told, bare = counted(counts), len(known) - counts.n
    if not counts.n or not bare:
        return told
    are = "is" if bare == 1 else "are"
    return f"{told} {bare} more {are} {NOT_MEASURED}." if told else f"{bare} of {len(known)} {are} {NOT_MEASURED}."


def compared_rows(rows: pd.DataFrame) -> Comparisons:
    """The counts for differences with the columns value, low, high and, where there is one, those of KNOWN."""
    return compared(rows["value"], rows["low"], rows["high"], **known_of(rows))


def known_of(rows: pd.DataFrame) -> dict[str, Any]:
    """What `p_values` takes beside value and ends."""
    return {name: rows[column].astype("float64") for column, name in KNOWN.items() if column in rows}


def holding(rows: pd.DataFrame) -> pd.Series:
    """Which of these differences exclude zero and hold among all of them, bool; rows as of `compared_rows`.

    With fewer than two values, every difference that excludes zero holds.
    """
    p = p_values(rows["value"], rows["low"], rows["high"], **known_of(rows))
    p = np.where(rows["value"].notna(), p, np.nan)
    apart = decided(rows["low"], rows["high"])
    return pd.Series(apart & discoveries(p) if np.isfinite(p).sum() > 1 else apart, index=rows.index)


def legend(rows: pd.DataFrame) -> str:
    """The meaning of MARK if one of these differences, with `holds` from `holding`, has it; otherwise empty."""
    is_marked = (decided(rows["low"], rows["high"]) & ~rows["holds"]).any()
    return f"{MARK} marks a verdict that may be chance, given the number of comparisons." if is_marked else ""
