"""Level lines (fine-tuned, pre-trained, chance, ...) with direct labels that never overlap each other."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import Metric, spread
from skillviz.plots.theme import SOFT_INK, STATES, Style

LINE_PIXELS = 15  # height of one label line at size 11
LEAST_PLOT = 170  # the plot area's height where the legend wraps on a narrow page; more room only helps


def reference_style(name: str, theme: str) -> Style:
    """A state's own style; ink and fine dots for levels that are no state (chance, majority class)."""
    if name in STATES:
        return STATES[name]
    title = {"chance": "chance", "majority": "majority class"}.get(name, name)
    return Style(title, SOFT_INK[theme], "line-ew", "2px,3px" if name == "chance" else "7px,3px,2px,3px")


def add_references(figure: go.Figure, levels: Mapping[str, float], words: Metric, theme: str) -> None:
    """Draws the level lines across the plot and names each at its right end; the y range must be set.

    Labels stand in the right margin, pushed apart where lines are near, each tied to its line by a leader.
    """
    shown = {name: value * words.scale for name, value in levels.items() if not pd.isna(value)}
    if not shown:
        return
    bottom, top = figure.layout.yaxis.range
    pixels = [LEAST_PLOT * (value - bottom) / (top - bottom) for value in shown.values()]
    labels = []
    for (name, value), at, moved in zip(shown.items(), pixels, spread(pixels, LINE_PIXELS), strict=True):
        style = reference_style(name, theme)
        labels.append(f"{style.title} {value:.{words.digits}f}")
        figure.add_hline(y=value, line={"color": style.color, "dash": style.dash, "width": 1.5}, layer="below")
        figure.add_annotation(
            text=labels[-1],
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
        )
    figure.update_layout(margin_r=18 + round(5.8 * max(map(len, labels))))
