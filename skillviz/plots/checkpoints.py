"""The checkpoints of one fine-tuning: score, calibration, size needed and overlap by training step (paper, Fig. 15)."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    log_ticks,
    ordered,
    require,
    value_range,
)
from skillviz.plots.references import reference_style
from skillviz.plots.theme import LOCALIZERS, Style, localizer_style, state_style

COLUMNS = ("step", "what", "localizer", "metric", "value", "low", "high", "chance", "n")
STEP = "fine-tuning steps, number (log scale)"
HEIGHT = 380
DODGE = 0.012  # decades between neighboring lines, so that their intervals do not overlap
CALIBRATION, CHANCE = "ece", "chance"


@dataclass(frozen=True)
class Panel:
    """The content of one figure of a series: rows of the table `checkpoints` by `what`, and the y axis.

    `metric` narrows the rows; empty for the task's own metric.
    """

    title: str
    what: tuple[str, ...]
    metric: str = ""
    axis: str = ""
    is_log: bool = False


PANELS = {
    "score": Panel("Score along fine-tuning", ("pretrained", "finetuned", "grafted")),
    "calibration": Panel("Calibration along fine-tuning", ("finetuned", "grafted"), CALIBRATION),
    "needed": Panel(
        "Size that recovers the gain", ("needed",), axis="region size, % of parameters (log scale)", is_log=True
    ),
    "shared": Panel("Overlap with the last region", ("shared",), "overlap", axis="share of the last region, %"),
    "alike": Panel("Overlap with top movement", ("alike",), "overlap", axis="share of top movement's region, %"),
    "held": Panel("Movement in the region", ("held",), "overlap", axis="share of the squared movement, %"),
}


def rows_of(points: pd.DataFrame, panel: str) -> pd.DataFrame:
    """Return the rows of one panel that have a value."""
    of = PANELS[panel]
    rows = points[points["what"].isin(of.what) & points["value"].notna()]
    return rows[rows["metric"] == of.metric] if of.metric else rows[rows["metric"] != CALIBRATION]


def along_training(
    points: pd.DataFrame, panel: str = "score", *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """One line per model state or localizer by training step, intervals as bars; `panel` is a key of PANELS.

    `points` is the table `checkpoints` of one task: shares 0..1. The overlap's chance level is a dotted line.
    """
    require(points, COLUMNS, "points")
    of, rows, tall = PANELS[panel], rows_of(points, panel), height or HEIGHT
    words = metric_row(str(rows["metric"].iloc[0])) if len(rows) and panel != "needed" else Metric("needed", "size")
    title = of.axis or center_axis(words.axis, rows)
    if rows.empty:
        return blank(f"Nothing to show: no checkpoint has {of.title.lower()}.", theme, tall, STEP, title)
    figure = canvas(theme, tall, STEP, title)
    lines = _lines(rows)
    for place, (style, of_line) in enumerate(lines):
        low, high = (of_line[end].to_numpy(float) * words.scale for end in ("low", "high"))
        value = centers(of_line, words.scale)
        figure.add_trace(
            go.Scatter(
                x=of_line["step"].to_numpy(float) * 10 ** ((place - (len(lines) - 1) / 2) * DODGE),
                y=value,
                name=style.title,
                mode="lines+markers",
                line=style.line(),
                marker=style.marker(8),
                error_y=error_bars(value, low, high, 1.5, 3),
                cliponaxis=False,
                hovertext=[_hover(row, words) for row in of_line.to_dict("records")],
                hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
            )
        )
    if rows["chance"].notna().any():
        chance = rows[rows["chance"].notna()].groupby("step")["chance"].max()
        style = reference_style(CHANCE, theme)
        figure.add_trace(
            go.Scatter(
                x=chance.index.to_numpy(float),
                y=100 * chance.to_numpy(float),
                mode="lines",
                name="by chance",
                line=style.line(1.5),
                hovertemplate="by chance %{y:.1f}%<extra></extra>",
            )  # fmt: skip
        )
    _axes(figure, points, rows, words, of.is_log)
    return figure


def _lines(rows: pd.DataFrame) -> list[tuple[Style, pd.DataFrame]]:
    """Return the lines: the models, then the grafts; a graft has its localizer's style if there are several."""
    names = ordered(rows.loc[rows["localizer"] != "", "localizer"], LOCALIZERS)
    states = [what for what in ("pretrained", "finetuned") if (rows["what"] == what).any()]
    lines = [(state_style(state), rows[rows["what"] == state].sort_values("step")) for state in states]
    for name in names:
        style = localizer_style(name)
        if states:
            title = f"graft, {style.title}"
            style = replace(style if len(names) > 1 else state_style("grafted"), title=title)
        lines.append((style, rows[rows["localizer"] == name].sort_values("step")))
    return lines


def _hover(row: dict, words: Metric) -> str:
    step = f"step {row['step']:,}"
    if words.name == "needed":
        return f"{step}<br>{formats.share(row['value'])} of the parameters"
    return f"{step}<br>{words.hover(row)}"


def _axes(figure: go.Figure, points: pd.DataFrame, rows: pd.DataFrame, words: Metric, is_log: bool) -> None:
    """Set the steps as ticks of a log axis, the same in every panel, and the values' range with some margin."""
    steps = sorted(set(points["step"]))
    ends = np.log10(np.array([max(steps[0], 1), max(steps[-1], 1)], dtype=float))
    air = max(0.05 * float(np.ptp(ends)), 0.08)
    figure.update_xaxes(
        type="log", range=[ends[0] - air, ends[1] + air], tickvals=steps, ticktext=[f"{step:,}" for step in steps]
    )
    columns = ["value", "low", "high"] + (["debiased"] if "debiased" in rows else [])
    values = words.scale * rows[columns].to_numpy(float).ravel()
    values = np.append(values, words.scale * rows["chance"].to_numpy(float))
    if not is_log:
        figure.update_yaxes(range=value_range(values, words))
        return
    known = values[values > 0]  # a size of zero has no marker
    low, high = (float(np.log10(end)) for end in (known.min(), known.max()))
    figure.update_yaxes(type="log", range=[low - 0.2, high + 0.2], **log_ticks(low - 0.2, high + 0.2))
