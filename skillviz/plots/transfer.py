"""Zero-shot on other tasks: each state's score by task, and graft minus fine-tuned (paper, Fig. 7 a to d)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.metrics import Metric, metric_row
from skillviz.plots.figure import (
    blank,
    canvas,
    center_axis,
    centers,
    error_bars,
    ordered,
    range_around_zero,
    require,
    span,
)
from skillviz.plots.references import near_levels, reference_style
from skillviz.plots.theme import GROUND, INK, SOFT_INK, STATES, state_style

COLUMNS = ("dataset", "state", "metric", "value", "low", "high")
DIFFERENCES = ("dataset", "metric", "value", "low", "high")
NOTHING = "No task has been scored yet."
STEP = 0.17  # share of a task's band, between two states
ROW, LEAST = 96, 110  # pixels of a task, and of axes
NAME_LETTERS = 14  # letters of a line of a task's name
VALUES = 0.2  # room for the values beside the dots, as a share of the values' range
NEAR = 0.25  # share of the axis: levels closer than this are named together


def zero_shot(
    scores: pd.DataFrame,
    datasets: Sequence[str] = (),
    metric: str = "accuracy",
    *,
    references: Mapping[str, Mapping[str, float]] | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One band per task, one dot with its interval per state, its value beside it.

    `references`: level name -> task -> level, 0..1; one that is far below on every task is only named.
    """
    require(scores, COLUMNS, "scores")
    words, rows = metric_row(metric), scores[scores["metric"] == metric]
    shown = _shown(rows, datasets)
    tall = height or LEAST + ROW * max(len(shown), 1)
    states = ordered(rows["state"], STATES)
    if not shown:
        return blank(NOTHING, theme, tall, words.axis, "task")
    figure = canvas(theme, tall, center_axis(words.axis, rows), "task")
    values = rows.loc[rows["dataset"].isin(shown), ["value", "low", "high"]].to_numpy(float).ravel()
    near = [name for name, of in (references or {}).items()
            if any(near_levels({name: of[task]}, values) for task in shown if task in of)]  # fmt: skip
    for name in near:
        figure.add_trace(_ticks(name, (references or {})[name], shown, words, theme))
    for number, state in enumerate(states):
        offset = ((len(states) - 1) / 2 - number) * min(STEP, 0.8 / len(states))
        figure.add_trace(_dots(state, rows[rows["state"] == state], shown, offset, words))
    _bands(figure, shown)
    _write_values(figure, words)
    _name_levels(figure, references or {}, near, shown, words, theme)
    for trace in figure.data:
        trace.showlegend = trace.mode == "markers"  # levels are named at their lines
    return figure


def _write_values(figure: go.Figure, words: Metric) -> None:
    """Write each dot's value at the right end of its interval, because a label beside it would be cut on a phone."""
    ends, lows = [0.0], []
    for trace in figure.data:
        x = np.array([np.nan if value is None else value for value in trace.x], dtype=float)
        lows.append(x)
        if trace.mode != "markers":
            ends.extend(x[np.isfinite(x)])
            continue
        above, below = (np.nan_to_num(np.asarray(trace.error_x[side], float)) for side in ("array", "arrayminus"))
        lows.append(x - below)
        ends.extend((x + above)[np.isfinite(x)])
        for value, end, y in zip(x, x + above, trace.y, strict=True):
            if np.isfinite(value):
                figure.add_annotation(
                    name="dot", text=f"{value:.{words.digits}f}", x=end, y=y, xanchor="left", xshift=6, showarrow=False,
                    font={"size": 11, "color": trace.marker.color},
                )  # fmt: skip
    low, high = span(np.concatenate(lows))[0], span(ends[1:])[1]
    air = (high - low) or 1.0
    figure.update_xaxes(range=[low - 0.05 * air, high + VALUES * air])


