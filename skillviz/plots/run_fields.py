"""Runs as points: one field of a run against another."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas, log_ticks, ordered, padded, require, span
from skillviz.plots.theme import LOCALIZERS, localizer_style

POINTS = ("run", "name", "localizer", "x", "y")


def run_fields(
    points: pd.DataFrame,
    x_title: str = "x",
    y_title: str = "y",
    *,
    is_log: tuple[bool, bool] = (False, False),
    theme: str = "light",
    height: int = 420,
) -> go.Figure:
    """One mark per run in its localizer's color and shape; `is_log` gives each axis a log scale, for values above 0.

    `points`: run (the id), name, localizer, x, y. Runs without a value are left out.
    """
    require(points, POINTS, "points")
    known = points[np.isfinite(points[["x", "y"]].to_numpy(float)).all(axis=1)]
    for axis, logs in zip("xy", is_log, strict=True):
        known = known[known[axis] > 0] if logs else known
    if known.empty:
        return blank("No run has both values.", theme, height, x_title, y_title)
    figure = canvas(theme, height, x_title, y_title)
    for name in ordered(known["localizer"], LOCALIZERS):
        rows, style = known[known["localizer"] == name].sort_values("run"), localizer_style(name)
        figure.add_trace(
            go.Scatter(
                x=rows["x"].to_numpy(float), y=rows["y"].to_numpy(float), name=style.title, mode="markers",
                marker=style.marker(9), opacity=0.8, customdata=rows["run"].tolist(), hovertext=rows["name"].tolist(),
                hovertemplate=f"%{{hovertext}}<br>{x_title}: %{{x}}<br>{y_title}: %{{y}}<extra></extra>",
            )
        )  # fmt: skip
    for update, axis, logs in ((figure.update_xaxes, "x", is_log[0]), (figure.update_yaxes, "y", is_log[1])):
        values = known[axis].to_numpy(float)
        if logs:
            low, high = span(np.log10(values))
            update(type="log", range=padded(np.log10(values)), **log_ticks(low, high))
        else:
            update(range=padded(values))
    return figure
