"""The states side by side: accuracy, ECE and NLL as dots with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.plots.figure import Metric, blank, metric_words, ordered, require
from skillviz.plots.theme import STATES, state_style, template

COLUMNS = ("state", "metric", "value", "low", "high")


def state_comparison(
    scores: pd.DataFrame,
    metrics: Sequence[str] = ("accuracy", "ece", "nll"),
    *,
    references: Mapping[str, float] | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One panel a metric under each other, one dot with its interval a state.

    `scores`: state, metric, value, low, high (shares 0..1, NLL in nats; low and high may be NaN). `references`:
    levels of the first metric, e.g. chance and majority, drawn there.
    """
    require(scores, COLUMNS, "scores")
    shown = [m for m in metrics if (scores["metric"] == m).any()]
    states = ordered(scores.loc[scores["metric"].isin(shown), "state"], STATES)
    if not shown or not states:
        return blank("No state has been evaluated yet.", theme, height or 300, metric_words(metrics[0]).axis, "state")
    figure = make_subplots(rows=len(shown), cols=1, vertical_spacing=0.16)
    each = 78 + 24 * len(states)
    figure.update_layout(template=template(theme), height=height or 20 + each * len(shown), showlegend=False)
    for row, metric in enumerate(shown, start=1):
        words = metric_words(metric)
        for state in states:
            hit = scores[(scores["metric"] == metric) & (scores["state"] == state)]
            figure.add_trace(_dot(state, hit, words), row=row, col=1)
        figure.update_xaxes(title_text=words.axis, showgrid=True, row=row, col=1)
        figure.update_yaxes(
            type="category",
            categoryorder="array",
            showgrid=False,
            row=row,
            col=1,
            categoryarray=[state_style(s).title for s in reversed(states)],
        )
    return figure


def _dot(state: str, rows: pd.DataFrame, words: Metric) -> go.Scatter:
    style = state_style(state)
    value, low, high = (rows[c].to_numpy(float) * words.scale for c in ("value", "low", "high"))
    text = [
        f"{words.text(r['value'])} {words.title}<br>95 %: {words.text(r['low'])} to {words.text(r['high'])}"
        for r in rows.to_dict("records")
    ]
    return go.Scatter(
        x=value,
        y=[style.title] * len(rows),
        mode="markers",
        name=style.title,
        marker=style.marker(11),
        error_x={
            "type": "data",
            "symmetric": False,
            "array": high - value,
            "arrayminus": value - low,
            "thickness": 2,
            "width": 4,
        },
        hovertext=text,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )
