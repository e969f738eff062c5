"""A verdict as a chip: its words, with a sign and a colour that repeat them."""

from __future__ import annotations

import streamlit as st

from skillviz.core.verdicts import ClaimVerdict, DifferenceVerdict

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


def chip_text(verdict: Verdict) -> str:
    """The chip in Markdown, for a line with more in it; raises KeyError for anything but a verdict."""
    colour, icon = SIGNS[verdict]
    return f":{colour}-badge[{icon} {verdict}]"
