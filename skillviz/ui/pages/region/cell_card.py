"""The card of the map's chosen cell, tensor by tensor."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.runs.run import Run
from skillviz.show import region as exhibits
from skillviz.show import sentences, text
from skillviz.show.region import Cell
from skillviz.ui import cache, controls, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.region.map_card import CELL

TENSOR, LINES, ENTRIES = "tensor", "lines", "entries"
COUNTED = {ENTRIES: "Entries", "row": "Rows", "column": "Columns", "head": "Heads"}


def cell_card(run: Run, layers: pd.DataFrame, table: pd.DataFrame, choices: dict[str, Cell]) -> None:
    """Draws the chosen cell: its count, one of its tensors, and that tensor's entries, rows, columns or heads."""
    titles = exhibits.cell_titles(table)
    key = controls.select(
        CELL, "Zoom in on", list(choices), next(iter(choices)),
        shown=lambda key: formats.capital(titles[choices[key]]), shows_label=False,
    )  # fmt: skip
    rows = exhibits.cell_tensors(layers, choices[key])
    names = exhibits.tensor_names(rows)
    if len(names) > 1:
        name = controls.select(TENSOR, "Tensor", names, names[0])
    else:
        name = names[0]
        st.caption(text.plain(name))
    row = rows.iloc[names.index(name)]
    with page.explained():
        region = cache.region(run)
    part = exhibits.part(region, run.record, row["parameter"], row["kind"])
    by = controls.segments(
        LINES, "Show its", (ENTRIES, *exhibits.line_kinds(part)), ENTRIES,
        shown=lambda by: COUNTED[by],
    )  # fmt: skip
    st.markdown(sentences.tensor(row, part.rows, part.cols))
    if by == ENTRIES:
        show(exhibits.tensor(part, theme()), run.id)
    else:
        show(exhibits.close_up(region, run.record, part, choices[key].layer, by, theme()), run.id)