def _name_levels(
    figure: go.Figure, references: Mapping[str, Mapping[str, float]], near: Sequence[str], shown: Sequence[str],
    words: Metric, theme: str,
) -> None:  # fmt: skip
    """Name the levels of the uppermost task at the top of its band, levels close to one another together.

    Levels that are not drawn are named at the left end, with an arrow.
    """
    levels = sorted((of[shown[0]] * words.scale, name) for name, of in references.items() if shown[0] in of)
    left, right = figure.layout.xaxis.range
    groups: list[list[tuple[float, str]]] = []
    for level in levels:
        if groups and level[0] - groups[-1][-1][0] < NEAR * (right - left):
            groups[-1].append(level)
        else:
            groups.append([level])
    for group in groups:
        is_drawn = any(name in near for _, name in group)
        text = ", ".join(f"{reference_style(name, theme).title} {value:.{words.digits}f}" for value, name in group)
        figure.add_annotation(
            name="level", text=text if is_drawn else f"← {text}", x=group[0][0] if is_drawn else left, y=0.5,
            xanchor="left", yanchor="middle", xshift=3, showarrow=False, font={"size": 11, "color": SOFT_INK[theme]},
        )  # fmt: skip


def graft_minus_finetuned(
    differences: pd.DataFrame,
    datasets: Sequence[str] = (),
    metric: str = "accuracy",
    *,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One row per task: the paired difference with its interval beside it, and a line at zero difference."""
    require(differences, DIFFERENCES, "differences")
    words, rows = metric_row(metric), differences[differences["metric"] == metric]
    unit = words.difference_unit
    x = center_axis(words.difference_axis(f"{words.title}: graft − fine-tuned"), rows)
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
                f"{c:+.{words.digits}f} {unit}<br>{_interval(a, b, words.digits)}"
                + ("" if c == v else f"; plug-in {v:+.{words.digits}f}")
                for v, a, b, c in zip(value, low, high, center, strict=True)
            ],
            customdata=marks["dataset"],
            hovertemplate="<b>%{customdata}</b><br>%{hovertext}<extra></extra>",
        )
    )
    for v, a, b, y in zip(center, low, high, _places(marks["dataset"], shown), strict=True):
        figure.add_annotation(  # on the background color, so that the line at zero does not cross it
            name="difference", text=formats.signed(v, words.digits) + _ends(a, b, words), x=v, y=y, yshift=15,
            showarrow=False, font={"size": 11}, bgcolor=GROUND[theme], borderpad=0,
        )  # fmt: skip
    _bands(figure, shown)
    figure.update_xaxes(range=range_around_zero(np.concatenate([value, low, high])))
    figure.update_layout(showlegend=False)
    return figure


def _shown(rows: pd.DataFrame, datasets: Sequence[str]) -> list[str]:
    known = set(rows["dataset"])
    return [name for name in datasets if name in known] if datasets else sorted(known)


def _places(names: pd.Series, shown: Sequence[str]) -> np.ndarray:
    """Return the y position of each task: the first at the top."""
    return np.array([-shown.index(str(name)) for name in names], dtype=float)


def _bands(figure: go.Figure, shown: Sequence[str]) -> None:
    """Write the tasks' names at their bands, with a hairline between two."""
    places = [-float(number) for number in range(len(shown))]
    names = ["<br>".join(wrap(name, NAME_LETTERS, break_long_words=False)) for name in shown]
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
            words.hover(row, where=f" on {row['dataset']}")
            for row in rows.astype({"low": float, "high": float}).to_dict("records")
        ],
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def _ticks(name: str, levels: Mapping[str, float], shown: Sequence[str], words: Metric, theme: str) -> go.Scatter:
    """Return a level of each task as a vertical line through its band."""
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


def _ends(low: float, high: float, words: Metric) -> str:
    """` (−2.2 to 1.5)`; empty without an interval."""
    return "" if np.isnan(low) or np.isnan(high) else f" ({formats.interval(low, high, words.digits)})"


def _interval(low: float, high: float, digits: int) -> str:
    if np.isnan(low) or np.isnan(high):
        return "no interval"
    return f"95%: {formats.interval(low, high, digits)}"
