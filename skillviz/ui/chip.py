"""A verdict as a chip: its words, with a sign and a colour that repeat them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NO_DIFFERENCE, ClaimVerdict, DifferenceVerdict
from skillviz.show import text
from skillviz.show.control import Judged

Verdict = DifferenceVerdict | ClaimVerdict

GOOD, BAD, OPEN = (
    ("green", ":material/check_circle:"), ("red", ":material/cancel:"), ("gray", ":material/remove_circle:"),
)  # fmt: skip
SIGNS: dict[Verdict, tuple[str, str]] = {
    "better": GOOD, "worse": BAD, "no clear difference": OPEN,
    "confirmed": GOOD, "contradicted": BAD, "inconclusive": OPEN,
}  # fmt: skip
"""Of each verdict its colour and its icon; the words stand beside them, so neither is needed to read it."""


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


def verdict_line(differences: pd.DataFrame, metric: str) -> str:
    """`Accuracy: **random** worse −1.2 points (−2.0 to −0.1); **biases** no clear difference`, verdicts as chips.

    `differences`: name, metric, value, low, high, debiased. An interval stands beside each verdict that claims
    something, and beside the only one. Empty where nothing was compared.
    """
    words = metric_row(metric)
    rows = differences[(differences["metric"] == metric) & differences["value"].notna()]
    claims, others = [], []
    for row in rows.to_dict("records"):
        verdict, name = words.verdict(row["low"], row["high"]), f"**{text.tasks(row['name'])}**"
        if verdict == NO_DIFFERENCE and len(rows) > 1:
            others.append(name)
        else:
            ends = words.ends(row["low"], row["high"], row["debiased"])
            claims.append(f"{name} {chip_text(verdict)} {words.change(row['value'])} ({ends})")
    if others:
        claims.append(f"{formats.listed(others, len(others))} {chip_text(NO_DIFFERENCE)}")
    return f"{words.heading}: {'; '.join(claims)}" if claims else ""
