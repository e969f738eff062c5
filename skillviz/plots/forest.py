"""A forest plot: one row per comparison, its difference with the interval, and a line at zero."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core.metrics import metric_row
from skillviz.plots.cells import shown
from skillviz.plots.figure import blank, canvas, error_bars, range_around_zero, require
from skillviz.plots.theme import INK, SOFT_INK

COLUMNS = ("name", "value", "low", "high", "n")
LONGEST = 34  # characters of a row's name on the axis
ROW, LEAST = 26, 110  # pixels of a row, and of axes and legend


def forest(
    rows: pd.DataFrame,
    metric: str,
    difference: str,
    kind: str,
    *,
    control: str = "",
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """The differences in a metric, one row each, from the top: by the column `order` if there is one, else as given.

    `difference` names the comparison (`graft − fine-tuned`), `kind` the kind of a row. With `control`, its name in the
    legend, the column `control` is a second, open mark in each row, without an interval.
    """
    require(rows, COLUMNS, "rows")
    words = metric_row(metric)
    unit = words.difference_unit
    title = words.difference_axis(f"{words.title} difference")
    tall = height or LEAST + ROW * max(len(rows), 1)
    if rows.empty:
        return blank("There is nothing to compare yet.", theme, tall, title, kind)
    ordered = rows.sort_values("order", kind="stable") if "order" in rows else rows
    figure = canvas(theme, tall, title, kind)
    places = -np.arange(len(ordered), dtype=float)
    value, low, high = (ordered[c].to_numpy(float, na_value=np.nan) * words.scale for c in ("value", "low", "high"))
    figure.add_vline(x=0, line={"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}, layer="below")
    every = np.concatenate([value, low, high])
    if control:
        others = ordered["control"].to_numpy(float, na_value=np.nan) * words.scale
        every = np.concatenate([every, others])
        figure.add_trace(
            go.Scatter(
                x=others, y=places, mode="markers", name=control,
                marker={"color": SOFT_INK[theme], "symbol": "circle-open", "size": 9, "line": {"width": 1.5}},
                hovertemplate=f"{control}: %{{x:+.{words.digits}f}} {unit}<extra></extra>",
            )
        )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=value,
            y=places,
            mode="markers",
            name=difference,
            marker={"color": INK[theme], "symbol": "diamond-tall", "size": 11},
            error_x=error_bars(value, low, high, 2, 4),
            customdata=[
                f"<b>{shown(name, 80)}</b><br>{v:+.{words.digits}f} {unit}<br>"
                f"{words.interval_text(a / words.scale, b / words.scale)}<br>n = {n:,}"
                for name, v, a, b, n in zip(ordered["name"], value, low, high, ordered["n"], strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    names = [shown(str(name), LONGEST) for name in ordered["name"]]
    figure.update_yaxes(
        range=[places[-1] - 0.6, 0.6], tickmode="array", tickvals=places.tolist(), ticktext=names, showgrid=False
    )
    figure.update_xaxes(showgrid=True, range=range_around_zero(every))
    return figure
