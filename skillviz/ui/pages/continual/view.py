"""The continual page's parts: the stages of a study, the metric that is shown, and what the study says of itself."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from skillviz.core.metrics import metric_heading
from skillviz.show import continual as exhibits
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.studies.store import StudyFolder
from skillviz.ui import cache, controls, page, study_words, task_titles
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.continual import words

EXPERIMENTS = ("table4",)
TABLES = ("stages", "scores", "differences", "note")


@dataclass(frozen=True)
class Found:
    """The study and its tables; an empty frame stands for a table that it has not."""

    study: StudyFolder
    stages: pd.DataFrame
    scores: pd.DataFrame
    differences: pd.DataFrame
    note: pd.DataFrame


def read(study: StudyFolder) -> Found:
    """The study's tables; explains and stops where no stage is finished."""
    from skillviz.studies.tables import empty

    with page.explained():
        found = {n: cache.study_table(study, n) if n in study.tables() else empty(n) for n in TABLES}
    if found["stages"].empty:
        st.info("No stage of this study is finished, so nothing can be shown. Its command goes on where it stopped:")
        st.code(study_words.command(study), language="bash", wrap_lines=True)
        st.stop()
    return Found(study, **found)


def metric_of(found: Found) -> str:
    """The metric that the figure shows."""
    offered = list(dict.fromkeys(found.stages["metric"]))
    offered.sort(key=lambda metric: metric == "ece")
    return controls.segments("metric", "Chart shows", offered, offered[0], shown=metric_heading, help=about("ece"))


def summary(found: Found, metric: str) -> str:
    """The page's sentence."""
    return words.summary(found.stages, found.differences, metric)


def stages(found: Found, metric: str) -> None:
    """Every task after every stage."""
    rows = found.scores[(found.scores["method"] == "pretrained") & (found.scores["metric"] == metric)]
    start = {str(row["task"]): float(row["mean"]) for row in rows.to_dict("records")}
    show(exhibits.stages(found.stages, metric, start, theme()), found.study.name)
    if said := task_titles.told(found.stages["task"]):
        with st.expander("What the tasks are"):
            st.markdown(said)


def notes(found: Found) -> None:
    """What the study says of itself."""
    if len(found.note):
        with st.expander("What this study says of itself"):
            st.markdown("\n".join(f"- {text.with_code(note)}" for note in found.note["text"]))
