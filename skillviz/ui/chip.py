"""A verdict as a chip: its words, with a sign and a colour that repeat them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED, UNDECIDED, ClaimVerdict, DifferenceVerdict
from skillviz.show import text
from skillviz.show.comparisons import MARK
from skillviz.show.control import Judged

Verdict = DifferenceVerdict | ClaimVerdict

GOOD, BAD, OPEN = (
    ("green", ":material/check_circle:"), ("red", ":material/cancel:"), ("gray", ":material/remove_circle:"),
)  # fmt: skip
UNKNOWN = ("blue", ":material/help:")
SIGNS: dict[Verdict, tuple[str, str]] = {
    "better": GOOD, "worse": BAD, "no clear difference": OPEN,
    "confirmed": GOOD, "contradicted": BAD, "inconclusive": OPEN,
    NOT_MEASURED: UNKNOWN,
}  # fmt: skip
"""Of each verdict its colour and its icon; the words stand beside them, so neither is needed to read it."""
ORDER: tuple[DifferenceVerdict, ...] = ("better", "worse", NO_DIFFERENCE, NOT_MEASURED)
MOST_NUMBERED = 3
"""Verdicts with their numbers that one line holds; those of more are read off the figure below."""


def chip(verdict: Verdict, *, of: str = "", help: str | None = None) -> None:
    """Draws the verdict; `of` names what it is about, in front of it."""
    st.markdown(f"{of} {chip_text(verdict)}".strip(), help=help)


def judged_text(judged: Judged) -> str:
    """The chip between its words, in Markdown."""
    return f"{judged.subject} {chip_text(judged.verdict)} {judged.difference}"


def chip_text(verdict: Verdict) -> str:
    """The chip in Markdown, for a line with more in it; raises KeyError for anything but a verdict."""
    colour, icon = SIGNS[verdict]
    return f":{colour}-badge[{icon} {verdict}]"


def lead_of(differences: pd.DataFrame, metric: str, by: str, order: Sequence[str]) -> pd.DataFrame:
    """The row that a headline is about: of those with a difference in this metric the first whose `by` is in `order`.

    No row where none has.
    """
    known = differences[(differences["metric"] == metric) & differences["value"].notna() & differences[by].isin(order)]
    return known.sort_values(by, key=lambda names: names.map(list(order).index), kind="stable").head(1)


def lead_words(lead: Mapping[Any, Any]) -> str:
    """`**random** worse −1.2 points (95%: −2.0 to −0.1)`: the one comparison of a headline, its verdict as a chip.

    `lead`: name, metric, value, low, high, debiased and, of one among several, holds: where False, MARK is behind it.
    """
    return _claim(lead, "95%: ")


def _claim(row: Mapping[Any, Any], level: str = "") -> str:
    words = metric_row(row["metric"]).precise(row["low"], row["high"])
    says = words.verdict(row["low"], row["high"])
    said = words.difference(row["value"], row["low"], row["high"], row["debiased"], level)
    chip_ = chip_text(says) + ("" if row.get("holds", True) or says in UNDECIDED else MARK)
    return f"**{text.tasks(row['name'])}** {chip_} {said}"


def verdict_line(differences: pd.DataFrame, metric: str) -> str:
    """`Accuracy: **random** worse −1.2 points (−2.0 to −0.1); **biases** no clear difference`, verdicts as chips.

    `differences`: name, metric, value, low, high, debiased and, where there are several, holds; MARK is behind those
    that do not. An interval stands beside each verdict that claims something, and beside the only one; where more than
    MOST_NUMBERED do, each chip is written once, behind all names it is about. Empty where nothing was compared.
    """
    words = metric_row(metric)
    rows = differences[(differences["metric"] == metric) & differences["value"].notna()].reset_index(drop=True)
    says = [words.verdict(*ends) for ends in zip(rows["low"], rows["high"], strict=True)]
    is_open = pd.Series(says, index=rows.index, dtype=object).isin(UNDECIDED)
    rows = rows.assign(says=says, holds=rows.get("holds", True) | is_open)
    claims = rows[~is_open | (len(rows) == 1)]
    numbered = claims if len(claims) <= MOST_NUMBERED else claims.iloc[:0]
    parts = [_claim(row) for row in numbered.to_dict("records")]
    rest = rows.drop(numbered.index)
    for verdict, mark in itertools.product(ORDER, ("", MARK)):
        those = rest[(rest["says"] == verdict) & (rest["holds"] == (not mark))]
        if alike := [f"**{text.tasks(name)}**" for name in those["name"]]:
            parts.append(f"{formats.listed(alike, len(alike))} {chip_text(verdict)}{mark}")
    return f"{words.heading}: {'; '.join(parts)}" if parts else ""
