"""The variance term of the generalization bound by region size (paper, appendix D)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.bound import VACUOUS
from skillviz.plots.figure import blank, canvas, log_ticks, ordered, require
from skillviz.plots.sparsity import SIZE_TITLE
from skillviz.plots.theme import GROUND, SOFT_INK, STATES, Style

COLUMNS = ("series", "size", "share", "value")
SERIES = {
    "learned": Style("learned on the training examples", STATES["grafted"].color, "diamond", "solid"),
    "fixed": Style("fixed before training", STATES["complement"].color, "x", "dot"),
    "run": Style("this run", STATES["grafted"].color, "diamond", "solid"),
    "full": Style("full model", STATES["finetuned"].color, "circle", "dash"),
}
"""Two lines by region size, and two single points."""
HEIGHT = 360
TITLE = "variance term, number (1 = vacuous)"


def variance_by_size(points: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """The variance term against region size, both on log axes; `points` has one row per series and size.

    The series are those of SERIES. A dashed line marks the value from which on the bound says nothing.
    """
    require(points, COLUMNS, "points")
    if points.empty:
        return blank("This run has no training examples to bound.", theme, height or HEIGHT, SIZE_TITLE, TITLE)
    figure = canvas(theme, height or HEIGHT, SIZE_TITLE, TITLE)
    for name in ordered(points["series"], SERIES):
        style, rows = SERIES[name], points[points["series"] == name].sort_values("size")
        is_point = len(rows) == 1
        hover = [
            f"{formats.number(value, 2)}<br>{size:,} entries = {formats.share(share)}"
            for value, size, share in zip(rows["value"], rows["size"], rows["share"], strict=True)
        ]
        figure.add_trace(
            go.Scatter(
                x=100 * rows["share"].to_numpy(float), y=rows["value"].to_numpy(float), name=style.title,
                mode="markers" if is_point else "lines", line=style.line(),
                marker=style.marker(11 if is_point else 8), cliponaxis=False, hovertext=hover,
                hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
            )
        )  # fmt: skip
    ends = np.log10([points["value"].min(), points["value"].max(), VACUOUS])
    sizes = np.log10(100 * points["share"].to_numpy(float))
    for axis, values in (("xaxis", sizes), ("yaxis", ends)):
        low, high = float(values.min()) - 0.2, float(values.max()) + 0.2
        ticks = log_ticks(low, high)
        names = [f"{value:,.9f}".rstrip("0").rstrip(".") for value in ticks["tickvals"]]  # %g would write 1e-05
        figure.update_layout({axis: {"type": "log", "range": [low, high], **ticks, "ticktext": names}})
    figure.add_hline(y=VACUOUS, line={"color": SOFT_INK[theme], "width": 1.5, "dash": "4px,3px"}, layer="below")
    figure.add_annotation(
        text="vacuous above", x=1, xref="x domain", y=float(np.log10(VACUOUS)), xanchor="right", yanchor="bottom",
        showarrow=False, font={"size": 11, "color": SOFT_INK[theme]}, bgcolor=GROUND[theme],
    )  # fmt: skip
    return figure
