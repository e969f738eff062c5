"""Level lines (fine-tuned, pre-trained, chance, ...) with direct labels that never overlap each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from skillviz.core.metrics import Metric
from skillviz.plots.figure import spread
from skillviz.plots.theme import SOFT_INK, STATES, Style

LABEL_PIXELS = 27  # height of a label: two lines at size 11
SHORT = {"temperature": "temp.-scaled"}
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
