"""Direct labels that never overlap: for level lines (fine-tuned, chance, ...), and for lines at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import wrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core.metrics import Metric
from skillviz.plots.cells import broken
from skillviz.plots.figure import spread, value_range
from skillviz.plots.theme import GROUND, SOFT_INK, STATES, Style

LABEL_PIXELS = 30  # height of a label: two lines at size 11
SHORT = {"temperature": "temp.-scaled"}
NAME_PIXELS = 15  # height of a line of a name at size 11
NAME_LETTERS = 14  # letters of a line of a name
NAME_WIDTH = 0.45  # the width of such a line as a share of the plot's width on a phone
MARGIN = 18 + round(5.8 * 13)  # pixels right of the plot, for the labels
AXIS_PIXELS = 100  # pixels at most for the axis and the margins of a figure without a legend
LEAST_PLOT = 190  # the plot area's height if the legend wraps on a narrow page; more room only helps
FLOORS = ("chance", "majority")
FAR = 0.25  # share of the range of all else: a floor farther below is named, not drawn


@dataclass(frozen=True)
class _Label:
    """Text at the right side, and its target: the end of a line, a level line, or a level below the plot."""

    text: str
    lines: int
    y: float
    color: str
    place: dict


ARROWS = {"left": "triangle-left", "down": "triangle-down", "down-left": "triangle-sw"}


def near_levels(levels: Mapping[str, float], values: np.ndarray) -> dict[str, float]:
    """The levels that an axis over the values shows: not a floor far below them, which would flatten all else."""
    known = {name: value for name, value in levels.items() if not pd.isna(value)}
    drawn = np.append(values[np.isfinite(values)], [v for name, v in known.items() if name not in FLOORS])
    if not len(drawn):
        return known
    least = drawn.min() - FAR * np.ptp(drawn)
    return {name: value for name, value in known.items() if name not in FLOORS or value >= least}


def range_with_levels(points: pd.DataFrame, levels: Mapping[str, float], words: Metric) -> list[float]:
    """Return the ends of a metric's axis around the values and intervals of points, and the levels near them."""
    values = points[["value", "low", "high"]].to_numpy(float).ravel()
    return value_range(words.scale * np.append(values, list(near_levels(levels, values).values())), words)


def reference_style(name: str, theme: str) -> Style:
    """Return a state's own style; text color and fine dots for levels that are not states (chance, majority class)."""
    if name in STATES:
        return replace(STATES[name], title=SHORT.get(name, STATES[name].title))
    return Style(name, SOFT_INK[theme], "line-ew", "2px,3px" if name == "chance" else "7px,3px,2px,3px")


def legend_level(name: str, value: float, words: Metric, theme: str, far: str = "") -> go.Scatter:
    """Return a trace that names a level with its value in the legend.

    If the level is not drawn, the sample is a triangle that points in its direction, `far` (one of ARROWS).
    """
    style = reference_style(name, theme)
    text = f"{style.title} {words.text(value)}{', off the scale' if far else ''}"
    looks: dict[str, object] = {"mode": "lines", "line": {"color": style.color, "dash": style.dash, "width": 1.5}}
    if far:
        looks = {"mode": "markers", "marker": {"symbol": ARROWS[far], "color": style.color, "size": 9}}
    return go.Scatter(x=[None], y=[None], name=text, hoverinfo="skip", **looks)


def add_references(figure: go.Figure, levels: Mapping[str, float], words: Metric, theme: str) -> None:
    """Draw the level lines across the plot and name each at its right end; the y range must be set.

    Labels are in the right margin, moved apart if lines are near, each tied to its line by a leader. A level below the
    range is named at the bottom of the plot.
    """
    labels = _levels(figure, levels, words, theme)
    _write(figure, labels, [LABEL_PIXELS] * len(labels), LEAST_PLOT)
    if labels:
        # If x is slightly below 0, plotly lets the legend be wider than the plot: it may use the margin above the
        # labels, which gives a narrow page two columns instead of one.
        figure.update_layout(legend={"x": -0.001, "font": {"size": 11}})


def name_ends(figure: go.Figure, levels: Mapping[str, float], words: Metric, theme: str) -> None:
    """Like `add_references`, and name each line at its right end in the same column instead of in a legend.

    A single mark far from that end is named beside it, if no other line or interval is there: a leader to the margin
    would look like data. The x-axis is logarithmic; both ranges must be set.
    """
    right = figure.layout.xaxis.range[1]
    curves: list[_Label] = []
    beside: list[_Label] = []
    for trace in figure.data:
        end = int(np.argmax(trace.x))
        place = {"x": float(np.log10(trace.x[end])), "axref": "x", "ax": right, "borderpad": 5}
        curve = _curve(trace, end, place)
        (beside if _has_room(figure, trace, curve, beside) else curves).append(curve)
    levelled = _levels(figure, levels, words, theme)
    for one in beside:
        figure.add_annotation(
            name="curve", text=one.text, x=one.place["x"], y=one.y, xanchor="left", xshift=8, showarrow=False,
            font={"size": 11}, align="left", bgcolor=GROUND[theme],
        )  # fmt: skip
    _write_names(figure, curves + levelled)


