"""The tour's region: how small it can be (step 3), and what a part of it carries (step 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core.parameters import KINDS
from skillviz.plots.region import cells
from skillviz.plots.theme import kind_style
from skillviz.runs.evaluate import graft_row
from skillviz.runs.record import Estimate
from skillviz.runs.run import RANKING
from skillviz.ui import (
    cache,
    cards,
    controls,
    grafted,
    live,
    made,
    measures,
    page,
    text,
    tour_questions,
    tour_words,
)
from skillviz.ui.chart import show, theme
from skillviz.ui.exhibits import surgery as layouts
from skillviz.ui.exhibits import tour as exhibits
from skillviz.ui.glossary import about
from skillviz.ui.grid import estimate
from skillviz.ui.sweep import pair_entries
from skillviz.ui.tour_lesson import STATES, Lesson
from skillviz.ui.tour_questions import Question

SIZE, KEEP = "tour.size", "tour.keep"
BETWEEN = 2  # sizes offered between two stored ones, where the models are asked
WHOLE = "all"
TITLES = {"pretrained": "Pre-trained", "grafted": "Graft", "finetuned": "Fine-tuned"}


def sizes(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question:
    """The slider over region sizes: stored ones at once, others cut from the ranking and asked of the models."""
    curve = page.table(lesson.run, "curve")
    own = curve[curve["split"] == lesson.split]
    stored = sorted(int(size) for size in own["size"].unique())
    with left:
        size = _size(lesson, stored)
        row, kind = (_stored(own, size), "Stored") if size in stored else (_cut(lesson, size), "Asked of the models")
        _recovered(lesson, size, row, kind)
        st.caption(tour_words.larger_share(lesson))
    with right:
        by_chance = _random(lesson)
        lines = pd.concat([own, by_chance], ignore_index=True) if len(by_chance) else own
        show(exhibits.sizes(lines, lesson.record, lesson.split, size, row, theme()), lesson.run.id)
    return tour_questions.smallest(own, lesson.record.d or 1)


def places(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question:
    """A part of the region, grafted alone: counted at once, scored by the models."""
    with left:
        part = _part(lesson)
        with page.explained():
            table = made.table_of(lesson.run)
            whole = {"run": lesson.run.id}
            recipe = whole if part is None else {"intersection": [whole, part]}
            kept = made.made_of(lesson.run, recipe, table)
        _part_numbers(lesson, recipe, kept.size)
    with right:
        show(layouts.layout(kept, theme()), lesson.run.id)
    return tour_questions.fullest_layer(lesson.layers)


def options(stored: list[int], has_ranking: bool) -> list[int]:
    """The stored sizes, and between each two of them some further ones where there is a ranking to cut."""
    if not has_ranking or len(stored) < 2:
        return stored
    steps = [np.geomspace(a, b, BETWEEN + 2).round() for a, b in zip(stored, stored[1:], strict=False)]
    return sorted({int(size) for step in steps for size in step})


def parts(layers: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """What can be kept, by its name in the address: every layer, attention, MLP, and the norms; only what is there."""
    there = cells(layers)
    numbers = sorted(int(n) for n in there["layer"].dropna().unique())
    kinds = set(layers["kind"])
    groups = {
        "attention": [k for k in KINDS if k in ("query", "key", "value", "attention output") and k in kinds],
        "mlp": [k for k in KINDS if k.startswith("MLP") and k in kinds],
        "norms": [k for k in KINDS if k == "LayerNorm" and k in kinds],
    }
    found: dict[str, Mapping[str, Any]] = {f"layer-{n}": {"layers": [n]} for n in numbers}
    return found | {name: {"kinds": members} for name, members in groups.items() if members}


def part_title(name: str) -> str:
    """`only layer 2`; `the whole region`."""
    if name == WHOLE:
        return "the whole region"
    words = {
        "attention": "all attention modules",
        "mlp": "all MLP modules",
        "norms": f"all {kind_style('LayerNorm').title}s",
    }
    return f"only {words.get(name, name.replace('-', ' '))}"


def _size(lesson: Lesson, stored: list[int]) -> int:
    """The size chosen; the run's main one to begin with."""
    offered, d = options(stored, RANKING in lesson.run.files), lesson.record.d or 1
    main = lesson.record.size or stored[0]
    if len(offered) < 2:
        return offered[0]
    return controls.steps(
        SIZE, "Region size, of all graftable entries", offered, main if main in offered else offered[-1],
        shown=lambda s: text.share(s / d) + (", stored" if s in stored else ""), help=about("size"),
    )  # fmt: skip


