"""The region page's two linked cards: the density map, where a cell is chosen, and that cell's tensors from near."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.runs.run import Run
from skillviz.show import region as exhibits
from skillviz.show import sentences
from skillviz.show.glossary import about
from skillviz.show.region import Cell
from skillviz.ui import cache, controls, page
from skillviz.ui.chart import below, selectable, show, theme

CELL, TENSOR = "cell", "tensor"
MAP = "chart.density"


def density_card(run: Run, layers: pd.DataFrame, table: pd.DataFrame) -> Cell:
    """The density map; a click on a square, or the box above it, chooses the cell that is shown below."""
    choices = {cell.key: cell for cell in exhibits.fullest_cells(table)}
    with st.container(border=True):
        place = st.container()
        key = controls.select(
            CELL,
            "Look closer at",
            list(choices),
            next(iter(choices)),
            shown=lambda key: exhibits.cell_title(choices[key], table, False),
        )
        cell = choices[key]
        shown = exhibits.density(layers, cell, theme())
        place.markdown(f"### {shown.title}", help=about(*shown.words))
        selectable(shown.figure, name=shown.name, run_id=run.id, alt=shown.alt, on_select=lambda: _clicked(choices))
        reads = f"{shown.reads} Click a square to look closer, or choose it in the box above."
        below(shown.figure, name=shown.name, title=shown.title, reads=reads, table=shown.table, run_id=run.id)
    return cell


def tensor_card(run: Run, layers: pd.DataFrame, table: pd.DataFrame, cell: Cell) -> None:
    """The tensors of the chosen cell: selected entries, fullest rows and columns, heads, movement."""
    rows = exhibits.cell_tensors(layers, cell)
    names = exhibits.tensor_names(rows)
    title = exhibits.cell_title(cell, table)
    st.markdown(f"## {formats.capital(title)}")
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


def _clicked(choices: Collection[str]) -> None:
    """Takes a click on the map over into the box."""
    points = st.session_state[MAP]["selection"]["points"]
    if points:
        layer, kind = points[0]["customdata"]
        key = Cell(None if layer == exhibits.OUTSIDE else layer, kind).key
        if key in choices:
            controls.assign(CELL, key)
