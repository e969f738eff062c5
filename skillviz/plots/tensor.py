"""A close view of one tensor: its entries in the region, by row, column and attention head.

`entries` has one row per selected entry: row, col (int, from 0), at most rows x cols of them, each once. A vector
(bias, LayerNorm) is one row.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from skillviz.plots.cells import printed, shades
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
    """Return the tensor's length along the axis, and the column of `entries` with the index along it."""
    if axis not in ("row", "column"):
        raise ValueError(f"axis={axis!r} is not known; it is 'row' or 'column'")
    return (rows, "row") if axis == "row" else (cols, "col")


def tensor_map(entries: pd.DataFrame, rows: int, cols: int, *, theme: str = "light", height: int = 380) -> go.Figure:
    """The tensor's selected entries: a dot each, or, if there are many, exact counts by block.

    Blocks are at most 96 along each side and have whole numbers of rows and columns; their counts sum to the number of
    entries. Row 0 is at the top.
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
    """Return counts of entries by block, and the block's height and width in rows and columns (the last may be cut)."""
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
    # The end of the scale that resembles the background is left out, because an empty block shows the background
    # itself.
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
    """The rows (or columns) with the most selected entries, as bars, most first; ties by index.

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


def head_map(
    heads: pd.DataFrame, *, chosen: int | None = None, theme: str = "light", height: int | None = None
) -> go.Figure:
    """Selected entries by layer and attention head, the count in every cell with room; `chosen` layer framed.

    `heads`: layer, head (int, from 0), selected; one row each.
    """
    require(heads, ("layer", "head", "selected"), "heads")
    x, y = "head (first = 0)", "layer (first = 0)"
    if heads.empty or not heads["selected"].any():
        return blank(NOTHING, theme, height or 240, x, y)
    layers, columns = sorted(heads["layer"].unique()), sorted(heads["head"].unique())
    figure = canvas(theme, height or 110 + 24 * len(layers), x, y)
    z = (
        heads.pivot(index="layer", columns="head", values="selected")
        .reindex(index=layers, columns=columns)
        .to_numpy(float)
    )
    most = float(np.nanmax(z))
    is_roomy = len(columns) <= 12 and most < 1000
    words = [[f"{v:.0f}" if is_roomy and not np.isnan(v) else "" for v in row] for row in z]
    hover = [
        [
            f"layer {layer}, head {head}: {0 if np.isnan(v) else v:,.0f} entries"
            for head, v in zip(columns, row, strict=True)
        ]
        for layer, row in zip(layers, z, strict=True)
    ]
    printed(figure, z, words, shades(theme), 0.0, most, size=9, hover=hover)
    figure.update_xaxes(tickvals=list(range(len(columns))), ticktext=[str(c) for c in columns], showline=False)
    figure.update_yaxes(
        tickvals=list(range(len(layers))),
        ticktext=[str(n) for n in layers],
        range=[len(layers) - 0.5, -0.5],
        showgrid=False,
    )
    if chosen in layers:
        place = layers.index(chosen)
        edges = {"x0": -0.5, "x1": len(columns) - 0.5, "y0": place - 0.5, "y1": place + 0.5}
        figure.add_shape(type="rect", **edges, line={"color": INK[theme], "width": 2})
    return figure


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
