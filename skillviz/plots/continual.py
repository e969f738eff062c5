"""Tasks learned in sequence: every task's metric after every stage, by mode (paper, table 4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.core.metrics import Metric, metric_row
from skillviz.plots.cells import broken, shown
from skillviz.plots.figure import blank, center_axis, centers, require, spread, value_range, wrapped
from skillviz.plots.theme import SOFT_INK, STATES, Style, template

COLUMNS = ("mode", "stage", "stage_task", "task", "metric", "value", "low", "high")
NOTHING = "No stage of this metric is stored here."
STAGE = "stage, number"
HEAD, FOOT, SIDE = 60, 60, 76  # pixels above the panels, below them, and right of them for the lines' names
LABEL = 40  # pixels of a name of three lines
STYLES = {
    "grafting": Style("within regions (grafting)", STATES["grafted"].color, "diamond", "solid"),
    "naive": Style("naive", STATES["finetuned"].color, "circle", "dash"),
}
ALONE, PRETRAINED = "one model per task", "pre-trained"
LOW = {"color": STATES["pretrained"].color, "width": 1.5, "dash": "2px,5px"}


def by_stage(
    stages: pd.DataFrame,
    metric: str = "accuracy",
    *,
    start: Mapping[str, float] | None = None,
    theme: str = "light",
    height: int = 340,
) -> go.Figure:
    """One panel per task in the order of learning: its metric after every stage, naive and within regions.

    Lines are named at the right end of the last panel. The dotted line is the model trained on this task alone.
    `stages` has the columns of the study's table; `start` is the pre-trained model's value by task.
    """
    require(stages, COLUMNS, "stages")
    words = metric_row(metric)
    rows = stages[(stages["metric"] == metric) & stages["value"].notna()]
    tasks = order_of(rows)
    if not tasks:
        return blank(NOTHING, theme, height, STAGE, words.axis)
    figure = make_subplots(
        rows=1, cols=len(tasks), shared_yaxes=True, horizontal_spacing=0.03,
        subplot_titles=[f"{number}. {broken(shown(task, 24))}" for number, task in enumerate(tasks, start=1)],
    )  # fmt: skip
    figure.update_layout(template=template(theme), height=height, margin={"t": HEAD, "b": FOOT})
    figure.update_annotations(font_size=11)
    last = int(rows["stage"].max())
    for place, task in enumerate(tasks, start=1):
        of_task = rows[rows["task"] == task]
        for mode, style in STYLES.items():
            series = of_task[of_task["mode"] == mode].sort_values("stage")
            if len(series):
                figure.add_trace(_line(series, style, words, mode), row=1, col=place)
        alone = of_task[of_task["mode"] == "independent"]
        if len(alone):
            hover = words.hover(alone.iloc[0].to_dict())
            _level(figure, float(centers(alone, 1.0)[0]), hover, ALONE, words, place, last, theme)
        if start and np.isfinite(start.get(task, np.nan)):
            _level(figure, start[task], words.text(start[task]), PRETRAINED, words, place, last, theme)
    ticks = {"tickvals": list(range(1, last + 1)), "range": [0.7, last + 0.3]}
    figure.update_xaxes(title_text=STAGE, title_font_size=9, **ticks)  # larger titles would collide on a phone
    figure.update_yaxes(title_text=center_axis(words.axis, rows), col=1)
    levels = [] if start is None else [start[task] for task in tasks if task in start]
    ends = np.append(rows[["value", "low", "high"]].to_numpy(float), levels)
    figure.update_yaxes(showgrid=True, range=value_range(words.scale * ends, words))
    _name_lines(figure, len(tasks))
    return figure


def _name_lines(figure: go.Figure, panels: int) -> None:
    """Name the lines of the last panel at their right ends, moved apart, in place of a legend."""
    axis = f"x{panels}" if panels > 1 else "x"
    lines = [trace for trace in figure.data if trace.xaxis == axis]
    bottom, top = figure.layout.yaxis.range
    plot = figure.layout.height - HEAD - FOOT
    pixels = [plot * (trace.y[-1] - bottom) / (top - bottom) for trace in lines]
    for trace, at, moved in zip(lines, pixels, spread(pixels, LABEL), strict=True):
        figure.add_annotation(
            name="line", text=wrapped(trace.name, 10), x=trace.x[-1], xref=axis, y=trace.y[-1], yref="y",
            axref=axis, ax=figure.layout[axis.replace("x", "xaxis")].range[1], ay=at - moved, xanchor="left",
            xshift=8, arrowhead=0, arrowwidth=1, arrowcolor=trace.line.color, standoff=5, font={"size": 11},
            align="left",
        )  # fmt: skip
    figure.update_layout(showlegend=False, margin_r=SIDE)


def order_of(stages: pd.DataFrame) -> list[str]:
    """Return the tasks in the order in which they were learned."""
    learned = stages[stages["mode"] != "independent"] if (stages["mode"] != "independent").any() else stages
    pairs = sorted({(int(s), str(t)) for s, t in zip(learned["stage"], learned["stage_task"], strict=True)})
    return [task for task in dict.fromkeys(task for _, task in pairs) if (stages["task"] == task).any()]


def _line(rows: pd.DataFrame, style: Style, words: Metric, mode: str) -> go.Scatter:
    value, low, high = centers(rows, words.scale), *(words.scale * rows[c].to_numpy(float) for c in ("low", "high"))
    shift = 0.05 if mode == "naive" else -0.05
    hover = [f"after {row['stage_task']}: {words.hover(row)}" for row in rows.to_dict("records")]
    return go.Scatter(
        x=rows["stage"] + shift, y=value, mode="lines+markers", name=style.title, legendgroup=mode,
        line=style.line(), marker=style.marker(9), hovertext=hover,
        error_y={
            "type": "data", "symmetric": False, "array": np.nan_to_num(high - value),
            "arrayminus": np.nan_to_num(value - low), "color": style.color, "thickness": 1.5,
        },
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )  # fmt: skip


def _level(
    figure: go.Figure, value: float, hover: str, name: str, words: Metric, place: int, last: int, theme: str
) -> None:
    """Add a line across a task's panel: the model of this task alone, or the pre-trained one."""
    figure.add_trace(
        go.Scatter(
            x=[0.7, last + 0.3], y=[words.scale * value] * 2, mode="lines", name=name, legendgroup=name,
            hovertemplate=f"<b>{name}</b>: {hover}<extra></extra>",
            line={"color": SOFT_INK[theme], "width": 2, "dash": "dot"} if name == ALONE else LOW,
        ),
        row=1,
        col=place,
    )  # fmt: skip
