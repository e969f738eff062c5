"""The states side by side: their metrics as dots with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.core.metrics import HEADLINE, Metric, metric_row
from skillviz.plots.figure import blank, center_axis, centers, error_bars, ordered, padded, require
from skillviz.plots.references import legend_level, near_levels, reference_style
from skillviz.plots.theme import LOCALIZERS, SOFT_INK, STATES, localizer_style, state_style, template

COLUMNS = ("state", "metric", "value", "low", "high")
HISTORY = ("localizer", "step", "loss", "size", "added", "removed")


def state_comparison(
    scores: pd.DataFrame,
    metrics: Sequence[str] = HEADLINE,
    *,
    references: Mapping[str, float] | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One panel per metric, stacked, one dot with its interval per state.

    `scores`: state, metric, value, low, high (shares 0..1, NLL in nats; low and high may be NaN). `references`: levels
    of the first metric shown, e.g. chance and majority, drawn there; one far below is only named.
    """
    require(scores, COLUMNS, "scores")
    shown = [m for m in metrics if (scores["metric"] == m).any()]
    states = ordered(scores.loc[scores["metric"].isin(shown), "state"], STATES)
    if not shown or not states:
        return blank("No state has been evaluated yet.", theme, height or 300, metric_row(metrics[0]).axis, "state")
    tall = height or 30 + (80 + 24 * len(states)) * len(shown)
    figure = make_subplots(rows=len(shown), cols=1, vertical_spacing=min(62 / tall, 0.8 / len(shown)))
    figure.update_layout(template=template(theme), height=tall)
    of_first = scores.loc[scores["metric"] == shown[0], ["value", "low", "high"]]
    near = near_levels(references or {}, of_first.to_numpy(float).ravel())
    titles = [state_style(s).title for s in reversed(states)]
    for row, metric in enumerate(shown, start=1):
        words = metric_row(metric)
        for state in states:
            hit = scores[(scores["metric"] == metric) & (scores["state"] == state)]
            figure.add_trace(_dot(state, hit, words), row=row, col=1)
        of_metric = scores[scores["metric"] == metric]
        drawn = of_metric[["value", "low", "high"]].to_numpy(float).ravel()
        ends = padded(words.scale * np.append(drawn, list(near.values()) if row == 1 else []), 0.05)
        figure.update_xaxes(title_text=center_axis(words.axis, of_metric), showgrid=True, range=ends, row=row, col=1)
        order = {"type": "category", "categoryorder": "array", "categoryarray": titles, "dtick": 1}
        is_middle = row == (len(shown) + 1) // 2  # the panels share their rows and one title
        figure.update_yaxes(title_text="state" if is_middle else "", showgrid=False, row=row, col=1, **order)
    for name, value in (references or {}).items():
        words, is_near = metric_row(shown[0]), name in near
        figure.add_trace(legend_level(name, value, words, theme, "" if is_near else "left"), row=1, col=1)
        if is_near:
            style = reference_style(name, theme)
            line = {"color": style.color, "dash": style.dash, "width": 1.5}
            figure.add_vline(x=value * words.scale, line=line, layer="below", row=1, col=1)
    return figure


def _dot(state: str, rows: pd.DataFrame, words: Metric) -> go.Scatter:
    style = state_style(state)
    value, low, high = centers(rows, words.scale), *(rows[c].to_numpy(float) * words.scale for c in ("low", "high"))
    text = [words.hover(row) for row in rows.to_dict("records")]
    return go.Scatter(
        x=value,
        y=[style.title] * len(rows),
        mode="markers",
        name=style.title,
        showlegend=False,
        marker=style.marker(11),
        error_x=error_bars(value, low, high, 2, 4),
        hovertext=text,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def search_history(history: pd.DataFrame, *, theme: str = "light", height: int = 420) -> go.Figure:
    """Two stacked panels that share the step axis: training loss; entries switched on (up) and off (down).

    `history` has the columns of history.parquet: localizer, step, loss (nats), size, added, removed (counts). Raises
    ValueError if it mixes searches of one localizer for several target sizes.
    """
    require(history, HISTORY, "history")
    if "target" in history and (history.groupby("localizer")["target"].nunique() > 1).any():
        raise ValueError(
            "history: choose one target size a localizer; given: "
            + ", ".join(f"{t:,}" for t in sorted(set(history["target"])))
        )
    if history.empty:
        return blank("This localizer has no steps to show.", theme, height, "step, number", "training loss, nats")
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.5, 0.5])
    figure.update_layout(template=template(theme), height=height, barmode="relative")
    names = ordered(history["localizer"], LOCALIZERS)
    for name in names:
        rows = history[history["localizer"] == name].sort_values("step")
        alone = len(names) == 1
        style = localizer_style(name)
        figure.add_trace(
            go.Scatter(
                x=rows["step"],
                y=rows["loss"],
                mode="lines+markers",
                name="loss" if alone else style.title,
                legendgroup=None if alone else name,
                line=style.line(),
                marker=style.marker(5),
                customdata=rows["size"],
                hovertemplate=f"<b>{style.title}</b>, step %{{x}}<br>loss %{{y:.3f}} nats<br>"
                "region of %{customdata:,} entries<extra></extra>",
            ),
            row=1,
            col=1,
        )
        figure.add_trace(_switched(name, rows, "added", len(names) == 1), row=2, col=1)
        figure.add_trace(_switched(name, rows, "removed", len(names) == 1), row=2, col=1)
    figure.add_hline(y=0, line={"color": SOFT_INK[theme], "width": 1}, row=2, col=1)
    figure.update_yaxes(title_text="training loss, nats", row=1, col=1)
    figure.update_yaxes(title_text="on / off, count", row=2, col=1)
    figure.update_xaxes(title_text="step, number", row=2, col=1)
    return figure


def _switched(name: str, rows: pd.DataFrame, column: str, alone: bool) -> go.Bar:
    """Return bars up for entries switched on, or down and hatched for entries switched off."""
    style, up = localizer_style(name), column == "added"
    word = "switched on" if up else "switched off"
    pattern = {} if up else {"shape": "/", "fgcolor": style.color, "bgcolor": "rgba(0,0,0,0)", "size": 5}
    return go.Bar(
        x=rows["step"],
        y=rows[column] * (1 if up else -1),
        name=word,
        legendgroup=None if alone else name,
        showlegend=alone,
        offsetgroup=name,
        customdata=rows[column],
        marker={"color": style.color, "line": {"color": style.color, "width": 1}, "pattern": pattern},
        hovertemplate=f"<b>{style.title}</b>, step %{{x}}<br>%{{customdata:,}} {word}<extra></extra>",
    )
