"""Verdicts as chips: the words, with an icon and a color that repeat them."""

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
"""The color and the icon of each verdict; the words are beside them, so neither is needed to read the verdict."""
ORDER: tuple[DifferenceVerdict, ...] = ("better", "worse", NO_DIFFERENCE, NOT_MEASURED)
MOST_NUMBERED = 3
"""The most verdicts that one line shows with their numbers; with more, the numbers are only in the figure below."""


def chip(verdict: Verdict, *, of: str = "", help: str | None = None) -> None:
    """Draws the verdict behind its subject, `of`."""
    st.markdown(f"{of} {chip_text(verdict)}".strip(), help=help)


def judged_text(judged: Judged) -> str:
    """The subject, its verdict as a chip and the difference, in Markdown."""
    return f"{judged.subject} {chip_text(judged.verdict)} {judged.difference}"


def chip_text(verdict: Verdict) -> str:
    """The chip in Markdown, for use in a longer line; raises KeyError for anything but a verdict."""
    colour, icon = SIGNS[verdict]
    return f":{colour}-badge[{icon} {verdict}]"


def lead_of(differences: pd.DataFrame, metric: str, by: str, order: Sequence[str]) -> pd.DataFrame:
    """The row for the headline: of the differences in this metric, the first by the position of `by` in `order`.

    Empty if no such row has a difference.
    """
    known = differences[(differences["metric"] == metric) & differences["value"].notna() & differences[by].isin(order)]
    return known.sort_values(by, key=lambda names: names.map(list(order).index), kind="stable").head(1)


def lead_words(lead: Mapping[Any, Any]) -> str:
    """`**random** worse −1.2 points (95%: −2.0 to −0.1)`: the comparison of a headline, with its verdict as a chip.

    `lead` has name, metric, value, low, high, debiased and, if it is one of several, holds. If holds is False, MARK
    follows the chip.
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

    `differences` has name, metric, value, low, high, debiased and, for several comparisons, holds; MARK follows
    verdicts that do not hold. Each better or worse verdict has its interval, and so has a single verdict. If there are
    more than MOST_NUMBERED of them, none has an interval: each chip is written once, behind all of its names. Empty if
    nothing was compared.
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