def _stored(curve: pd.DataFrame, size: int) -> dict[str, Estimate]:
    """The curve's metrics at a stored size."""
    rows = curve[curve["size"] == size]
    found = {str(metric): estimate(rows, str(metric)) for metric in rows["metric"]}
    return {metric: one for metric, one in found.items() if one is not None}


def _cut(lesson: Lesson, size: int) -> dict[str, Estimate] | None:
    """The metrics of the graft of the ranking's first entries, asked of the models."""
    region = {"run": lesson.run.id, "size": size}
    answer = live.ask(lesson.run, "evaluate_region", topic=SIZE, region=region, split=lesson.split, states=["grafted"])
    if answer is None:
        return None
    told = grafted.grafted_of(answer, lesson.predictions, lesson.split, lesson.task)
    if not {"pretrained", "finetuned"} <= told.logits.keys():
        return dict(told.scores["grafted"])
    logits = {state: told.logits[state] for state in STATES}
    return graft_row(logits, told.labels, lesson.task)


def _recovered(lesson: Lesson, size: int, row: Mapping[str, Estimate] | None, kind: str) -> None:
    """The graft between the two ends, and how much of the gain it gives back."""
    if row is None:
        st.caption("The marked sizes are stored; choose one of them.")
        return
    _three(lesson, row)
    gain = row.get("recovered")
    d = lesson.record.d or 1
    if gain is not None and gain.value is not None:
        interval = f"95{text.SPACE}%: {text.percent_interval(gain.low, gain.high, 0)}"
        st.markdown(
            f"{text.counted(size, 'entry')}, {text.share(size / d)}, give back **{text.percent(gain.value, 0)}** "
            f"({interval}) of the gain.",
            help=about("recovered"),
        )
    st.caption(f"{kind}; {text.counted(lesson.scores.n, 'sentence')} of the {lesson.split} set.")


def _three(lesson: Lesson, graft: Mapping[str, Estimate]) -> None:
    """The task's metric of pre-trained model, this graft and fine-tuned model, side by side."""
    metric = lesson.task.metric
    with st.container(horizontal=True):
        for state, title in TITLES.items():
            found = graft if state == "grafted" else lesson.scores.states.get(state, {})
            with st.container(width=120, gap=None):
                cards.estimate(metric, found.get(metric), title=title)


def _random(lesson: Lesson) -> pd.DataFrame:
    """The curves of random regions of the same pair, to compare with."""
    drawn = [entry for entry in pair_entries(lesson.run) if entry.localizer == "random"]
    with page.explained():
        curves = [cache.table(run, "curve") for run in cache.runs(entry.id for entry in drawn)]
    return measures.pair_curve(drawn, curves, lesson.split)


def _part(lesson: Lesson) -> Mapping[str, Any] | None:
    """The conditions of the part that is kept; None for all of the region."""
    found = parts(lesson.layers)
    chosen = controls.select(KEEP, "Keep of the region", [WHOLE, *found], WHOLE, shown=part_title)
    return found.get(chosen)


def _part_numbers(lesson: Lesson, recipe: Mapping[str, Any], size: int) -> None:
    """How the part does alone, beside the whole region; what is stored where the whole is kept."""
    whole = lesson.record.size or 1
    if size in (0, whole):
        _three(lesson, lesson.scores.states.get("grafted" if size else "pretrained", {}))
        st.caption(
            "The whole region, as stored." if size else "Nothing of the region lies there: the graft is the base."
        )
        return
    answer = live.ask(
        lesson.run, "evaluate_region", topic=KEEP, region=dict(recipe), split=lesson.split, states=["grafted"]
    )
    st.caption(f"Kept: {text.count(size)} of {text.counted(whole, 'entry')} ({text.percent(size / whole)}).")
    if answer is None:
        return
    told = grafted.grafted_of(answer, lesson.predictions, lesson.split, lesson.task)
    _three(lesson, told.scores["grafted"])
    if grafted.REGION in told.logits:
        st.markdown(grafted.compared(told, lesson.task, lesson.task.metric), help=about("paired"))
    st.caption(f"Asked of the models; {text.counted(told.n, 'sentence')} of the {lesson.split} set.")
