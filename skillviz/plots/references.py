"""Direct labels that never overlap: of level lines (fine-tuned, chance, ...), and of lines at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from textwrap import wrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core.metrics import Metric
from skillviz.plots.figure import spread
from skillviz.plots.theme import GROUND, SOFT_INK, STATES, Style

LABEL_PIXELS = 27  # height of a label: two lines at size 11
SHORT = {"temperature": "temp.-scaled"}
NAME_PIXELS = 15  # height of a line of a curve's name at size 11
NAME_LETTERS = 14  # of a line, so that a name stays beside those of level lines on a phone
AXIS_PIXELS = 100  # at most, of a figure without a legend, for the axis and the margins
NAME_SHARE = 0.34  # of the plot's width, right of the largest size, where the names stand
LEAST_PLOT = 190  # the plot area's height where the legend wraps on a narrow page; more room only helps


def reference_style(name: str, theme: str) -> Style:
    """A state's own style; ink and fine dots for levels that are no state (chance, majority class)."""
    if name in STATES:
        return replace(STATES[name], title=SHORT.get(name, STATES[name].title))
    return Style(name, SOFT_INK[theme], "line-ew", "2px,3px" if name == "chance" else "7px,3px,2px,3px")


def add_references(figure: go.Figure, levels: Mapping[str, float], words: Metric, theme: str) -> None:
    """Draws the level lines across the plot and names each at its right end; the y range must be set.

    Labels stand in the right margin, pushed apart where lines are near, each tied to its line by a leader.
    """
    shown = {name: value * words.scale for name, value in levels.items() if not pd.isna(value)}
    if not shown:
        return
    bottom, top = figure.layout.yaxis.range
    pixels = [LEAST_PLOT * (value - bottom) / (top - bottom) for value in shown.values()]
    for (name, value), at, moved in zip(shown.items(), pixels, spread(pixels, LABEL_PIXELS), strict=True):
        style = reference_style(name, theme)
        title, number = style.title, f"{value:.{words.digits}f}"
        figure.add_hline(y=value, line={"color": style.color, "dash": style.dash, "width": 1.5}, layer="below")
        figure.add_annotation(
            text=title + ("<br>" if len(title) + len(number) >= 13 else " ") + number,
            x=1,
            xref="paper",
            y=value,
            yref="y",
            ax=10,
            ay=at - moved,
            xanchor="left",
            arrowhead=0,
            arrowwidth=1,
            arrowcolor=style.color,
            standoff=0,
            font={"size": 11},
            align="left",
        )
    # Left of 0 by a hair, plotly lets the legend be wider than the plot: it may use the margin above the labels,
    # which gives a narrow page two columns instead of one.
    figure.update_layout(margin_r=18 + round(5.8 * 13), legend={"x": -0.001, "font": {"size": 11}})


def name_ends(figure: go.Figure, theme: str) -> None:
    """Names each line at its right end instead of in a legend: a column of names, pushed apart where they meet.

    The x-axis is logarithmic; both ranges must be set.
    """
    left, right = figure.layout.xaxis.range
    bottom, top = figure.layout.yaxis.range
    figure.update_xaxes(range=[left, right + (right - left) * NAME_SHARE / (1 - NAME_SHARE)])
    ends = [int(np.argmax(trace.x)) for trace in figure.data]
    plot = figure.layout.height - AXIS_PIXELS
    pixels = [plot * (trace.y[end] - bottom) / (top - bottom) for trace, end in zip(figure.data, ends, strict=True)]
    names = [wrap(trace.name, NAME_LETTERS, break_on_hyphens=False, break_long_words=False) for trace in figure.data]
    gap = NAME_PIXELS * max(map(len, names))
    moved_to = spread(pixels, gap)
    above = max(0.0, max(moved_to) + gap / 2 - plot)  # no name leaves the figure at its top
    for trace, name, end, at, moved in zip(figure.data, names, ends, pixels, moved_to, strict=True):
        figure.add_annotation(
            name="curve",
            text="<br>".join(name),
            x=float(np.log10(trace.x[end])),
            y=trace.y[end],
            axref="x",
            ax=right,
            ay=at - moved + above,
            xanchor="left",
            arrowhead=0,
            arrowwidth=1,
            arrowcolor=trace.line.color,
            standoff=6,
            font={"size": 11},
            bgcolor=GROUND[theme],
            align="left",
        )
    figure.update_layout(showlegend=False)
