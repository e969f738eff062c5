"""How sure is it, and rightly so: confidence histograms and reliability diagrams (paper, Fig. 6 and Eq. 6).

Every function takes the reliability frame of `core.calibration.reliability` with a column `state` added, one
block of rows a state: state, bin, lower, upper, count, confidence, accuracy, low, high. Edges, confidence,
accuracy and its Wilson interval are 0..1; empty bins have count 0 and NaN. States as in `theme.STATES`;
`temperature` is the fine-tuned model with its temperature fitted on validation data.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas, ordered, require
from skillviz.plots.theme import SOFT_INK, STATES, Style, state_style

COLUMNS = ("state", "bin", "lower", "upper", "count", "confidence", "accuracy", "low", "high")
CONFIDENCE = "confidence, %"
NOTHING = "No predictions to bin yet."


def _states(bins: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The frame's states in table order, each with its rows from low to high confidence."""
    require(bins, COLUMNS, "reliability bins")
    names = ordered(bins.loc[bins["count"] > 0, "state"], STATES)
    return [(name, bins[bins["state"] == name].sort_values("lower")) for name in names]


def _first_edge(states: list[tuple[str, pd.DataFrame]]) -> float:
    """Lower edge of the lowest bin that any state fills, in percent."""
    return 100 * min(float(rows.loc[rows["count"] > 0, "lower"].min()) for _, rows in states)


def confidence_histogram(
    bins: pd.DataFrame, *, least: float | None = None, theme: str = "light", height: int = 320
) -> go.Figure:
    """Share of examples by confidence, one step outline a state, so that none hides another.

    `least`: an upright line stands at this confidence, 0..1.
    """
    figure = _outlines(bins, "share of examples, %", True, theme, height)
    if least is not None and figure.data:
        figure.add_vline(x=100 * least, line={"color": SOFT_INK[theme], "width": 1.5})
    return figure


def bin_counts(bins: pd.DataFrame, *, theme: str = "light", height: int = 240) -> go.Figure:
    """Number of examples in each bin, one step outline a state."""
    return _outlines(bins, "examples, count", False, theme, height)


def _outlines(bins: pd.DataFrame, y: str, as_share: bool, theme: str, height: int) -> go.Figure:
    states = _states(bins)
    if not states:
        return blank(NOTHING, theme, height, CONFIDENCE, y)
    figure = canvas(theme, height, CONFIDENCE, y)
    for name, rows in states:
        total = int(rows["count"].sum())
        values = rows["count"].to_numpy(float) * (100 / total if as_share else 1)
        figure.add_trace(_outline(name, rows, values, total))
        figure.add_trace(_key(name))
    figure.update_xaxes(range=[_first_edge(states) - 1, 101])
    figure.update_yaxes(rangemode="tozero")
    return figure


