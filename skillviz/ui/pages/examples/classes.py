"""The examples page's lower half: confusions of each model, and how well every class is found."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core.confusion import class_results, confusion
from skillviz.runs.run import Run
from skillviz.show import example_words as words
from skillviz.show import examples as exhibits
from skillviz.show.example_table import STATES
from skillviz.show.glossary import about
from skillviz.ui import controls
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.examples.view import Found

WIDE = 8  # classes from which on a matrix needs the page's whole width


def by_class(run: Run, found: Found) -> None:
    """Confusion matrices of the models, then precision, recall or F1 of every class."""
    st.markdown("## Class by class", help=about("confusion", "precision", "recall"))
    more = controls.switch("complement", "Show the complement too", False, help=about("complement"))
    states = (*STATES, "complement") if more else STATES
    logits, labels = found.logits(run, states)
    resamples = exhibits.resamples(len(labels))
    results = class_results(logits, labels, resamples)
    st.markdown(words.classes(results, run.labels))
    for place, (state, z) in zip(_places(len(states), len(run.labels)), logits.items(), strict=True):
        with place:
            show(exhibits.confusion(confusion(z, labels), run.labels, state, theme()), run.id)
    metric = controls.segments("result", "Of every class", tuple(exhibits.RESULTS), "f1", shown=exhibits.RESULTS.get)
    show(exhibits.by_class(results, run.labels, metric, resamples, theme()), run.id)


def _places(states: int, classes: int) -> list[DeltaGenerator]:
    """A place for each matrix: side by side, or two a row where there are many classes."""
    if classes <= WIDE and states <= 3:
        return list(st.columns(states))
    rows = [st.columns(2) for _ in range(0, states, 2)]
    return [place for row in rows for place in row][:states]
