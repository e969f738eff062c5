"""The tour's fourth step: what a part of the region carries when nothing else is grafted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.show import grafted
from skillviz.show import surgery as layouts
from skillviz.show.glossary import about
from skillviz.ui import controls, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.surgery import hand_region
from skillviz.ui.pages.tour import graft as tour_graft
from skillviz.ui.pages.tour import questions
from skillviz.ui.pages.tour.lesson import Lesson
from skillviz.ui.pages.tour.questions import Question

KEEP = "tour.keep"
WHOLE = "all"
GROUPS = {
    "attention": ("all attention modules", ("query", "key", "value", "attention output")),
    "mlp": ("all MLP modules", ("MLP in", "MLP out")),
    "norms": ("all LayerNorms", ("LayerNorm",)),
}


def draw(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question:
    """A part of the region, grafted alone: counted at once, scored by the models."""
    with left:
        part = _part(lesson)
        with page.explained():
            table = hand_region.table_of(lesson.run)
            whole = {"run": lesson.run.id}
            expression = whole if part is None else {"intersection": [whole, part]}
            kept = hand_region.made_of(lesson.run, expression, table)
        _part_numbers(lesson, expression, kept.size)
    with right:
        show(layouts.layout(kept.layers, theme()), lesson.run.id)
    return questions.fullest_layer(lesson.layers)


def parts(layers: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """What can be kept, by its name in the address: every layer, and the kinds of GROUPS that are there."""
    numbers = sorted(int(n) for n in layers["layer"].dropna().unique())
    there = set(layers["kind"])
    found: dict[str, Mapping[str, Any]] = {f"layer-{n}": {"layers": [n]} for n in numbers}
    kinds = {name: [kind for kind in members if kind in there] for name, (_, members) in GROUPS.items()}
    return found | {name: {"kinds": members} for name, members in kinds.items() if members}


def part_title(name: str) -> str:
    """`only layer 2`; `the whole region`."""
    if name == WHOLE:
        return "the whole region"
    return f"only {GROUPS[name][0] if name in GROUPS else name.replace('-', ' ')}"


def _part(lesson: Lesson) -> Mapping[str, Any] | None:
    """The conditions of the part that is kept; None for all of the region."""
    found = parts(lesson.layers)
    chosen = controls.select(KEEP, "Part of the region to keep", [WHOLE, *found], WHOLE, shown=part_title)
    return found.get(chosen)


def _part_numbers(lesson: Lesson, expression: Mapping[str, Any], size: int) -> None:
    """How the part does alone, beside the whole region; what is stored where the whole is kept."""
    whole = lesson.record.size or 1
    if size in (0, whole):
        tour_graft.three(lesson, lesson.scores.states.get("grafted" if size else "pretrained", {}))
        st.caption(
            "The whole region, as stored." if size else "Nothing of the region lies there: the graft is the base."
        )
        return
    st.caption(f"Kept: {formats.count(size)} of {formats.counted(whole, 'entry')} ({formats.percent(size / whole)}).")
    told = tour_graft.ask(lesson, expression, KEEP)
    if told is None:
        return
    tour_graft.three(lesson, told.scores["grafted"])
    if grafted.REGION in told.logits:
        st.markdown(grafted.compared(told, lesson.task, lesson.task.metric), help=about("paired"))
    st.caption(f"Asked of the models; {formats.counted(told.n, 'sentence')} of the {lesson.split} set.")