def _has_room(figure: go.Figure, trace: go.Scatter, name: _Label, names: list[_Label]) -> bool:
    """True if the name of a single mark fits to its right, within the plot and clear of all other lines and `names`."""
    (left, right), (bottom, top) = figure.layout.xaxis.range, figure.layout.yaxis.range
    at = name.place["x"]
    if len(trace.x) > 1 or right - at < NAME_WIDTH * (right - left):
        return False
    low, high = _heights(figure, name.y, name.lines)
    others = [spans(other, at, right) for other in figure.data if other is not trace]
    taken = [ends for ends in others if ends] + [_heights(figure, one.y, one.lines) for one in names]
    return bottom <= low and high <= top and all(above < low or below > high for below, above in taken)


def _heights(figure: go.Figure, y: float, lines: int) -> tuple[float, float]:
    """Return the lower and the upper end of a name around this height."""
    bottom, top = figure.layout.yaxis.range
    half = lines * NAME_PIXELS / 2 / (figure.layout.height - AXIS_PIXELS) * (top - bottom)
    return y - half, y + half


def named_heights(figure: go.Figure) -> list[tuple[float, float]]:
    """Return the lower and upper end of each name that is beside its mark."""
    names = [a for a in figure.layout.annotations if a.name == "curve" and not a.showarrow]
    return [_heights(figure, a.y, a.text.count("<br>") + 1) for a in names]


def spans(trace: go.Scatter, left: float, right: float) -> tuple[float, float] | None:
    """The lower and upper end of a line with its intervals between two positions of a log x-axis; None outside."""
    at, y = np.log10(np.asarray(trace.x, float)), np.asarray(trace.y, float)
    if at.min() > right or at.max() < left:
        return None
    within = (at >= left) & (at <= right)
    up, down = (np.nan_to_num(np.asarray(trace.error_y[name], float)) for name in ("array", "arrayminus"))
    cut = np.interp(np.clip([left, right], at.min(), at.max()), at, y)
    heights = np.concatenate([cut, y[within], (y + up)[within], (y - down)[within]])
    return float(np.nanmin(heights)), float(np.nanmax(heights))


def name_category_ends(figure: go.Figure) -> None:
    """Name lines over the categories of an x-axis, all of which end at its last one; the y range must be set."""
    _write_names(figure, [_curve(line, -1, {"x": len(line.x) - 1, "ax": 22}) for line in figure.data])


def _curve(trace: go.Scatter, end: int, place: dict) -> _Label:
    """Return the name of a line at one of its points."""
    lines = wrap(trace.name, NAME_LETTERS, break_on_hyphens=False, break_long_words=False)
    name = [part for line in lines for part in broken(line, NAME_LETTERS).split("<br>")]
    place = {"name": "curve", "standoff": 6, **place}
    return _Label("<br>".join(name), len(name), float(trace.y[end]), trace.line.color, place)


def _write_names(figure: go.Figure, labels: list[_Label]) -> None:
    """Put the labels into the right margin in place of a legend."""
    _write(figure, labels, [NAME_PIXELS * label.lines for label in labels], figure.layout.height - AXIS_PIXELS)
    figure.update_layout(showlegend=False)


def _levels(figure: go.Figure, levels: Mapping[str, float], words: Metric, theme: str) -> list[_Label]:
    """Draw the level lines within the y range; return the labels of all levels."""
    bottom, top = figure.layout.yaxis.range
    labels = []
    for name, share in ((name, share) for name, share in levels.items() if not pd.isna(share)):
        value, style = share * words.scale, reference_style(name, theme)
        number = f"{value:.{words.digits}f}"
        is_below = value < bottom
        if not is_below:
            line = {"color": style.color, "dash": style.dash, "width": 1.5}
            figure.add_hline(y=value, line=line, layer="below")
        parts = [f"↓ {style.title}" if is_below else style.title, number]
        is_long = sum(map(len, parts)) >= 13
        place = {"name": "below" if is_below else "level", "x": 1, "xref": "paper", "ax": 5, "standoff": 0}
        labels.append(
            _Label(("<br>" if is_long else " ").join(parts), 1 + is_long, max(value, bottom), style.color, place)
        )
    return labels


def _write(figure: go.Figure, labels: list[_Label], room: list[float], plot: float) -> None:
    """Put the labels into the right margin of a plot that is `plot` pixels high, moved apart if they overlap."""
    if not labels:
        return
    bottom, top = figure.layout.yaxis.range
    pixels = [plot * (label.y - bottom) / (top - bottom) for label in labels]
    for label, at, moved in zip(labels, pixels, spread(pixels, room, plot), strict=True):
        figure.add_annotation(
            text=label.text,
            y=label.y,
            yref="y",
            ay=at - moved,
            xanchor="left",
            arrowhead=0,
            arrowwidth=0.7,
            arrowcolor="rgba(0,0,0,0)" if label.place["name"] == "below" else label.color,
            font={"size": 11},
            align="left",
            **label.place,
        )
    figure.update_layout(margin_r=MARGIN)
