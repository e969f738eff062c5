"""A metric against the bytes of a file: a run's grafts beside approximations of the whole movement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core.compressed import ENTRIES, INT8, RANK, SIGNS
from skillviz.core.metrics import metric_row
from skillviz.plots.figure import (
    blank,
    canvas,
    center_axis,
    centers,
    error_bars,
    log_ticks,
    ordered,
    require,
    span,
)
from skillviz.plots.references import add_references, range_with_levels
from skillviz.plots.theme import STATES, Style

POINTS = ("name", "kind", "bytes", "value", "low", "high")
STYLES = {
    ENTRIES: replace(STATES["grafted"], title="graft"),
    SIGNS: Style("signs", "#1D5FD1", "square", "dot"),
    RANK: Style("low rank", "#8B3FD9", "triangle-up", "dash"),
    INT8: Style("int8", "#A16207", "pentagon", "dashdot"),
}
"""The kinds of approximations by name; an unknown kind is not drawn."""
BYTES = "file, kB (log scale)"


def by_bytes(
    points: pd.DataFrame,
    metric: str = "accuracy",
    *,
    references: Mapping[str, float] | None = None,
    theme: str = "light",
    height: int = 380,
) -> go.Figure:
    """One mark with its interval per approximation, by the bytes of its file on a log axis; one line per kind.

    `points` of one metric: name, kind (of STYLES), bytes, value, low, high, and debiased if it is a calibration error.
    `references` are level lines by state.
    """
    require(points, POINTS, "points")
    words, levels = metric_row(metric), dict(references or {})
    kinds = [kind for kind in ordered(points["kind"], STYLES) if kind in STYLES]
    if not kinds:
        return blank("No rival has been scored.", theme, height, BYTES, words.axis)
    points = points[points["kind"].isin(kinds)].sort_values("bytes")
    figure = canvas(theme, height, BYTES, center_axis(words.axis, points))
    for kind in kinds:
        style, rows = STYLES[kind], points[points["kind"] == kind]
        value, low, high = (
            centers(rows, words.scale),
            *(words.scale * rows[end].to_numpy(float) for end in ("low", "high")),
        )
        hover = [
            f"{row['name']}<br>{words.hover(row)}<br>{row['bytes'] / 1000:,.0f} kB" for row in rows.to_dict("records")
        ]
        figure.add_trace(
            go.Scatter(
                x=rows["bytes"].to_numpy(float) / 1000, y=value, name=style.title,
                mode="lines+markers" if len(rows) > 1 else "markers", line=style.line(1.5), marker=style.marker(10),
                error_y=error_bars(value, low, high, 1.5, 4), hovertext=hover,
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )  # fmt: skip
    left, right = span(np.log10(points["bytes"].to_numpy(float) / 1000))
    figure.update_xaxes(type="log", range=[left - 0.12, right + 0.12], **log_ticks(left, right))
    figure.update_yaxes(range=range_with_levels(points, levels, words))
    add_references(figure, levels, words, theme)
    return figure
