"""A graft of the tour: asked of the models, and shown between the two models that it comes of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from skillviz.runs.record import Estimate
from skillviz.show import grafted
from skillviz.show.grafted import Grafted
from skillviz.ui import live
from skillviz.ui.pages.overview import cards
from skillviz.ui.pages.tour.lesson import Lesson

TITLES = {"pretrained": "Pre-trained", "grafted": "Graft", "finetuned": "Fine-tuned"}
NUMBER = 104  # pixels


def ask(lesson: Lesson, expression: Mapping[str, Any], topic: str) -> Grafted | None:
    """The graft of a region on all test examples, in the task's metric; None where no model answers."""
    told: dict[str, Any] = {"region": dict(expression), "split": lesson.split, "states": ["grafted"]}
    answer = live.ask(lesson.run, "evaluate_region", topic=topic, **told)
    if answer is None:
        return None
    return grafted.grafted_of(answer, lesson.predictions, lesson.split, lesson.task, (lesson.task.metric,))


def three(lesson: Lesson, graft: Mapping[str, Estimate]) -> None:
    """The task's metric of pre-trained model, this graft and fine-tuned model, side by side."""
    metric = lesson.task.metric
    with st.container(horizontal=True):
        for state, title in TITLES.items():
            found = graft if state == "grafted" else lesson.scores.states.get(state, {})
            with st.container(width=NUMBER, gap=None):
                cards.estimate(metric, found.get(metric), title=title, helps=state == "pretrained")