def _outline(name: str, rows: pd.DataFrame, values: np.ndarray, total: int) -> go.Scatter:
    """One state's outline: edge, middle and edge of every bin; only the middles carry a mark."""
    style, bins = state_style(name), len(rows)
    lower, upper = rows["lower"].to_numpy(float) * 100, rows["upper"].to_numpy(float) * 100
    x = np.column_stack([lower, (lower + upper) / 2, upper]).ravel()
    hover = [
        f"{count:,} of {total:,} examples ({100 * count / total:.1f} %)<br>confidence above {a:.1f} to {b:.1f} %"
        for count, a, b in zip(rows["count"], lower, upper, strict=True)
    ]
    return go.Scatter(
        x=[x[0], *x, x[-1]],
        y=[0, *np.repeat(values, 3), 0],
        mode="lines+markers",
        name=style.title,
        legendgroup=name,
        showlegend=False,
        line=style.line(),
        marker={**style.marker(), "size": [0, *([0, 7, 0] * bins), 0], "opacity": 1},
        hovertext=["", *np.repeat(hover, 3), ""],
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def _key(name: str) -> go.Scatter:
    """The legend's entry for an outline: a trace without points, whose mark has its full size."""
    style = state_style(name)
    empty: list[None] = [None]
    return go.Scatter(
        x=empty,
        y=empty,
        mode="lines+markers",
        name=style.title,
        legendgroup=name,
        line=style.line(),
        marker=style.marker(),
    )


def reliability_diagram(
    bins: pd.DataFrame, *, styles: Mapping[str, Style] = STATES, theme: str = "light", height: int = 400
) -> go.Figure:
    """Accuracy against mean confidence of each bin, with Wilson intervals and the gap to the diagonal.

    A mark's area grows with the bin's examples (never below a legible size); a thin line from mark to diagonal
    is the gap that ECE averages. `styles` where the column `state` holds other names, such as runs.
    """
    states = _states(bins)
    if not states:
        return blank(NOTHING, theme, height, CONFIDENCE, "accuracy, %")
    figure = canvas(theme, height, CONFIDENCE, "accuracy, %")
    _diagonal(figure, _first_edge(states), theme)
    for name, rows in states:
        filled, style = rows[rows["count"] > 0], styles.get(name) or state_style(name)
        figure.add_trace(_gaps(name, style, filled))
        figure.add_trace(_marks(name, style, filled, max(int(r["count"].max()) for _, r in states)))
    figure.update_xaxes(range=[_first_edge(states) - 1, 102])
    lowest = min(float(rows[["low", "accuracy"]].min().min()) for _, rows in states)
    figure.update_yaxes(range=[100 * min(lowest, _first_edge(states) / 100) - 2, 109])
    return figure


def _diagonal(figure: go.Figure, start: float, theme: str) -> None:
    line = {"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}
    ends, name = [start, 100], "perfectly calibrated"
    figure.add_trace(go.Scatter(x=ends, y=ends, mode="lines", line=line, name=name, showlegend=False, hoverinfo="skip"))
    # Above 100 %, where no accuracy and no interval can be.
    soft = {"size": 11, "color": SOFT_INK[theme]}
    figure.add_annotation(text=name, x=100, y=101, xanchor="right", yanchor="bottom", showarrow=False, font=soft)


def _gaps(name: str, style: Style, rows: pd.DataFrame) -> go.Scatter:
    """Vertical lines from the diagonal to each mark, as one broken trace."""
    confidence, accuracy = rows["confidence"].to_numpy(float) * 100, rows["accuracy"].to_numpy(float) * 100
    nothing = np.full(len(rows), np.nan)
    return go.Scatter(
        x=np.column_stack([confidence, confidence, nothing]).ravel(),
        y=np.column_stack([confidence, accuracy, nothing]).ravel(),
        mode="lines",
        line={"color": style.color, "width": 3},
        opacity=0.35,
        legendgroup=name,
        showlegend=False,
        hoverinfo="skip",
        name=f"{style.title}: gap",
    )


def _marks(name: str, style: Style, rows: pd.DataFrame, most: int) -> go.Scatter:
    accuracy, confidence, low, high = (rows[c].to_numpy(float) * 100 for c in ("accuracy", "confidence", "low", "high"))
    counts = rows["count"].to_numpy(float)
    gap = accuracy - confidence
    hover = [
        f"accuracy {a:.1f} % (95 %: {lo:.1f} to {hi:.1f})<br>confidence {c:.1f} %<br>"
        f"{abs(g):.1f} points {'under' if g > 0 else 'over'}-confident<br>n = {int(n):,}"
        for a, lo, hi, c, g, n in zip(accuracy, low, high, confidence, gap, counts, strict=True)
    ]
    error = {"type": "data", "symmetric": False, "array": high - accuracy, "arrayminus": accuracy - low}
    return go.Scatter(
        x=confidence,
        y=accuracy,
        mode="lines+markers",
        name=style.title,
        legendgroup=name,
        line=style.line(1.5),
        marker={**style.marker(), "size": np.maximum(5, 18 * np.sqrt(counts / most)), "opacity": 1},
        error_y={**error, "thickness": 1.5, "width": 3},
        hovertext=hover,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )
