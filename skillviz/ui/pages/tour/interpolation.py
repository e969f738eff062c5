"""The tour's sliders between two models: WiSE-FT at home (step 2), WiSE-Graft at home and abroad (step 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.show import interpolation as exhibits
from skillviz.show import interpolation_words
from skillviz.show.interpolation_grid import FINETUNED, GRAFT, Grid, estimate, point_of
from skillviz.show.interpolation_words import EXACT, NEAREST, STORED
from skillviz.ui import controls, live
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.interpolation import view
from skillviz.ui.pages.overview import cards
from skillviz.ui.pages.tour import questions, words
from skillviz.ui.pages.tour.lesson import Lesson
from skillviz.ui.pages.tour.questions import Question

WAY, SHIFT = "tour.way", "tour.shift"
GRID = range(0, 101, 5)  # percent of the way


def home(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question | None:
    """WiSE-FT on the task's own examples; None where the run has stored nothing of the way."""
    grid, own = view.grid_of(lesson.run), lesson.task.name
    with left:
        alpha = _slider(WAY, "Way from the pre-trained to the fine-tuned model")
        points = _chosen(lesson, grid, {own: None}, FINETUNED, alpha, WAY)
    exhibit = exhibits.along(points, [own], lesson.task.metric, _levels(lesson), theme())
    reads = "0 % is the pre-trained model, 100 % the fine-tuned one. The band is the 95 % interval over sentences."
    with right:
        show(replace(exhibit, reads=reads), lesson.run.id)
    return questions.half_way(grid.at("points", own, FINETUNED, None), lesson.task.metric)


def abroad(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question | None:
    """WiSE-Graft on the task's own examples and on those of the other task; None where there is no other."""
    if lesson.other is None:
        return None
    grid, own, other = view.grid_of(lesson.run), lesson.task.name, lesson.other.name
    with left:
        alpha = _slider(SHIFT, "Way from the pre-trained model to the graft")
        points = _chosen(lesson, grid, {own: None, other: lesson.other.named}, GRAFT, alpha, SHIFT)
        st.caption(words.small_shift(lesson))
    size = lesson.record.size or 1
    lines = [points]
    for dataset in (own, other):
        if grid.nearest(dataset, FINETUNED, size, 0.0) is not None:
            lines.append(grid.at("points", dataset, FINETUNED, None).assign(current=False))
    shown = pd.concat(lines, ignore_index=True)
    with right:
        show(exhibits.along(shown, [own, other], lesson.task.metric, _levels(lesson), theme()), lesson.run.id)
    return questions.elsewhere(lesson.other.scores, lesson.task.metric, lesson.title(other))


def _slider(name: str, label: str) -> float:
    """The point of the way, 0..1."""
    return controls.steps(name, label, GRID, 50, shown=lambda a: f"{a} %") / 100


def _chosen(
    lesson: Lesson, grid: Grid, datasets: dict[str, str | None], path: str, alpha: float, topic: str
) -> pd.DataFrame:
    """The path's line and its chosen point on each data set, drawn as numbers too: stored, asked live, or the nearest.

    `datasets` by name: how another task is asked for, None for the run's own.
    """
    parts, size, metric, asks = [], lesson.record.size or 1, lesson.task.metric, True
    for place, (dataset, named) in zip(st.columns(len(datasets)), datasets.items(), strict=True):
        near = grid.nearest(dataset, path, size, alpha)
        if near is None:
            continue
        line = grid.at("points", dataset, path, near[0])
        rows, kind, at = grid.at("points", dataset, path, *near), STORED, near[1]
        if abs(at - alpha) > 1e-9:
            asked = _asked(lesson, dataset, named, path, alpha, topic) if asks else None
            rows, kind, at = (rows, NEAREST, at) if asked is None else (asked, EXACT, alpha)
            asks = asked is not None  # what stands in the way is said once
        parts += [line.assign(current=False), rows.assign(current=True)]
        with place:
            st.markdown(f"**{lesson.title(dataset)}**")
            cards.estimate(metric, estimate(rows, metric))
            st.caption(interpolation_words.source(kind, path, near[0], at, lesson.record.d))
    return pd.concat(parts, ignore_index=True)


def _asked(lesson: Lesson, dataset: str, named: str | None, path: str, alpha: float, topic: str) -> pd.DataFrame | None:
    """The worker's answer for a point that is not stored."""
    told: dict[str, Any] = {"path": path, "alpha": alpha} | ({"task": named} if named else {})
    answer = live.ask(lesson.run, "wise", topic=f"{topic}.{dataset}", **told)
    size = lesson.record.size if path == GRAFT else None
    return None if answer is None else point_of(answer, dataset, path, size, alpha)[0]


def _levels(lesson: Lesson) -> dict[str, float]:
    """Chance."""
    return view.levels(lesson.run, lesson.task.metric)
