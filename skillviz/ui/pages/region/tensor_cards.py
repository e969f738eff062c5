"""The region page's two linked cards: the density map, where a cell is chosen, and that cell's tensors from near."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from skillviz.plots.region import cells
from skillviz.runs.run import Run
from skillviz.show import region as exhibits
from skillviz.show import sentences
from skillviz.show.glossary import about
from skillviz.show.region import cell_title
from skillviz.ui import cache, controls, page
from skillviz.ui.chart import below, selectable, show, theme

CELL, TENSOR = "cell", "tensor"
MAP = "chart.density"


def density_card(run: Run, layers: pd.DataFrame, table: pd.DataFrame) -> None:
    """The density map; a click on a square, or the box above it, chooses the cell that is shown below."""
    names = exhibits.cell_names(table)
    with st.container(border=True):
        place = st.container()
        cell = controls.select(CELL, "Look closer at", names, names[0], shown=lambda c: cell_title(c, table, False))
        shown = exhibits.density(layers, cell, theme())
        place.markdown(f"### {shown.title}", help=about(*shown.words))
        selectable(shown.figure, name=shown.name, run_id=run.id, alt=shown.alt, on_select=lambda: _clicked(names))
        reads = f"{shown.reads} Click a square to look closer, or choose it in the box above."
        below(shown.figure, name=shown.name, title=shown.title, reads=reads, table=shown.table, run_id=run.id)


def tensor_card(run: Run, layers: pd.DataFrame) -> None:
    """The tensors of the chosen cell: selected entries, fullest rows and columns, heads, movement."""
    cell = st.session_state[f"control.{CELL}"]
    rows = exhibits.members(layers, cell)
    names = exhibits.member_names(rows)
    st.markdown(f"## {_first_capital(cell_title(cell, cells(layers)))}")
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        name = controls.select(TENSOR, "Tensor", names, names[0])
    row = rows.iloc[names.index(name)]
    with page.explained():
        region = cache.region(run)
    part = exhibits.part(region, run.record, row["parameter"], row["kind"])
    offered = exhibits.line_kinds(part)
    with right:
        by = controls.segments("lines", "Count by", offered, offered[0], shown=exhibits.LINES.get)
    st.markdown(sentences.tensor(row, part.rows, part.cols))
    left, right = st.columns(2)
    with left:
        show(exhibits.tensor(part, theme()), run.id)
    with right:
        show(exhibits.lines(part, by, theme()), run.id)


def _first_capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _clicked(names: list[str]) -> None:
    """Takes a click on the map over into the box."""
    points = st.session_state[MAP]["selection"]["points"]
    if points:
        layer, kind = points[0]["customdata"]
        cell = exhibits.cell_of(layer, kind)
        if cell in names:
            controls.assign(CELL, cell)
