"""The tour's fifth step: of the answers that a model is so sure of, how many are right?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.core.bins import BINS
from skillviz.core.intervals import wilson
from skillviz.core.scores import confidence, correct, probabilities
from skillviz.show import measures
from skillviz.show import tour as exhibits
from skillviz.show.glossary import about
from skillviz.ui import controls
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.overview.cards import STATES as MARKS
from skillviz.ui.pages.tour import questions
from skillviz.ui.pages.tour.lesson import Lesson
from skillviz.ui.pages.tour.questions import Question

SURE = "tour.sure"
COMPARED = ("grafted", "finetuned")
MOST = 99  # percent


def draw(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question:
    """The slider and what it leaves on the left, the histogram of confidence on the right."""
    logits, labels = lesson.logits(*COMPARED)
    bins = measures.reliability_bins(logits, labels, BINS, False)
    with left:
        lowest = round(100 / max(len(lesson.run.labels), 1))
        least = controls.whole(SURE, "At least so sure, %", lowest, MOST, 90, help=about("confidence")) / 100
        table = sure_answers(logits, labels, least)
        _told(table, len(labels))
    with right:
        show(exhibits.sureness(bins, least, theme()), lesson.run.id)
    return questions.calibrated(lesson.scores)


def sure_answers(logits: Mapping[str, np.ndarray], labels: np.ndarray, least: float) -> pd.DataFrame:
    """state, answers, claimed, right, low, high: of the answers with at least so much confidence (0..1).

    `claimed` is their mean confidence, `right` the share of right ones with Wilson's interval; missing for none.
    """
    rows = []
    for state, z in logits.items():
        sure = confidence(probabilities(z))
        here = sure >= least
        n, hits = int(here.sum()), int((correct(z, labels) & here).sum())
        low, high = wilson(hits, n) if n else (np.nan, np.nan)
        claimed, right = (float(sure[here].mean()), hits / n) if n else (np.nan, np.nan)
        rows.append((state, n, claimed, right, low, high))
    return pd.DataFrame(rows, columns=["state", "answers", "claimed", "right", "low", "high"])


def _told(table: pd.DataFrame, n: int) -> None:
    """Claim and truth of each model."""
    for place, row in zip(st.columns(len(table)), table.to_dict("records"), strict=True):
        colour, mark, title = MARKS[str(row["state"])]
        with place.container(border=True, height="stretch"):
            st.markdown(f"#### :{colour}[{mark} {title}]")
            st.markdown(f"{formats.count(int(row['answers']))} of {formats.counted(n, 'answer')}")
            with st.container(horizontal=True, gap="small"):
                for label, value in (("Claimed", row["claimed"]), ("Right", row["right"])):
                    st.metric(label, formats.percent(value), width="content")
            if row["answers"]:
                st.caption(f"Right, 95{formats.SPACE}%: {formats.percent_interval(row['low'], row['high'])}")
