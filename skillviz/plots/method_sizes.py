"""Many methods of several sizes each: one row per method, one column per share of parameters, the numbers printed.

One line each, like the few in `methods.against_touched`, would overlap too much.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.metrics import Metric
from skillviz.plots.cells import printed, shades
from skillviz.plots.figure import canvas, center_axis, centers, wrapped
from skillviz.plots.theme import state_style

ROW, PANEL = 34, 112  # pixels of a method's row, and of the axis
SIDE = 15  # letters of a method's name in one line at 320 pixels
TOUCHED = "parameters touched"


def by_size(
    points: pd.DataFrame,
    names: Sequence[str],
    words: Metric,
    references: Mapping[str, float],
    theme: str,
    height: int | None,
) -> go.Figure:
    """The numbers of one metric with their intervals, darker if better, the best of each column in bold.

    `points`: `rank` (the method's index in `names`), `place` (equal for shares that count as one), touched (0..1),
    value, low, high. A method alone at its share (the fine-tuned model at 100%) has the whole row, like `references`:
    levels of models that touch nothing, by state.
    """
    several = points.groupby("rank")["place"].transform("size") > 1
    is_alone = ~points["place"].isin(points.loc[several, "place"])
    median = points[~is_alone].groupby("place")["touched"].median()
    places = list(median.index)
    points = points.astype({"low": float, "high": float})
    rows = [*(state_style(state).title for state in references), *names]
    z = np.full((len(rows), len(places)), np.nan)
    values, ends, hover = (np.full(z.shape, "", dtype=object) for _ in range(3))
    alone = {number: words.number(level) for number, level in enumerate(references.values())}
    for row, center, has_row in zip(points.to_dict("records"), centers(points, 1.0), is_alone, strict=True):
        at = len(references) + row["rank"]
        interval = "" if np.isnan(row["low"]) or np.isnan(row["high"]) else words.ends(row["low"], row["high"])
        if has_row:
            alone[at] = f"{words.number(center)} ({interval})" if interval else words.number(center)
            continue
        cell = at, places.index(row["place"])
        z[cell], values[cell], ends[cell] = (
            words.merit(center),
            words.number(center),
            f"<br>{interval}" * bool(interval),
        )
        hover[cell] = f"<b>{rows[at]}</b><br>{method_hover(row, words)}"
    texts = np.where(z == np.nanmax(z, axis=0), "<b>" + values + "</b>", values) + ends
    across = f"{TOUCHED}<br>in the cells: {center_axis(words.axis, points)}"
    figure = canvas(theme, height or PANEL + ROW * len(rows), across)
    printed(figure, z, texts.tolist(), shades(theme), float(np.nanmin(z)), float(np.nanmax(z)),
            size=11, hover=hover.tolist(), gap=2)  # fmt: skip
    for at, text in alone.items():
        figure.add_annotation(x=(len(places) - 1) / 2, y=at, text=text, showarrow=False, font_size=11)
    figure.update_xaxes(
        tickvals=list(range(len(places))), ticktext=[formats.share(share) for share in median],
        range=[-0.5, len(places) - 0.5], showline=False,
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=[wrapped(row, SIDE) for row in rows],
        range=[len(rows) - 0.5, -0.5], showgrid=False, title_text="method",
    )  # fmt: skip
    figure.update_layout(showlegend=False)
    return figure


def method_hover(row: Mapping[Hashable, Any], words: Metric) -> str:
    """Return the hover text of a method's mark or cell: value, interval, and the share touched."""
    return f"{words.hover(row)}<br>{formats.share(row['touched'])} of the graftable parameters touched"
