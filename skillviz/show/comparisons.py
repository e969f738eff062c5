"""Many comparisons in words: their number, the number expected by chance alone, and the ones that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.many_comparisons import RATE, Comparisons, compared, decided, discoveries, p_values
from skillviz.core.metrics import METRICS
from skillviz.core.verdicts import NOT_MEASURED

MARK = "†"
"""Follows a verdict that excludes zero but does not hold at the false discovery rate."""


def counted(counts: Comparisons, limit: str = "zero") -> str:
    """`Of 32 comparisons, 21 exclude zero; chance alone would give about 1.6. 20 hold at a false discovery rate ...`

    `limit` names the value that an interval has to exclude for a verdict.
    """
    if not counts.n:
        return "No comparison has an interval: too few examples, or no stored predictions."
    of = formats.counted(counts.n, "comparison")
    if not counts.decided:
        return f"None of {of} excludes {limit}."
    exclude, hold = ("excludes" if counts.decided == 1 else "exclude"), ("holds" if counts.held == 1 else "hold")
    return (
        f"Of {of}, {counts.decided} {exclude} {limit}; chance alone would give about {counts.by_chance:.1f}. "
        f"{counts.held} {hold} at a false discovery rate of {RATE:.0%}."
    )


def counted_rows(rows: pd.DataFrame, metric: str = "") -> str:
    """The same sentence for differences, with rows as in `compared_rows`, and the number without an interval; empty
    for fewer than two values."""
    known = rows.dropna(subset=["value"])
    if len(known) < 2:
        return ""
    counts = compared_rows(known, metric)
    bare = len(known) - counts.n
    more = f" {bare} more {'is' if bare == 1 else 'are'} {NOT_MEASURED}." if counts.n and bare else ""
    return counted(counts) + more


def compared_rows(rows: pd.DataFrame, metric: str = "") -> Comparisons:
    """The counts for differences with the columns value, low, high and, if present, debiased, seeds, metric and n;
    `metric` applies to all rows if there is no such column."""
    return compared(rows["value"], rows["low"], rows["high"], **known_of(rows, metric))


def known_of(rows: pd.DataFrame, metric: str = "") -> dict[str, Any]:
    """The other arguments of `p_values`: debiased, seeds, and the examples of differences of shares."""
    metrics = rows["metric"] if "metric" in rows else pd.Series(metric, index=rows.index, dtype=object)
    is_share = [name in METRICS and METRICS[name].interval == "wilson" for name in metrics]
    examples = rows["n"].astype("float64").where(pd.Series(is_share, index=rows.index)) if "n" in rows else None
    numbers = {name: rows[name].astype("float64") for name in ("debiased", "seeds") if name in rows}
    return {**numbers, "examples": examples}


def holding(rows: pd.DataFrame, metric: str = "") -> pd.Series:
    """True for each difference that excludes zero and holds among all of them, bool; rows as in `compared_rows`.

    With fewer than two values, every difference that excludes zero holds.
    """
    p = p_values(rows["value"], rows["low"], rows["high"], **known_of(rows, metric))
    p = np.where(rows["value"].notna(), p, np.nan)
    apart = decided(rows["low"], rows["high"])
    return pd.Series(apart & discoveries(p) if np.isfinite(p).sum() > 1 else apart, index=rows.index)


def legend(rows: pd.DataFrame) -> str:
    """The meaning of MARK if one of these differences, with `holds` from `holding`, has it; otherwise empty."""
    return f"Verdicts marked {MARK} do not." if (decided(rows["low"], rows["high"]) & ~rows["holds"]).any() else ""
