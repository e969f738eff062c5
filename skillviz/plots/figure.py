"""What every figure begins with: a checked frame, a themed empty canvas, words for numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import ceil, floor, inf

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core.metrics import Metric
from skillviz.plots.theme import SOFT_INK, check_theme, template


def span(values: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest of these values that is measured; 0 and 1 where none is."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def value_range(values: np.ndarray, words: Metric) -> list[float]:
    """An axis' ends about these values, in the metric's unit, with a little air; of shares in 0..100%, within it."""
    low, high = span(values)
    air = 0.06 * (high - low) or 1.0
    is_share = words.unit == "%"
    least = 0.0 if is_share and low >= 0 else -np.inf
    most = 100.0 if is_share and high <= 100 else np.inf
    return [max(low - air, least), min(high + air, most)]


def require(frame: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Nothing, if the frame has the columns. Raises ValueError naming those that are missing."""
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise ValueError(
            f"{what}: the frame has no column {', '.join(map(repr, missing))}; "
            f"wanted: {', '.join(columns)}; given: {', '.join(map(str, frame.columns)) or 'none'}"
        )


def canvas(theme: str, height: int, x: str = "", y: str = "") -> go.Figure:
    """A figure without traces: theme, height in pixels, axis titles; the width is the page's."""
    figure = go.Figure()
    figure.update_layout(template=template(theme), height=height)
    if x:
        figure.update_xaxes(title_text=x)
    if y:
        figure.update_yaxes(title_text=y)
    return figure


def blank(message: str, theme: str, height: int, x: str, y: str) -> go.Figure:
    """A labelled empty figure: axes with their titles and one sentence in the middle, saying what is missing."""
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


BAR_ROOM = 64  # pixels above a figure for its colour bar: title, bar, tick labels


def colour_bar(figure: go.Figure, title: str) -> dict:
    """`colorbar` of a figure's one colour scale: on top, along the whole width, where the legend would be.

    Makes room for it and writes its title. Left to plotly, the room is made late: the axis title is by then
    among the axis labels; and a bar placed against the container has its own title across it.
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
    """The text broken into lines of at most `width` characters, to fit a narrow card; never at a fixed space."""
    lines = [""]
    for word in re.split(r"[ \t\n]+", text.strip()):
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(lines)


def ordered(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names that occur, each once: those known in their known order, then the others by alphabet."""
    present, order = set(names), list(known)
    return [n for n in order if n in present] + sorted(present - set(order))


def centers(rows: pd.DataFrame, scale: float) -> np.ndarray:
    """Where marks with an interval stand: of a calibration error the debiased one, which its interval is about."""
    value = rows["value"].to_numpy(float, na_value=np.nan)
    if "debiased" not in rows:
        return value * scale
    debiased = rows["debiased"].to_numpy(float, na_value=np.nan)
    return np.where(np.isfinite(debiased), debiased, value) * scale


def center_axis(axis: str, rows: pd.DataFrame) -> str:
    """The heading of an axis of `centers`: where they are debiased it says so."""
    is_debiased = "debiased" in rows and bool(rows["debiased"].notna().any())
    return f"debiased {axis}" if is_debiased else axis


def error_bars(value: np.ndarray, low: np.ndarray, high: np.ndarray, thickness: float, width: float) -> dict:
    """`error_x` or `error_y` of a trace: the interval from low to high about each value."""
    ends = {"array": high - value, "arrayminus": value - low}
    return {"type": "data", "symmetric": False, **ends, "thickness": thickness, "width": width}


def range_around_zero(values: np.ndarray) -> list[float]:
    """An axis' ends about zero and these values, with a little air."""
    known = np.append(values[np.isfinite(values)], 0.0)
    air = 0.08 * float(np.ptp(known)) or 1.0
    return [float(known.min()) - air, float(known.max()) + air]


def log_ticks(low: float, high: float) -> dict:
    """Ticks of an axis from 10**low to 10**high: powers of ten, where few numbers between; no exponents."""
    powers = range(floor(low) - 1, ceil(high) + 1)
    steps = (1,) if high - low > 2 else (1, 2, 5) if high - low > 0.4 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    values = [float(f"{step * 10.0**power:.6g}") for power in powers for step in steps]
    return {"tickmode": "array", "tickvals": values, "ticktext": [f"{value:,.6g}" for value in values]}


def spread(places: Sequence[float], gaps: float | Sequence[float], top: float = inf) -> list[float]:
    """The places moved apart, as little as it takes, so that no two are nearer than they may be; order is kept.

    `gaps` is the room that each takes, its place in the middle; none reaches above `top`.
    Neighbours that are too near form a group that is centred on its own mean (pool adjacent violators).
    """
    room = [float(gaps)] * len(places) if isinstance(gaps, int | float) else list(gaps)
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    before = {i: sum(room[j] for j in order[:rank]) + room[i] / 2 for rank, i in enumerate(order)}
    groups: list[tuple[float, list[int]]] = []  # (sum of place less the room below it, places)
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
