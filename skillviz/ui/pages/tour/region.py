"""The tour's third step: how small a region can be. Stored sizes at once, others asked of the models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.core.intervals import recovered_gain
from skillviz.runs.evaluate import estimate as defined
from skillviz.runs.evaluate import positive
from skillviz.runs.record import Estimate
from skillviz.runs.run import RANKING
from skillviz.show import measures
from skillviz.show import tour as exhibits
from skillviz.show.glossary import about
from skillviz.show.interpolation_grid import estimate
from skillviz.ui import cache, controls, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.sparsity.sweep import pair_entries
from skillviz.ui.pages.tour import graft as tour_graft
from skillviz.ui.pages.tour import questions, words
from skillviz.ui.pages.tour.lesson import Lesson
from skillviz.ui.pages.tour.questions import Question

SIZE = "tour.size"
BETWEEN = 2  # sizes offered between two stored ones, where the models are asked


def draw(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question:
    """The slider over region sizes and the graft of the chosen one on the left, all stored sizes on the right."""
    curve = page.table(lesson.run, "curve")
    own = curve[curve["split"] == lesson.split]
    stored = sorted(int(size) for size in own["size"].unique())
    with left:
        size = _size(lesson, stored)
        row, kind = (_stored(own, size), "Stored") if size in stored else (_cut(lesson, size), "Asked of the models")
        _recovered(lesson, size, row, kind)
        st.caption(words.larger_share(lesson))
    with right:
        by_chance = _random(lesson)
        lines = pd.concat([own, by_chance], ignore_index=True) if len(by_chance) else own
        show(exhibits.sizes(lines, lesson.record, lesson.split, size, row, theme()), lesson.run.id)
    return questions.smallest(own, lesson.record.d or 1)


def options(stored: list[int], has_ranking: bool) -> list[int]:
    """The stored sizes, and between each two of them some further ones where there is a ranking to cut."""
    if not has_ranking or len(stored) < 2:
        return stored
    steps = [np.geomspace(a, b, BETWEEN + 2).round() for a, b in zip(stored, stored[1:], strict=False)]
    return sorted({int(size) for step in steps for size in step})


def _size(lesson: Lesson, stored: list[int]) -> int:
    """The size chosen; the run's main one to begin with."""
    offered, d = options(stored, RANKING in lesson.run.files), lesson.record.d or 1
    main = lesson.record.size or stored[0]
    if len(offered) < 2:
        return offered[0]
    return controls.steps(
        SIZE, "Region size, of all graftable entries", offered, main if main in offered else offered[-1],
        shown=lambda s: formats.share(s / d) + (", stored" if s in stored else ""), help=about("size"),
    )  # fmt: skip


def _stored(curve: pd.DataFrame, size: int) -> dict[str, Estimate]:
    """The curve's metrics at a stored size."""
    rows = curve[curve["size"] == size]
    found = {str(metric): estimate(rows, str(metric)) for metric in rows["metric"]}
    return {metric: one for metric, one in found.items() if one is not None}


def _cut(lesson: Lesson, size: int) -> dict[str, Estimate] | None:
    """The same of the graft of the ranking's first entries, asked of the models; of the metrics only the task's own."""
    told = tour_graft.ask(lesson, {"run": lesson.run.id, "size": size}, SIZE)
    if told is None:
        return None
    found, metric = dict(told.scores["grafted"]), lesson.task.metric
    if {"pretrained", "finetuned"} <= told.logits.keys():
        grafted, *ends = (told.logits[state] for state in ("grafted", "pretrained", "finetuned"))
        gain = recovered_gain(grafted, ends[0], ends[1], told.labels, metric, positive=positive(lesson.task))
        found["recovered"] = defined(gain)
    return found


def _recovered(lesson: Lesson, size: int, row: Mapping[str, Estimate] | None, kind: str) -> None:
    """The graft between the two ends, and how much of the gain it gives back."""
    if row is None:
        st.caption("The marked sizes are stored; choose one of them.")
        return
    tour_graft.three(lesson, row)
    gain = row.get("recovered")
    d = lesson.record.d or 1
    if gain is not None and gain.value is not None:
        interval = f"95{formats.SPACE}%: {formats.percent_interval(gain.low, gain.high, 0)}"
        st.markdown(
            f"{formats.counted(size, 'entry')}, {formats.share(size / d)}, give back "
            f"**{formats.percent(gain.value, 0)}** "
            f"({interval}) of the gain.",
            help=about("recovered"),
        )
    st.caption(f"{kind}; {formats.counted(lesson.scores.n, 'sentence')} of the {lesson.split} set.")


def _random(lesson: Lesson) -> pd.DataFrame:
    """The curves of random regions of the same pair, to compare with."""
    drawn = [entry for entry in pair_entries(lesson.run) if entry.localizer == "random"]
    with page.explained():
        curves = [cache.table(run, "curve") for run in cache.runs(entry.id for entry in drawn)]
    return measures.pair_curve(drawn, curves, lesson.split)
