"""The region page's two linked cards: the density map, where a cell is chosen, and that cell's tensors from near."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from skillviz.plots.region import cells, density_map
from skillviz.plots.tensor import head_counts, tensor_map, top_lines
from skillviz.plots.theme import kind_style
from skillviz.runs.run import Run
from skillviz.ui import alt, cache, controls, page, sentences, tensors, text
from skillviz.ui.chart import below, chart, selectable, theme
from skillviz.ui.glossary import about

CELL, TENSOR = "cell", "tensor"
MAP = "chart.density"


def density_card(run: Run, layers: pd.DataFrame, table: pd.DataFrame) -> None:
    """The density map; a click on a square, or the box above it, chooses the cell that is shown below."""
    names = tensors.cell_names(table)
    with st.container(border=True):
        st.markdown("### Density by layer and module kind", help=about("enrichment"))
        cell = controls.select(CELL, "Look closer at", names, names[0], shown=lambda c: cell_title(c, table, False))
        figure = density_map(layers, chosen=tensors.read_cell(cell), theme=theme())
        selectable(figure, name="density", run_id=run.id, alt=alt.density(table), on_select=lambda: _clicked(names))
        below(
            figure,
            name="density",
            title="Density by layer and module kind",
            reads="light squares hold more of the region than their share, dark ones less, empty ones nothing. Biases "
            "of all kinds are one column. Click a square to look closer, or choose it in the box above.",
            table=table,
            run_id=run.id,
        )


def tensor_card(run: Run, layers: pd.DataFrame) -> None:
    """The tensors of the chosen cell: selected entries, fullest rows and columns, heads, movement."""
    cell = st.session_state[f"control.{CELL}"]
    rows = tensors.members(layers, cell)
    names = tensors.member_names(rows)
    st.markdown(f"## {_first_capital(cell_title(cell, cells(layers)))}")
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        name = controls.select(TENSOR, "Tensor", names, names[0])
    row = rows.iloc[names.index(name)]
    with page.explained():
        region = cache.region(run)
    part = tensors.part(region, run.record, row["parameter"], row["kind"])
    titles = {"row": "Fullest rows", "column": "Fullest columns", "head": "Attention heads"}
    offered = (["row"] if part.rows > 1 else []) + ["column"] + (["head"] if part.heads else [])
    with right:
        shown = controls.segments("lines", "Count by", offered, offered[0], shown=titles.get)
    st.markdown(sentences.tensor(row, part.rows, part.cols))
    _map_and_lines(run, part, shown, titles[shown])


def _map_and_lines(run: Run, part: tensors.Part, shown: str, title: str) -> None:
    left, right = st.columns(2)
    with left:
        chart(
            tensor_map(part.entries, part.rows, part.cols, theme=theme()),
            name="tensor",
            title="Selected entries",
            reads="each dot is one chosen entry at its row and column; where there are many, blocks are counted.",
            alt=f"{text.counted(len(part.entries), 'selected entry')} in {part.rows} by {part.cols}.",
            table=part.entries,
            run_id=run.id,
        )
    with right:
        _lines(run, part, shown, title)


def _lines(run: Run, part: tensors.Part, shown: str, title: str) -> None:
    axis = part.axis if shown == "head" else shown
    if shown == "head":
        figure = head_counts(part.entries, part.rows, part.cols, part.heads, axis=axis, theme=theme(), height=380)
    else:
        figure = top_lines(part.entries, part.rows, part.cols, axis=axis, theme=theme(), height=380)
    chart(
        figure,
        name="lines",
        title=title,
        reads="the number of chosen entries; the dashed line is the mean. A row of a weight is an output of the "
        "module, a column an input (the other way round in GPT-2).",
        alt=f"{title} of the tensor by number of selected entries.",
        table=tensors.line_counts(part, shown),
        run_id=run.id,
    )


def cell_title(cell: str, table: pd.DataFrame, whole: bool = True) -> str:
    """`layer 3, value: 120 entries, 2.4 × its fair share`; in a box, where room is scarce, `layer 3, value (2.4 ×)`."""
    layer, kind = tensors.read_cell(cell)
    here = table["layer"].isna() if layer is None else (table["layer"] == layer).fillna(False)
    row = table[here.astype(bool) & (table["kind"] == kind)].iloc[0]
    where = "outside the blocks" if layer is None else f"layer {layer}"
    if not whole:
        return f"{where}, {kind_style(kind).title} ({sentences.times(row['enrichment'])})"
    held = f"{text.counted(int(row['selected']), 'entry')}, {sentences.times(row['enrichment'])} its fair share"
    return f"{where}, {kind_style(kind).title}: {held}"


def _first_capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _clicked(names: list[str]) -> None:
    """Takes a click on the map over into the box."""
    points = st.session_state[MAP]["selection"]["points"]
    if points:
        layer, kind = points[0]["customdata"]
        cell = tensors.cell_of(layer, kind)
        if cell in names:
            controls.assign(CELL, cell)
