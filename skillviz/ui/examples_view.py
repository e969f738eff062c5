"""The examples page's upper half: texts where they are at hand, filters, and scatter, table and box that are linked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.errors import SkillvizError
from skillviz.runs.run import Run
from skillviz.runs.texts import task_of
from skillviz.tasks.task import Hub
from skillviz.ui import address, cache, controls, examples, examples_words, measures, page, text
from skillviz.ui.chart import below, selectable, theme
from skillviz.ui.entries import headline_split
from skillviz.ui.examples import Filters
from skillviz.ui.exhibits import examples as exhibits
from skillviz.ui.glossary import about

EXAMPLE, TABLE, SCATTER = "example", "examples.table", "chart.scatter"
EVERY = "every class"
MOST_LISTED = 2000
MOST_SEARCHED = 80  # characters of the words looked for
HEIGHT = 560


@dataclass(frozen=True)
class Found:
    """The run's examples of one split: the table of `examples.scored`, with texts where these are at hand."""

    split: str
    table: pd.DataFrame
    predictions: pd.DataFrame

    def logits(self, run: Run, states: tuple[str, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Logits [n, label] of these states, and the labels [n]."""
        return measures.state_logits(self.predictions, run.record, self.split, states)

    def logits_of(self, run: Run, example: str) -> dict[str, np.ndarray]:
        """Logits [label] of one example, by state."""
        mine = self.predictions["example_id"] == example
        found = measures.state_logits(self.predictions[mine], run.record, self.split, examples.STATES)[0]
        return {state: z[0] for state, z in found.items()}


def found(run: Run) -> Found:
    """The examples with what each model says to them; says where their texts are missing."""
    predictions, split = page.table(run, "predictions"), headline_split(run.record)
    return Found(split, examples.scored(predictions, run.record, split), predictions)


def sentence(run: Run, shown: Found) -> str:
    """How often graft and fine-tuned model disagree, and who is right there."""
    logits, labels = shown.logits(run, ("grafted", "finetuned"))
    return examples_words.disagreement(logits["grafted"], logits["finetuned"], labels, shown.split)


def with_texts(run: Run, without: Found) -> Found:
    """The examples with their texts; as they were, and a sentence on what would bring the texts, where it cannot be."""
    try:
        if isinstance(task_of(run).data, Hub) and not controls.switch(
            "texts", "Read the texts from the Hugging Face hub, or its copy on this machine", False
        ):
            return without
        with st.spinner("Reading the task's texts."):
            texts = cache.texts(run, without.split)
    except SkillvizError as error:
        st.info(
            "A run stores no texts, so its examples go by their ids. Their texts are shown where the task's data are "
            f"on this machine, which they are not: {text.plain(str(error.args[0]))}",
            icon=":material/notes:",
        )
        return without
    return Found(without.split, examples.with_texts(without.table, texts), without.predictions)


def filters(run: Run, shown: Found) -> Filters:
    """Draws the filters in one row and returns what they say."""
    table, can_read = shown.table, examples.has_texts(shown.table)
    places = st.columns([3, 2, 3, 3, 3] if can_read else [3, 2, 3], vertical_alignment="bottom")
    with places[0]:
        counts = {case: int(examples.passing(table, Filters(case)).sum()) for case in examples.CASES}
        case = controls.select("case", "Show", tuple(counts), "all", shown=lambda c: _case_words(c, counts[c]))
    with places[1]:
        names = (EVERY, *examples.label_names(table, run.labels))
        chosen = controls.select("label", "True class", names, EVERY)
        label = None if chosen == EVERY else chosen
    with places[2]:
        sort = controls.select("sort", "Order", examples.sorts(table), "file", shown=examples.SORTS.get)
    if not can_read:
        return Filters(case, label, sort=sort)
    with places[3]:
        words = controls.typed("words", "Words in the text", most=MOST_SEARCHED, placeholder="all of these words")
    with places[4]:
        length = _length(table)
    return Filters(case, label, length, words, sort)


def _case_words(case: str, count: int) -> str:
    return f"{examples.CASES[case]} ({text.count(count)})"


def _length(table: pd.DataFrame) -> tuple[int, int] | None:
    """The lengths that are shown, None where all texts are equally long."""
    low, high = int(table["length"].min()), int(table["length"].max())
    return controls.span("length", "Length in words", low, high) if low < high else None


def linked(run: Run, shown: Found, wanted: Filters) -> str | None:
    """Box, scatter and table of the examples that pass; returns the one chosen in any of them, None of none."""
    kept = examples.passing(shown.table, wanted)
    listed = examples.ordered(shown.table[kept], wanted.sort)
    st.markdown(examples_words.passing(len(listed), len(shown.table)))
    chosen = _box(listed) if len(listed) else None
    left, right = st.columns([2, 3])
    with left.container(border=True, height="stretch"):
        _scatter(run, shown.table, kept, chosen)
    with right.container(border=True, height="stretch"):
        _table(listed, chosen)
    return chosen


def _box(listed: pd.DataFrame) -> str:
    """The box that chooses an example; it offers the first ones, and the one that is chosen already."""
    ids = listed["example_id"].tolist()
    options, asked = ids[:MOST_LISTED], st.session_state.get(f"control.{EXAMPLE}") or address.current(EXAMPLE)
    if asked in ids and asked not in options:
        options.append(asked)
    texts = dict(zip(ids, examples.whole_text(listed), strict=True)) if examples.has_texts(listed) else {}
    return controls.select(EXAMPLE, "Look closer at", options, options[0], shown=lambda i: _one_line(i, texts))


def _one_line(example: str, texts: dict[str, str]) -> str:
    return f"{example}: {examples.brief(texts[example])}" if example in texts else example


def _scatter(run: Run, table: pd.DataFrame, kept: pd.Series, chosen: str | None) -> None:
    st.markdown("### Fine-tuned against grafted", help=about("confidence", "margin"))
    measure = controls.segments("measure", "By", tuple(exhibits.MEASURES), "confidence", shown=exhibits.MEASURES.get)
    exhibit = exhibits.scatter(examples.points(table, kept, measure), measure, chosen, theme())
    selectable(exhibit.figure, name=exhibit.name, run_id=run.id, alt=exhibit.alt, on_select=_pointed)
    below(
        exhibit.figure,
        name=exhibit.name,
        title=exhibit.title,
        reads=exhibit.reads,
        table=exhibit.table,
        run_id=run.id,
    )


def _table(listed: pd.DataFrame, chosen: str | None) -> None:
    """The examples one under the other; the chosen one's row is marked, and marking a row chooses its example."""
    st.markdown("### The examples one by one")
    ids = listed["example_id"].head(MOST_LISTED).tolist()
    rows = [ids.index(chosen)] if chosen in ids else []
    st.session_state[TABLE] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    shown = examples.listing(listed.head(MOST_LISTED))
    percents = shown.select_dtypes("float64").columns.tolist()
    st.dataframe(
        shown,
        key=TABLE,
        height=HEIGHT,
        hide_index=True,
        column_config={name: st.column_config.NumberColumn(format="%.1f") for name in percents},
        on_select=partial(_marked, ids),
        selection_mode="single-row",
        alt="The examples with the true class, what each model says, and its probability of the true class",
    )
    more = "" if len(ids) == len(listed) else f" The first {text.count(len(ids))} are listed; filter to see others."
    st.caption(
        f"Probabilities of the true class in percent, their difference in points. Mark a row to look closer.{more}"
    )


def _pointed() -> None:
    """Takes a click in the scatter over into the box."""
    points = st.session_state[SCATTER]["selection"]["points"]
    if points:
        controls.assign(EXAMPLE, points[0]["customdata"])


def _marked(ids: list[str]) -> None:
    """Takes the marked row over into the box."""
    rows = st.session_state[TABLE]["selection"]["rows"]
    if rows:
        controls.assign(EXAMPLE, ids[rows[0]])
