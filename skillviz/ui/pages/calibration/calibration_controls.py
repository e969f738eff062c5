"""The calibration page's controls, and its verdicts for whatever bins were chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from skillviz.core import formats
from skillviz.core.bins import BINS
from skillviz.core.metrics import ece
from skillviz.plots.theme import state_style
from skillviz.runs.record import SPLITS, Estimate
from skillviz.runs.run import Run
from skillviz.show import measures, sentences
from skillviz.show.entries import headline_split
from skillviz.show.glossary import about
from skillviz.ui import controls

FEWEST, MOST = 2, 50


@dataclass(frozen=True)
class Choice:
    """What the reader chose on the calibration page; `states` in the order of the cards."""

    split: str
    bins: int
    equal_mass: bool
    states: tuple[str, ...]


def controls_of(run: Run) -> Choice:
    """Draws the controls in one row and returns what is chosen in them."""
    splits = [split for split in reversed(SPLITS) if split in run.record.metrics]
    places = st.columns([2, 3, 3, 4], vertical_alignment="bottom")
    with places[0]:
        split = controls.segments("split", "Examples", splits, headline_split(run.record))
    with places[1]:
        bins = controls.whole("bins", "Bins", FEWEST, MOST, BINS, help=about("ece"))
    with places[2]:
        kinds = {"width": "equal width", "mass": "equal mass"}
        kind = controls.segments(
            "kind", "Kind of bins", tuple(kinds), "width", shown=kinds.get, help=about("equal_mass")
        )
    with places[3]:
        scaled = False
        if run.record.temperature is None:
            st.caption("No temperature was fitted: the run has no validation predictions.")
        else:
            scaled = controls.switch("scaled", "Show fine-tuned, temperature-scaled", True, help=about("temperature"))
        before = controls.switch("pretrained", "Show the pre-trained model", False)
    states = (
        ("grafted", "finetuned") + ((measures.TEMPERATURE,) if scaled else ()) + (("pretrained",) if before else ())
    )
    return Choice(split, bins, kind == "mass", states)


def verdicts(run: Run, choice: Choice, logits: dict[str, np.ndarray], labels: np.ndarray) -> None:
    """One sentence for each rival of the graft, with the paired difference at the chosen bins."""
    values = {name: ece(z, labels, choice.bins, choice.equal_mass) for name, z in logits.items()}
    st.markdown(
        sentences.eces(values, choice.bins, choice.equal_mass, len(labels)), help=about("ece", "debiased", "paired")
    )
    rivals = [name for name in sentences.RIVALS if name in logits]
    for place, rival in zip(st.columns(max(len(rivals), 1)), rivals, strict=False):
        difference = measures.ece_difference(logits["grafted"], logits[rival], labels, choice.bins, choice.equal_mass)
        with place.container(border=True, height="stretch"):
            _verdict(rival, difference, run.record.temperature)


def _verdict(rival: str, difference: Estimate, temperature: float | None) -> None:
    st.metric(
        f"ECE: graft − {state_style(rival).title}", formats.points(difference.value), help=about("paired", "debiased")
    )
    st.caption(f"95{formats.SPACE}%: {sentences.metric_interval('ece', difference)} points, paired by example")
    st.markdown(sentences.against(difference, sentences.RIVALS[rival]))
    if rival == measures.TEMPERATURE:
        st.caption(sentences.temperature(temperature))
