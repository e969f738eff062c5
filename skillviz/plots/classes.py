"""Figures of classes: a confusion matrix, and precision, recall or F1 of every class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.cells import printed, shades, shown
from skillviz.plots.figure import blank, canvas, error_bars, ordered, require
from skillviz.plots.theme import INK, STATES, state_style

COUNTS = ("true", "predicted", "count")
RESULTS = ("state", "class", "metric", "value", "low", "high", "n")
TRUE, PREDICTED = "true class", "predicted class"
MANY = 8  # number of classes from which on a cell has room for two digits only
NOTHING = "No example has been predicted yet."


def confusion_matrix(
    counts: pd.DataFrame, labels: Sequence[str], *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """True class by predicted class, one cell per pair; correct cells are framed.

    `counts`: true and predicted (numbers from 0), count. Color is the share of the true class's examples. Cells show
    counts; with more than eight classes they show this share in whole percent.
    """
    require(counts, COUNTS, "confusion")
    if not counts["count"].sum():
        return blank(NOTHING, theme, height or 240, PREDICTED, TRUE)
    n = len(labels)
    table = np.zeros((n, n), dtype=np.int64)
    np.add.at(table, (counts["true"].to_numpy(int), counts["predicted"].to_numpy(int)), counts["count"].to_numpy(int))
    total = table.sum(axis=1, keepdims=True)
    share = np.divide(100 * table, total, out=np.full(table.shape, np.nan), where=total > 0)
    figure = canvas(theme, height or 70 + n * (64 if n <= 3 else 40 if n <= MANY else 26), PREDICTED, TRUE)
    words = [[_word(table[i, j], share[i, j], n) for j in range(n)] for i in range(n)]
    hover = [[_hover(labels, i, j, table, share) for j in range(n)] for i in range(n)]
    printed(figure, share, words, shades(theme), 0, 100, size=14 if n <= 3 else 12 if n <= MANY else 10, hover=hover)
    for i in range(n):
        edges = {"x0": i - 0.5, "x1": i + 0.5, "y0": i - 0.5, "y1": i + 0.5}
        figure.add_shape(type="rect", **edges, line={"color": INK[theme], "width": 1.5})
    _matrix_axes(figure, labels)
    return figure


def _word(count: int, share: float, n: int) -> str:
    if n <= MANY:
        return f"{count:,}"
    return f"{share:.0f}" if count else ""


def _hover(labels: Sequence[str], i: int, j: int, table: np.ndarray, share: np.ndarray) -> str:
    taken = "rightly" if i == j else f"for {shown(labels[j], 40)}"
    part = f" ({share[i, j]:.1f}% of the class)" if np.isfinite(share[i, j]) else ""
    return f"<b>{shown(labels[i], 40)}</b><br>{table[i, j]:,} taken {taken}{part}"


def _matrix_axes(figure: go.Figure, labels: Sequence[str]) -> None:
    """Set names on both axes if they are two and short, else numbers below and numbers with names at the side."""
    places, n = list(range(len(labels))), len(labels)
    brief = n == 2 and all(len(name) <= 10 for name in labels)
    below = [shown(name) for name in labels] if brief else [str(i + 1) for i in places]
    beside = below if brief else [f"{i + 1} {shown(name, 10 if n > MANY else 14)}" for i, name in enumerate(labels)]
    figure.update_xaxes(tickvals=places, ticktext=below, range=[-0.5, n - 0.5], showline=False, tickangle=0)
    if n > MANY:
        figure.update_xaxes(tickfont_size=10)  # like the cells: two digits stay apart at 320 pixels
    figure.update_yaxes(tickvals=places, ticktext=beside, range=[n - 0.5, -0.5], showgrid=False)


def class_results(
    results: pd.DataFrame,
    labels: Sequence[str],
    metric: str = "f1",
    *,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One metric of every class, one marker with its interval per state.

    `results`: state, class (number from 0), metric (precision, recall or f1), value, low, high (0..1, NaN if there is
    none), n (examples of the class).
    """
    require(results, RESULTS, "class results")
    title = metric_row(metric).axis
    rows = results[results["metric"] == metric]
    states = ordered(rows["state"], STATES)
    if not states:
        return blank(NOTHING, theme, height or 240, title, "class")
    n = len(labels)
    figure = canvas(theme, height or 90 + n * (14 + 14 * len(states)), title, "class")
    for number, state in enumerate(states):
        figure.add_trace(_marks(rows[rows["state"] == state], state, (number - (len(states) - 1) / 2) * 0.24, labels))
    counts = rows.groupby("class")["n"].max()
    names = [f"{shown(name)}<br>n = {int(counts.get(i, 0)):,}" for i, name in enumerate(labels)]
    figure.update_yaxes(tickvals=list(range(n)), ticktext=names, range=[n - 0.5, -0.5], showgrid=False)
    lowest = float(np.nanmin([*rows["low"].to_numpy(float), 1.0])) * 100
    figure.update_xaxes(range=[max(-2.0, lowest - 3), 102], showgrid=True)
    for i in range(n - 1):
        line = {"color": figure.layout.template.layout.xaxis.gridcolor, "width": 1}
        figure.add_hline(y=i + 0.5, line=line, layer="below")
    return figure


def _marks(rows: pd.DataFrame, state: str, shift: float, labels: Sequence[str]) -> go.Scatter:
    style = state_style(state)
    rows = rows.sort_values("class")
    value, low, high = (100 * rows[c].to_numpy(float) for c in ("value", "low", "high"))
    words = [_interval(v, a, b) for v, a, b in zip(value, low, high, strict=True)]
    hover = [f"{shown(labels[int(c)], 40)}: {w}" for c, w in zip(rows["class"], words, strict=True)]
    return go.Scatter(
        x=value,
        y=rows["class"].to_numpy(float) + shift,
        mode="markers",
        name=style.title,
        marker=style.marker(9),
        error_x=error_bars(value, low, high, 1.5, 3),
        hovertext=hover,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def _interval(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "n/a"
    return f"{value:.1f}%<br>95%: {formats.interval(low, high, 1)}" if np.isfinite(low) else f"{value:.1f}%"
