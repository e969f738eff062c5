"""Zero-shot on other tasks: each state's score by task, and graft minus fine-tuned (paper, Fig. 7 a to d)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.metrics import Metric, metric_row
from skillviz.plots.figure import blank, canvas, centers, error_bars, ordered, range_around_zero, require
from skillviz.plots.references import reference_style
from skillviz.plots.theme import INK, SOFT_INK, STATES, state_style

COLUMNS = ("dataset", "state", "metric", "value", "low", "high")
DIFFERENCES = ("dataset", "metric", "value", "low", "high")
NOTHING = "No task has been scored yet."
STEP = 0.17  # of a task's band, between two states
ROW, LEAST = 96, 130  # pixels of a task, and of axes and legend


def zero_shot(
    scores: pd.DataFrame,
    datasets: Sequence[str] = (),
    metric: str = "accuracy",
    *,
    references: Mapping[str, Mapping[str, float]] | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One band a task, one dot with its interval a state. `references`: level name -> task -> level, 0..1."""
    require(scores, COLUMNS, "scores")
    words, rows = metric_row(metric), scores[scores["metric"] == metric]
    shown = _shown(rows, datasets)
    tall = height or LEAST + ROW * max(len(shown), 1)
    states = ordered(rows["state"], STATES)
    if not shown:
        return blank(NOTHING, theme, tall, words.axis, "task")
    figure = canvas(theme, tall, words.axis, "task")
    for name, levels in (references or {}).items():
        figure.add_trace(_ticks(name, levels, shown, words, theme))
    for number, state in enumerate(states):
        offset = ((len(states) - 1) / 2 - number) * min(STEP, 0.8 / len(states))
        figure.add_trace(_dots(state, rows[rows["state"] == state], shown, offset, words))
    _bands(figure, shown)
    return figure


def graft_minus_finetuned(
    differences: pd.DataFrame,
    datasets: Sequence[str] = (),
    metric: str = "accuracy",
    *,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One row a task: the paired difference with its interval, and the line where there is none."""
    require(differences, DIFFERENCES, "differences")
    words, rows = metric_row(metric), differences[differences["metric"] == metric]
    unit = words.difference_unit
    x = f"{words.title}: graft − fine-tuned, {unit}"
    shown = _shown(rows, datasets)
    tall = height or LEAST + ROW * max(len(shown), 1)
    if not shown:
        return blank(NOTHING, theme, tall, x, "task")
    figure = canvas(theme, tall, x, "task")
    marks = rows[rows["dataset"].isin(shown)]
    value, low, high = (marks[c].to_numpy(float, na_value=np.nan) * words.scale for c in ("value", "low", "high"))
    center = centers(marks, words.scale)
    figure.add_vline(x=0, line={"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}, layer="below")
    figure.add_trace(
        go.Scatter(
            x=center,
            y=_places(marks["dataset"], shown),
            mode="markers",
            name="graft − fine-tuned, paired",
            marker={"color": INK[theme], "symbol": "diamond-tall", "size": 12},
            error_x=error_bars(center, low, high, 2, 4),
            hovertext=[
                f"{v:+.{words.digits}f} {unit}<br>{_interval(a, b, words.digits)}"
                + ("" if c == v else f"; debiased {c:+.{words.digits}f}")
                for v, a, b, c in zip(value, low, high, center, strict=True)
            ],
            customdata=marks["dataset"],
            hovertemplate="<b>%{customdata}</b><br>%{hovertext}<extra></extra>",
        )
    )
    _bands(figure, shown)
    figure.update_xaxes(range=range_around_zero(np.concatenate([value, low, high])))
    return figure


def _shown(rows: pd.DataFrame, datasets: Sequence[str]) -> list[str]:
    known = set(rows["dataset"])
    return [name for name in datasets if name in known] if datasets else sorted(known)


def _places(names: pd.Series, shown: Sequence[str]) -> np.ndarray:
    """Where each task stands: the first at the top."""
    return np.array([-shown.index(str(name)) for name in names], dtype=float)


def _bands(figure: go.Figure, shown: Sequence[str]) -> None:
    """The tasks' names at their bands, and a hairline between two."""
    places = [-float(number) for number in range(len(shown))]
    names = [name.replace("-", "-<br>") if len(name) > 13 else name for name in shown]
    figure.update_yaxes(
        range=[places[-1] - 0.55, 0.55], tickmode="array", tickvals=places, ticktext=names, showgrid=False
    )
    figure.update_xaxes(showgrid=True)
    for place in places[1:]:
        figure.add_hline(y=place + 0.5, line={"width": 0.5, "color": "#808080"}, layer="below")


def _dots(state: str, rows: pd.DataFrame, shown: Sequence[str], offset: float, words: Metric) -> go.Scatter:
    rows, style = rows[rows["dataset"].isin(shown)], state_style(state)
    value = centers(rows, words.scale)
    low, high = (rows[c].to_numpy(float, na_value=np.nan) * words.scale for c in ("low", "high"))
    return go.Scatter(
        x=value,
        y=_places(rows["dataset"], shown) + offset,
        mode="markers",
        name=style.title,
        marker=style.marker(10),
        error_x=error_bars(value, low, high, 2, 4),
        hovertext=[
            f"{words.text(row['value'])} {words.title} on {row['dataset']}<br>"
            f"{words.interval_text(row['low'], row['high'], debiased=row.get('debiased', math.nan))}"
            for row in rows.astype({"low": float, "high": float}).to_dict("records")
        ],
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def _ticks(name: str, levels: Mapping[str, float], shown: Sequence[str], words: Metric, theme: str) -> go.Scatter:
    """A level of each task as a vertical line through its band."""
    style, nothing = reference_style(name, theme), [None]
    lines = [(shown.index(task), level * words.scale) for task, level in levels.items() if task in shown]
    return go.Scatter(
        x=[x for _, level in lines for x in (level, level, None)] or nothing,
        y=[y for number, _ in lines for y in (-number - 0.42, -number + 0.42, None)] or nothing,
        mode="lines",
        name=style.title,
        line={"color": style.color, "dash": style.dash, "width": 1.5},
        hoverinfo="skip",
    )


def _interval(low: float, high: float, digits: int) -> str:
    if np.isnan(low) or np.isnan(high):
        return "no interval"
    return f"95%: {formats.interval(low, high, digits)}"
