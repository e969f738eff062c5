"""Localizers on a planted skill: the accuracy of their grafts, and the overlap of their regions with the true one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas, error_bars, require
from skillviz.plots.theme import BAR, SOFT_INK, STATES, Style, localizer_style

SERIES: Mapping[str, Style] = {
    "graft": Style("accuracy of the graft", STATES["grafted"].color, STATES["grafted"].symbol, "solid"),
    "kept_out": Style("accuracy, kept out of the true region", STATES["complement"].color, "x", "solid"),
    "precision": Style("true among its moved parameters", BAR, "square-open", "solid"),
}
"""The series drawn for a localizer, by the column of the board."""
AXIS, SIDE = "accuracy and precision, %", "localizer"
ROW, PANEL = 44, 132  # pixels of a row, and of axis and legend


def found(
    rows: pd.DataFrame,
    levels: Mapping[str, float],
    shown: tuple[str, ...] = tuple(SERIES),
    *,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One row per localizer: a mark for each of `shown` (columns of SERIES, shares 0..1), with its interval if any.

    A line is drawn for each level, with its name.
    """
    require(rows, ("localizer", *shown), "rows")
    tall = height or PANEL + ROW * max(len(rows), 1)
    if rows.empty:
        return blank("No localizer has been measured on a planted skill yet.", theme, tall, AXIS, SIDE)
    figure = canvas(theme, tall, AXIS, SIDE)
    titles = [localizer_style(name).title for name in rows["localizer"]]
    for name in shown:
        style = SERIES[name]
        value, low, high = (
            100 * rows.get(column, pd.Series(np.nan, rows.index)).to_numpy(float)
            for column in (name, f"{name}_low", f"{name}_high")
        )
        figure.add_trace(
            go.Scatter(
                x=value, y=titles, mode="markers", name=style.title, marker=style.marker(11),
                error_x=error_bars(value, np.maximum(low, 0), high, 2, 4),
                hovertemplate=f"<b>%{{y}}</b><br>{style.title}: %{{x:.1f}}%<extra></extra>",
            )
        )  # fmt: skip
    for number, (words, level) in enumerate(levels.items()):
        figure.add_vline(x=100 * level, line={"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}, layer="below")
        figure.add_annotation(
            x=100 * level, y=1, yref="paper", yanchor="bottom", yshift=14 * (number % 2), showarrow=False,
            text=f"{words} {100 * level:.1f}", font={"size": 11, "color": SOFT_INK[theme]},
        )  # fmt: skip
    figure.update_xaxes(range=[0, 100], showgrid=True)
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=titles[::-1], showgrid=False)
    figure.update_layout(
        margin_t=42, legend={"orientation": "h", "yanchor": "top", "y": -0.28, "x": 0}
    )  # the names of the levels are above the plot
    return figure
