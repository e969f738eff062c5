"""The basis of every figure: a checked frame, a themed empty canvas, words for numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import ceil, floor, inf
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core.metrics import Metric
from skillviz.plots.theme import SOFT_INK, Style, check_theme, template


def span(values: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest finite value; 0 and 1 if there is none."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def padded(values: np.ndarray | Sequence[float], part: float = 0.06) -> list[float]:
    """Return an axis' ends around these values, with a margin of this part of their range; 1 if they are equal."""
    low, high = span(values)
    air = part * (high - low) or 1.0
    return [low - air, high + air]


def value_range(values: np.ndarray, words: Metric) -> list[float]:
    """Return an axis' ends around these values, in the metric's unit, with a margin; shares stay within 0..100%."""
    (low, high), ends = span(values), padded(values)
    is_share = words.unit == "%"
    return [
        max(ends[0], 0.0 if is_share and low >= 0 else -np.inf),
        min(ends[1], 100.0 if is_share and high <= 100 else np.inf),
    ]


def require(frame: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Raise ValueError with the names of the missing columns, unless the frame has all columns."""
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise ValueError(
            f"{what}: the frame has no column {', '.join(map(repr, missing))}; "
            f"wanted: {', '.join(columns)}; given: {', '.join(map(str, frame.columns)) or 'none'}"
        )


def canvas(theme: str, height: int, x: str = "", y: str = "") -> go.Figure:
    """Return a figure without traces: theme, height in pixels, axis titles; the width is the page's."""
    figure = go.Figure()
    figure.update_layout(template=template(theme), height=height)
    if x:
        figure.update_xaxes(title_text=x)
    if y:
        figure.update_yaxes(title_text=y)
    return figure


def blank(message: str, theme: str, height: int, x: str, y: str) -> go.Figure:
    """Return a labeled empty figure: axes with their titles and a sentence in the middle that says what is missing."""
    check_theme(theme)
    figure = canvas(theme, height, x, y)
    figure.update_xaxes(showticklabels=False, showgrid=False, range=[0, 1])
    figure.update_yaxes(showticklabels=False, showgrid=False, range=[0, 1])
    figure.add_annotation(
        text=wrapped(message),
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
        showarrow=False,
        font={"size": 13, "color": SOFT_INK[theme]},
    )
    return figure


BAR_ROOM = 64  # pixels above a figure for its color bar: title, bar, tick labels


def colour_bar(figure: go.Figure, title: str) -> dict:
    """Return the `colorbar` of a figure's one color scale: on top, along the whole width, in place of the legend.

    It also makes room for the bar and writes its title. If left to plotly, the room is made too late, with the axis
    title already among the axis labels; and a bar placed relative to the container overlaps its own title.
    """
    height = figure.layout.height
    figure.update_layout(margin_t=BAR_ROOM)
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "top", "yshift": BAR_ROOM}
    figure.add_annotation(text=title, showarrow=False, font={"size": 12}, name="colour bar", **place)
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1 - 22 / height,
        "yref": "container",
        "yanchor": "top",
        "len": 1,
        "xpad": 0,
        "ypad": 0,
        "thickness": 10,
        "outlinewidth": 0,
        "tickfont": {"size": 11},
    }


def wrapped(text: str, width: int = 34) -> str:
    """Break the text into lines of at most `width` characters, to fit a narrow card; never at a no-break space."""
    lines = [""]
    for word in re.split(r"[ \t\n]+", text.strip()):
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(lines)


def ordered(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names that occur, each once: known names in their known order, then the others by alphabet."""
    present, order = set(names), list(known)
    return [n for n in order if n in present] + sorted(present - set(order))


def centers(rows: pd.DataFrame, scale: float) -> np.ndarray:
    """Return the positions of marks with an interval: debiased for a calibration error, like its interval."""
    value = rows["value"].to_numpy(float, na_value=np.nan)
    if "debiased" not in rows:
        return value * scale
    debiased = rows["debiased"].to_numpy(float, na_value=np.nan)
    return np.where(np.isfinite(debiased), debiased, value) * scale


def center_axis(axis: str, rows: pd.DataFrame) -> str:
    """Return the heading of an axis of `centers`; it says so if they are debiased."""
    is_debiased = "debiased" in rows and bool(rows["debiased"].notna().any())
    return f"debiased {axis}" if is_debiased else axis


def error_bars(value: np.ndarray, low: np.ndarray, high: np.ndarray, thickness: float, width: float) -> dict:
    """Return `error_x` or `error_y` of a trace: the interval from low to high around each value."""
    ends = {"array": high - value, "arrayminus": value - low}
    return {"type": "data", "symmetric": False, **ends, "thickness": thickness, "width": width}


def interval_band(style: Style, x: np.ndarray, low: np.ndarray, high: np.ndarray, **options: Any) -> go.Scatter:
    """Return the filled area between the ends of intervals along a line; `options` are the trace's own."""
    return go.Scatter(
        x=np.concatenate([x, x[::-1]]), y=np.concatenate([high, low[::-1]]), mode="lines", fill="toself",
        fillcolor=style.faint(0.13), line={"width": 0}, name=f"{style.title}: interval", showlegend=False,
        hoverinfo="skip", **options,
    )  # fmt: skip


def range_around_zero(values: np.ndarray) -> list[float]:
    """Return an axis' ends around zero and these values, with a margin."""
    known = np.append(values[np.isfinite(values)], 0.0)
    air = 0.08 * float(np.ptp(known)) or 1.0
    return [float(known.min()) - air, float(known.max()) + air]


def log_ticks(low: float, high: float) -> dict:
    """Return ticks of an axis from 10**low to 10**high: powers of ten, with numbers between if few; no exponents."""
    powers = range(floor(low) - 1, ceil(high) + 1)
    steps = (1,) if high - low > 2 else (1, 2, 5) if high - low > 0.4 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    values = [float(f"{step * 10.0**power:.6g}") for power in powers for step in steps]
    return {"tickmode": "array", "tickvals": values, "ticktext": [f"{value:,.6g}" for value in values]}


def spread(places: Sequence[float], gaps: float | Sequence[float], top: float = inf) -> list[float]:
    """Move the places apart by as little as needed to keep their distance; order is kept.

    `gaps` is the room for each, with its place in the middle; none reaches above `top`. Neighbors that are too close
    form a group that is centered on its own mean (pool adjacent violators).
    """
    room = [float(gaps)] * len(places) if isinstance(gaps, int | float) else list(gaps)
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    before = {i: sum(room[j] for j in order[:rank]) + room[i] / 2 for rank, i in enumerate(order)}
    groups: list[tuple[float, list[int]]] = []  # (sum of place minus the room below it, places)
    for i in order:
        total, group = places[i] - before[i], [i]
        while groups and groups[-1][0] / len(groups[-1][1]) > total / len(group):
            lower, of_lower = groups.pop()
            total, group = total + lower, of_lower + group
        groups.append((total, group))
    moved = [0.0] * len(places)
    for total, group in groups:
        for i in group:
            moved[i] = total / len(group) + before[i]
    for i in reversed(order):
        moved[i] = min(moved[i], top - room[i] / 2)
        top = min(top, moved[i] - room[i] / 2)
    return moved
