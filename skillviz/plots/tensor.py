"""One tensor from near: which of its entries are in the region, by row, column and attention head.

`entries` has one row a selected entry: row, col (int, from 0), at most rows x cols of them, each once.
A vector (bias, LayerNorm) is one row.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from skillviz.plots.figure import blank, canvas, colour_bar, require
from skillviz.plots.theme import BAR, DENSITY, INK

MOST_DOTS = 1500
MOST_BLOCKS = 96
NOTHING = "No entry of this tensor is in the region."


def _check(entries: pd.DataFrame, rows: int, cols: int) -> None:
    require(entries, ("row", "col"), "entries")
    outside = (entries["row"] < 0) | (entries["row"] >= rows) | (entries["col"] < 0) | (entries["col"] >= cols)
    if outside.any():
        raise ValueError(f"entries: {int(outside.sum())} lie outside the tensor of {rows} x {cols}")


def _along(axis: str, rows: int, cols: int) -> tuple[int, str]:
    """Length of the tensor along the axis, and the column of `entries` that counts along it."""
    if axis not in ("row", "column"):
        raise ValueError(f"axis={axis!r} is not known; it is 'row' or 'column'")
    return (rows, "row") if axis == "row" else (cols, "col")


def tensor_map(entries: pd.DataFrame, rows: int, cols: int, *, theme: str = "light", height: int = 380) -> go.Figure:
    """The tensor's selected entries: a dot each, or, when there are many, exact counts by block.

    Blocks are at most 96 along each side and hold whole numbers of rows and columns; their counts sum to the
    number of entries. Row 0 is at the top.
    """
    _check(entries, rows, cols)
    x, y = f"column, index (of {cols:,})", f"row, index (of {rows:,})"
    height = 170 if rows == 1 else height
    if entries.empty:
        return blank(NOTHING, theme, height, x, y)
    figure = canvas(theme, height, x, y)
    if len(entries) <= MOST_DOTS:
        figure.add_trace(_dots(entries, theme, rows == 1))
    else:
        counts, tall, wide = block_counts(entries, rows, cols)
        bar = colour_bar(figure, f"entries in a block of {tall} × {wide}, count")
        figure.add_trace(_blocks(counts, tall, wide, theme, bar))
    figure.update_xaxes(range=[-0.5, cols - 0.5], showline=True, mirror=True, tickformat=",d")
    figure.update_yaxes(range=[rows - 0.5, -0.5], showline=True, mirror=True, showgrid=False, tickformat=",d")
    if rows == 1:
        figure.update_yaxes(tickvals=[0])
    return figure


def block_counts(entries: pd.DataFrame, rows: int, cols: int, most: int = MOST_BLOCKS) -> tuple[np.ndarray, int, int]:
    """Counts of entries by block, and the block's height and width in rows and columns (the last may be cut)."""
    tall, wide = -(-rows // most), -(-cols // most)
    down, across = -(-rows // tall), -(-cols // wide)
    block = (entries["row"].to_numpy() // tall) * across + entries["col"].to_numpy() // wide
    return np.bincount(block, minlength=down * across).reshape(down, across), tall, wide


def _dots(entries: pd.DataFrame, theme: str, vector: bool) -> go.Scatter:
    mark = {"symbol": "line-ns", "size": 26, "line": {"width": 1.5, "color": INK[theme]}}
    dot = {"symbol": "square", "size": 4, "color": INK[theme]}
    return go.Scatter(
        x=entries["col"],
        y=entries["row"],
        mode="markers",
        name="selected entries",
        showlegend=False,
        marker=mark if vector else dot,
        hovertemplate="row %{y:,}, column %{x:,}<extra></extra>",
    )


def _blocks(counts: np.ndarray, tall: int, wide: int, theme: str, bar: dict) -> go.Heatmap:
    # Without the end of the scale that would be lost in the ground: an empty block shows the ground itself.
    ends = (0.0, 0.85) if theme == "light" else (0.3, 1.0)
    return go.Heatmap(
        z=np.where(counts > 0, counts.astype(float), np.nan),
        colorscale=sample_colorscale(DENSITY, list(np.linspace(*ends, 9))),
        colorbar=bar,
        zmin=0,
        x0=(wide - 1) / 2,
        dx=wide,
        y0=(tall - 1) / 2,
        dy=tall,
        name="selected entries",
        hovertemplate="%{z:,} entries<br>around row %{y:,.0f}, column %{x:,.0f}<extra></extra>",
    )


def top_lines(
    entries: pd.DataFrame,
    rows: int,
    cols: int,
    *,
    axis: str = "row",
    top: int = 10,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """The rows (or columns) with most selected entries, as bars, most first; ties by index.

    The line marks the mean over all rows (or columns) of the tensor.
    """
    _check(entries, rows, cols)
    length, name = _along(axis, rows, cols)
    x = "selected entries, count"
    if entries.empty:
        return blank(NOTHING, theme, height or 240, x, f"{axis}, index")
    counts = np.bincount(entries[name].to_numpy(), minlength=length)
    best = np.lexsort((np.arange(length), -counts))[:top]
    best = best[counts[best] > 0]
    return _bars([f"{i:,}" for i in best], counts[best], len(entries) / length, f"{axis}, index", theme, height)


def head_counts(
    entries: pd.DataFrame,
    rows: int,
    cols: int,
    heads: int,
    *,
    axis: str = "row",
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """Selected entries by attention head, as bars; the line marks the mean over heads.

    Heads are equal, consecutive parts of `axis`: rows of query, key and value, columns of the attention output
    (the other way round in models that store weights transposed). Raises ValueError where they do not divide it.
    """
    _check(entries, rows, cols)
    length, name = _along(axis, rows, cols)
    if heads < 1 or length % heads:
        raise ValueError(f"{heads} heads do not divide the tensor's {length} {axis}s")
    if entries.empty:
        return blank(NOTHING, theme, height or 240, "selected entries, count", "head (first = 0)")
    counts = np.bincount(entries[name].to_numpy() // (length // heads), minlength=heads)
    return _bars([str(h) for h in range(heads)], counts, len(entries) / heads, "head (first = 0)", theme, height)


def _bars(names: list[str], counts: np.ndarray, mean: float, y: str, theme: str, height: int | None) -> go.Figure:
    figure = canvas(theme, height or 120 + 22 * len(names), "selected entries, count", y)
    figure.add_trace(
        go.Bar(
            x=counts,
            y=names,
            orientation="h",
            showlegend=False,
            name="selected entries",
            marker={"color": BAR, "line": {"width": 0}},
            hovertemplate="<b>%{y}</b>: %{x:,} entries<extra></extra>",
        )
    )
    line = {"color": INK[theme], "width": 2, "dash": "5px,3px"}
    figure.add_trace(go.Scatter(x=[None], y=[None], mode="lines", line=line, name=f"mean, {mean:,.3g}"))
    figure.add_vline(x=mean, line=line)
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1], showgrid=False, dtick=1)
    figure.update_xaxes(showgrid=True, rangemode="tozero")
    return figure
