"""The examples in a box, a scatter and a table that are linked: what is chosen or marked in one shows in the others."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.runs.run import Run
from skillviz.show import example_area as area
from skillviz.show import example_table as examples
from skillviz.show import example_words as examples_words
from skillviz.show import examples as exhibits
from skillviz.show.example_table import Filters
from skillviz.show.glossary import about
from skillviz.ui import address, controls, exports
from skillviz.ui.chart import below, selectable, theme
from skillviz.ui.pages.examples.view import Found

EXAMPLE, TABLE, SCATTER, MEASURE = "example", "examples.table", "chart.scatter", "measure"
BY_ROW = "examples.by_row"  # the example that was chosen by its row
MARKS = {"example": "an example", "area": "an area"}
MOST_LISTED = 2000
HEIGHT, IN_SIGHT = 560, 14  # pixels, and the rows that these show
CLICK = {
    "example": "Click a mark to look closer at that example, or choose it in the table or the box.",
    "area": "Drag over the figure: the table then holds the examples inside.",
}


def linked(run: Run, shown: Found, wanted: Filters) -> str | None:
    """Box, scatter and table of the examples that pass; returns the one chosen in any of them, None of none."""
    kept = examples.passing(shown.table, wanted)
    listed = examples.ordered(shown.table[kept], wanted.sort)
    left, right = st.columns([2, 3], vertical_alignment="center")
    with left:
        _passing(len(listed), len(shown.table), wanted)
    with right:
        chosen = _box(listed) if len(listed) else None
    left, right = st.columns([2, 3])
    with left.container(border=True, height="stretch"):
        _scatter(run, shown.table, kept, chosen, wanted.area)
    with right.container(border=True, height="stretch"):
        _table(listed, chosen, run.id)
    return chosen


def _passing(count: int, n: int, wanted: Filters) -> None:
    """How many pass, and the way out of a marked area."""
    st.markdown(examples_words.passing(count, n, wanted.area.words() if wanted.area else ""))
    if wanted.area is not None:
        st.button("Show what lies outside too", icon=":material/close:", on_click=address.forget, args=(area.AREA,))


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


def _scatter(run: Run, table: pd.DataFrame, kept: pd.Series, chosen: str | None, marked: area.Area | None) -> None:
    st.markdown("### Fine-tuned against grafted", help=about("confidence", "margin"))
    with st.container(horizontal=True):
        measure = controls.segments(MEASURE, "By", tuple(exhibits.MEASURES), "confidence", shown=exhibits.BRIEF.get)
        marks = controls.segments("marks", "The mouse marks", tuple(MARKS), "example", shown=MARKS.get)
    exhibit = exhibits.scatter(examples.points(table, kept, measure), measure, chosen, theme(), marked, marks == "area")
    selectable(
        exhibit.figure, name=exhibit.name, run_id=run.id, alt=exhibit.alt,
        on_select=_pointed if marks == "example" else partial(_dragged, measure),
        by="points" if marks == "example" else "box",
    )  # fmt: skip
    below(
        exhibit.figure,
        name=exhibit.name,
        title=exhibit.title,
        reads=f"{exhibit.reads} {CLICK[marks]}",
        table=exhibit.table,
        run_id=run.id,
    )


def _table(listed: pd.DataFrame, chosen: str | None, run_id: str) -> None:
    """The examples one under the other; the chosen one's row is marked, and marking a row chooses its example."""
    st.markdown("### The examples one by one")
    listed, is_moved = _chosen_in_sight(listed, chosen)
    ids = listed["example_id"].head(MOST_LISTED).tolist()
    rows = [ids.index(chosen)] if chosen in ids else []
    st.session_state[TABLE] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    every = examples.listing(listed)
    shown = every.head(MOST_LISTED)
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
    more = " The chosen example stands first." if is_moved else ""
    more += "" if len(ids) == len(listed) else f" The first {formats.count(len(ids))} are listed; filter to see others."
    st.caption(
        f"Probabilities of the true class in percent, their difference in points. Mark a row to look closer.{more}"
    )
    st.download_button(
        f"All {formats.counted(len(every), 'row')} (CSV)",
        partial(exports.csv, every),
        f"{exports.file_name(run_id, 'examples')}.csv",
        "text/csv",
        on_click="ignore",
        icon=":material/download:",
    )


def _chosen_in_sight(listed: pd.DataFrame, chosen: str | None) -> tuple[pd.DataFrame, bool]:
    """The rows with the chosen one on top, where it was chosen elsewhere and would be out of sight; whether it was."""
    is_chosen = listed["example_id"] == chosen
    if chosen == st.session_state.get(BY_ROW) or not is_chosen.iloc[IN_SIGHT:].any():
        return listed, False
    return pd.concat([listed[is_chosen], listed[~is_chosen]]), True


def _pointed() -> None:
    """Takes a click in the scatter over into the box."""
    points = st.session_state[SCATTER]["selection"]["points"]
    if points:
        controls.assign(EXAMPLE, points[0]["customdata"])


def _dragged(measure: str) -> None:
    """Keeps the area over which the mouse was dragged; the examples inside it stay in the table."""
    boxes = st.session_state[SCATTER]["selection"]["box"]
    found = area.of_box(boxes[0], measure) if boxes else None
    if found is not None:
        address.keep(area.AREA, found.written())


def _marked(ids: list[str]) -> None:
    """Takes the marked row over into the box."""
    rows = st.session_state[TABLE]["selection"]["rows"]
    if rows:
        st.session_state[BY_ROW] = ids[rows[0]]
        controls.assign(EXAMPLE, ids[rows[0]])
