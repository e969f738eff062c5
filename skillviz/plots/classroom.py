"""The answers of a class to one question: a bar for each choice, with its share and count."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas, require, wrapped
from skillviz.plots.theme import BAR, INK, SOFT_INK

AXIS, SIDE = "answers, %", "answer"
ROW, PANEL = 29, 64  # pixels of a bar, and of the axis
RIGHT = "✓ "  # before the name of the right answer: a color alone would not reach everybody
NOBODY = "Nobody has answered."
LINE = 26  # characters of a name before its line breaks


def answers(rows: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """One bar per row: answer, count, share (0..1) and is_right, in their order; the right answer is marked."""
    require(rows, ("answer", "count", "share", "is_right"), "rows")
    tall = height or PANEL + ROW * max(len(rows), 1)
    if not rows["count"].sum():
        return blank(NOBODY, theme, tall, AXIS, SIDE)
    figure = canvas(theme, tall, AXIS, SIDE)
    is_right = rows["is_right"].to_numpy(bool)
    names = [
        wrapped(f"{RIGHT}{name}" if right else name, LINE) for name, right in zip(rows["answer"], is_right, strict=True)
    ]
    figure.add_trace(
        go.Bar(
            x=100 * rows["share"], y=names, orientation="h", showlegend=False, cliponaxis=False, width=0.7,
            marker_color=[BAR if right else SOFT_INK[theme] for right in is_right],
            marker_opacity=[1.0 if right else 0.55 for right in is_right],
            text=[f"{100 * share:.0f}% ({count})" for share, count in zip(rows["share"], rows["count"], strict=True)],
            textposition="outside", textfont={"size": 13, "color": INK[theme]}, customdata=rows["count"],
            hovertemplate="%{y}: %{customdata} (%{x:.0f}%)<extra></extra>",
        )
    )  # fmt: skip
    figure.update_xaxes(range=[0, 125], tickvals=[0, 25, 50, 75, 100])  # the words of a bar of 100% are beside it
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    figure.update_layout(margin={"t": 6, "b": 42})
    return figure
