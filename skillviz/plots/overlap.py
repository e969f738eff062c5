"""Shared entries of regions: a square map of overlap or IoU, with the values expected by chance (paper, Fig. 8a)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.plots.cells import CIVIDIS, broken, matrix, numbers
from skillviz.plots.figure import blank, canvas, colour_bar, require, wrapped
from skillviz.plots.theme import DENSITY

CHANCE = ("chance", "chance_low", "chance_high")
COLUMNS = ("row", "column", "value", *CHANCE)
CELL, LOW_CELL, FRAME, LINE = 62, 34, 110, 16  # pixels: of a row, around the cells, and of a line of a name
FEW = 6  # regions up to which a cell has room for the mean by chance
FEWER = 3  # regions up to which it has room for the range by chance, on a narrow screen too
NAME = 11  # letters of a name in one line, on a phone
OFF = 5  # pixels between a row's name and its cells
NOTHING = "There are no two regions to compare."
KINDS = {
    "overlap": ("share of the column's entries, %", "also in {}", "entries of {}"),
    "iou": ("shared entries (IoU), %", "{}", "{}"),
}


def overlap_map(
    shares: pd.DataFrame,
    kind: str = "iou",
    *,
    of: str = "run",
    axes: tuple[str, str] | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One cell per pair of regions: its share in percent and, below it, the range expected by chance.

    With more than FEWER regions, or without the range, the mean by chance replaces it and the range is in the hover;
    with more than FEW both are only in the hover. A region paired with itself has no chance level. `shares`: row,
    column (names, in their order), value, chance, chance_low and chance_high (0..1; NaN if a region is empty). `kind`
    is `iou`, which is symmetric, or `overlap`: the share of the column's region that is also in the row's. The names
    denote an `of`, such as a run; if rows and columns are of different kinds, `axes` are the titles of x and y.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not known; it is {' or '.join(map(repr, KINDS))}")
    require(shares, COLUMNS, "shares")
    title, y, x = (words.format(of) for words in KINDS[kind])
    x, y = axes or (x, y)
    names, columns = list(dict.fromkeys(shares["row"])), list(dict.fromkeys(shares["column"]))
    columns = names if set(names) == set(columns) else columns
    if not names:
        return blank(NOTHING, theme, height or 300, x, y)
    many = len(columns) > FEW
    ticks = {"x": [_tick(name, len(columns)) for name in columns], "y": [_tick(name, len(names)) for name in names]}
    lines = {axis: 1 + max(tick.count("<br>") for tick in of_axis) for axis, of_axis in ticks.items()}
    row = max(LOW_CELL if many else CELL, LINE * lines["y"] + 8)
    figure = canvas(theme, height or FRAME + LINE * max(lines["x"] - 2, 0) + row * len(names), x, y)
    value, *chance = (matrix(shares, ("row", "column"), names, columns, of) for of in ("value", *CHANCE))
    by_chance = np.stack(chance, axis=-1)
    own = (np.array(names)[:, None] == np.array(columns)) & (value == 1)
    figure.add_trace(
        go.Heatmap(
            z=100 * value,
            x=columns,
            y=names,
            zmin=0,
            zmax=100,
            colorscale=DENSITY,
            colorbar=colour_bar(figure, title),
            xgap=2,
            ygap=2,
            name="shared entries",
            hovertext=_hovers(value, by_chance, own, names, columns, kind),
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )
    room = 0 if many else 1 if len(columns) > FEWER else 3
    texts = [
        [_cell(value[i, j], by_chance[i, j, : 0 if own[i, j] else room], 0 if many else 1) for j in range(len(columns))]
        for i in range(len(names))
    ]
    size = 10 if many else 12
    figure.add_trace(numbers(100 * value, texts, CIVIDIS, (0, 100), theme, columns=columns, rows=names, size=size))
    for side, axis, labels in (("x", figure.layout.xaxis, columns), ("y", figure.layout.yaxis, names)):
        order = {"type": "category", "categoryorder": "array", "categoryarray": labels}
        axis.update(**order, showgrid=False, dtick=1, tickvals=labels)
        axis.ticktext = ticks[side]
    figure.update_xaxes(showline=False)
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=OFF)
    return figure


def _tick(name: str, labels: int) -> str:
    """Return a region's name in short lines; among many labels it is also broken after hyphens."""
    lines = wrapped(name, NAME).split("<br>")
    return "<br>".join(broken(line) if labels > 3 else line for line in lines)


def _cell(value: float, chance: np.ndarray, digits: int) -> str:
    """Return `62.1` and below it, in percent, `chance 0.1–0.3`.

    If a cell has room only for a mean, `(0.2)`; nothing without `chance`.
    """
    if np.isnan(value):
        return ""
    share = f"{100 * value:.{digits}f}"
    if not len(chance) or np.isnan(chance[0]):
        return share
    mean, *ends = ((f"{100 * one:.1f}" if one >= 0.001 else f"{100 * one:.2g}") for one in chance)
    written = formats.TO.join(ends) if len(ends) and not np.isnan(chance).any() else mean
    return f"{share}<br>chance<br>{written}" if len(ends) else f"{share}<br>({mean})"


def _hovers(
    value: np.ndarray, chance: np.ndarray, own: np.ndarray, names: list[str], columns: list[str], kind: str
) -> list[list[str]]:
    words = "of {b}'s entries, {v} are in {a} too" if kind == "overlap" else "{a} and {b} share {v} of their entries"

    def hover(i: int, j: int) -> str:
        if np.isnan(value[i, j]):
            return ""
        if own[i, j]:
            return f"{names[i]}: the same region"
        shared = words.format(a=names[i], b=columns[j], v=formats.share(value[i, j]))
        return f"{shared}<br>by chance: {formats.by_chance(*chance[i, j])}"

    return [[hover(i, j) for j in range(len(columns))] for i in range(len(names))]
