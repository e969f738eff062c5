"""Words for every map of shared entries: titles, reading instructions, and the pairs in the alt text."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.plots.overlap import FEW, FEWER

TITLES = {"iou": "Shared entries (IoU)", "overlap": "Shared entries, of one region"}
READS = {
    "iou": "of all entries that either region has, the percentage that both have",
    "overlap": "of the entries of the column's region, the percentage that the row's region has too",
}


def reads(kind: str, columns: int) -> str:
    """Reading instructions for a map with this many columns, including the position of the chance level."""
    if columns <= FEWER:
        chance = "Chance: the range of 95% of random regions with as many entries in each tensor."
    elif columns <= FEW:
        chance = "In brackets: the mean of random regions with as many entries in each tensor; hover for 95% of them."
    else:
        chance = "Hover for the mean and 95% range of random regions with as many entries in each tensor."
    return f"{READS[kind]}. {chance}"


def alt(rows: pd.DataFrame, kind: str, row: str = "row", column: str = "column") -> str:
    """Every two regions, named in the columns `row` and `column`: once for IoU, which is symmetric, else both ways."""
    phrases: dict[object, str] = {}
    for a, b, value in zip(rows[row], rows[column], rows["value"], strict=True):
        if a != b and kind == "iou":
            phrases.setdefault(frozenset((a, b)), f"{a} and {b} {formats.percent(value)}")
        elif a != b:
            phrases[a, b] = f"of {b} in {a} {formats.percent(value)}"
    return f"{TITLES[kind]}. {'; '.join(phrases.values())}."
