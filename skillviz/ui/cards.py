"""The overview's cards: one per model state, and the other measurements."""

from __future__ import annotations

import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import has_predictions, metric_row, panels
from skillviz.runs.record import Estimate, RunRecord, Scores
from skillviz.show import sentences, text
from skillviz.show.glossary import GLOSSARY, about
from skillviz.show.sentences import metric_interval, metric_value

# one color and one mark per state, as in the figures
STATES = {
    "pretrained": ("gray", "○", "Pre-trained"),
    "grafted": ("green", "◆", "Grafted"),
    "finetuned": ("orange", "●", "Fine-tuned"),
}
NUMBER = 92  # pixels for a percentage with its interval under it


def state_cards(record: RunRecord, scores: Scores) -> None:
    """Draws the base, grafted and fine-tuned model side by side: the metrics of `panels`, with intervals."""
    metrics = panels(record.metric)
    for place, (state, words) in zip(st.columns(len(STATES)), STATES.items(), strict=True):
        with place.container(border=True, height="stretch"):
            colour, mark, title = words
            st.markdown(f"### :{colour}[{mark} {title}]", help=_state_help(state, record))
            with st.container(horizontal=True, gap="xsmall"):  # wraps in a narrow card, so that no number is cut off
                for metric in metrics:
                    estimate(metric, scores.states.get(state, {}).get(metric), helps=state == "pretrained")


def estimate(metric: str, value: Estimate | None, *, title: str = "", helps: bool = True) -> None:
    """Draws one number with its interval under it."""
    help = about(metric) if helps and metric in GLOSSARY else None
    with st.container(width=NUMBER if not title else "stretch", gap=None):
        st.metric(
            title or metric_row(metric).heading,
            metric_value(metric, value.read if value else None),
            help=help,
        )
        if value is not None and value.value is not None:
            level = "95%: " if title and value.low is not None else ""  # three numbers side by side have no room for it
            st.caption(text.unbroken(f"{level}{metric_interval(metric, value)}"))


def evidence(record: RunRecord, scores: Scores) -> None:
    """Draws agreement (if there are predictions), region size and the score of the complement."""
    metric = record.metric
    *left, middle, right = st.columns(3 if has_predictions(metric) else 2)
    for place in left:
        with place.container(border=True, height="stretch", gap=None):
            estimate("agreement", scores.agreement, title="Agreement")
    with middle.container(border=True, height="stretch", gap=None):
        st.metric("Region size", f"{formats.count(record.size)} entries", help=about("size", "graftable"))
        st.caption(f"{formats.share(record.share)} of {formats.count(record.d)} graftable parameters")
    with right.container(border=True, height="stretch", gap=None):
        complement = scores.states.get("complement", {}).get(metric)
        st.metric(
            f"Complement: {metric_row(metric).title}",
            metric_value(metric, complement.value if complement else None),
            help=about("complement"),
        )
        if complement is not None and complement.value is not None:
            interval = metric_interval(metric, complement)
            st.caption(text.unbroken(f"95%: {interval}; fine-tuned without the region"))


def one_step(record: RunRecord, loss: float) -> None:
    """Draws the card that replaces the search's chart if all entries were chosen at once."""
    with st.container(border=True, height="stretch"):
        st.markdown("## Search progress")
        st.markdown(sentences.one_step(record, loss))


def _state_help(state: str, record: RunRecord) -> str:
    if state == "pretrained":
        head = " Here with the fine-tuned head." if record.readout == "head" else ""
        return about("pretrained") + head
    return about("graft") if state == "grafted" else "The fine-tuned model as it was given."
