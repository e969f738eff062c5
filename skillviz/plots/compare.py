"""Several runs side by side: their values, and their differences from one of them, with intervals.

A run's name is beside its row, so there is no legend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.core import formats
from skillviz.core.metrics import HEADLINE, Metric, metric_row
from skillviz.plots.cells import shown as shown_name
from skillviz.plots.figure import blank, center_axis, centers, error_bars, padded, require, wrapped
from skillviz.plots.theme import INK, LOCALIZERS, Style, localizer_style, spare_style, template

COLUMNS = ("run", "metric", "value", "low", "high")
NOTHING = "No run has been scored yet."
ROW, PANEL, HEAD = 34, 92, 24  # pixels of a run's row, of a panel's axis, above the first panel
LINE = 16  # pixels of a line of a run's name
NAME = 18  # letters of a run's name in one line
TITLE = 24  # letters of an axis title in one line, on a phone; there are at most two


def run_styles(runs: Sequence[tuple[str, str]]) -> dict[str, Style]:
    """Return the style of each run, given as (name, localizer): its localizer's color, and a marker and dash.

    The first run of a localizer has the localizer's marker and dash; later ones use the marks of localizers that are
    not shown, so no two runs differ by color alone.
    """
    first = {localizer: name for name, localizer in reversed(runs)}
    absent = (style for name, style in LOCALIZERS.items() if name not in first)
    styles = {}
    for name, localizer in runs:
        base = localizer_style(localizer)
        marks = base if first[localizer] == name else next(absent, spare_style(name))
        styles[name] = Style(name, base.color, marks.symbol, marks.dash)
    return styles


def values(
    scores: pd.DataFrame,
    styles: Mapping[str, Style],
    metrics: Sequence[str] = HEADLINE,
    *,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One panel per metric, stacked, one dot with its 95% interval per run.

    `scores`: run, metric, value, low, high (shares 0..1, NLL in nats; low and high may be NaN). Rows are in the order
    of `styles`.
    """
    return _panels(scores, styles, metrics, "", theme, height)


def differences(
    scores: pd.DataFrame,
    styles: Mapping[str, Style],
    baseline: str,
    metrics: Sequence[str] = HEADLINE,
    *,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """The same for differences from the run `baseline`, which is a vertical line at zero."""
    return _panels(scores, styles, metrics, baseline, theme, height)


def _panels(
    scores: pd.DataFrame,
    styles: Mapping[str, Style],
    metrics: Sequence[str],
    baseline: str,
    theme: str,
    height: int | None,
) -> go.Figure:
    require(scores, COLUMNS, "scores")
    shown = [m for m in metrics if scores.loc[scores["metric"] == m, "value"].notna().any()]
    keys = [key for key in styles if (scores["run"] == key).any()]
    if not shown or not keys:
        return blank(NOTHING, theme, height or 300, _axis(metric_row(metrics[0]), baseline), "run")
    names = [wrapped(shown_name(key, 60), NAME) for key in keys]
    rows = sum(max(ROW, LINE * (1 + name.count("<br>"))) for name in names)
    tall = height or HEAD + (PANEL + rows) * len(shown)
    figure = make_subplots(rows=len(shown), cols=1, vertical_spacing=min(84 / tall, 0.8 / len(shown)))
    figure.update_layout(template=template(theme), height=tall, showlegend=False, margin={"t": HEAD})
    for row, metric in enumerate(shown, start=1):
        words = metric_row(metric)
        for key in keys:
            hit = scores[(scores["metric"] == metric) & (scores["run"] == key)]
            value, low, high = (hit[c].to_numpy(float) * words.scale for c in ("value", "low", "high"))
            center = centers(hit, words.scale)
            figure.add_trace(
                go.Scatter(
                    x=center,
                    y=[key] * len(hit),
                    mode="markers",
                    name=styles[key].title,
                    legendgroup=key,
                    marker=styles[key].marker(11),
                    error_x=error_bars(center, low, high, 2, 4),
                    hovertext=[_hover(*ends, words, baseline) for ends in zip(value, low, high, center, strict=True)],
                    hovertemplate=f"<b>{styles[key].title}</b><br>%{{hovertext}}<extra></extra>",
                ),
                row=row,
                col=1,
            )
        of_metric = scores[scores["metric"] == metric]
        title = wrapped(center_axis(_axis(words, baseline), of_metric), TITLE)
        figure.update_xaxes(title_text=title, showgrid=True, range=_range(scores, metric, baseline), row=row, col=1)
        order = {"type": "category", "categoryorder": "array", "categoryarray": keys[::-1]}
        figure.update_yaxes(title_text="run", showgrid=False, row=row, col=1, tickvals=keys, ticktext=names, **order)
    if baseline:
        line = {"color": INK[theme], "width": 1.5, "dash": "2px,3px"}
        figure.add_vline(x=0, line=line, layer="below", row="all", col=1)
    return figure


def _axis(words: Metric, baseline: str) -> str:
    return words.difference_axis(f"{words.title} − baseline") if baseline else words.axis


def _range(scores: pd.DataFrame, metric: str, baseline: str) -> list[float]:
    """Return the panel's ends: all values and intervals, and zero if it is the baseline, with a small margin."""
    rows = scores[scores["metric"] == metric]
    shown = rows[["value", "low", "high"]].to_numpy(float).ravel() * metric_row(metric).scale
    return padded(np.append(shown, 0.0) if baseline else shown)


def _hover(value: float, low: float, high: float, center: float, words: Metric, baseline: str) -> str:
    """Return value and interval in the panel's own unit; a difference with its sign."""
    sign = "+" if baseline else ""
    unit = words.difference_unit if baseline else words.unit
    text = f"{words.title} {center:{sign}.{words.digits}f} {unit}".rstrip() + (
        f" against {baseline}" if baseline else ""
    )
    if np.isnan(low) or np.isnan(high):
        return f"{text}<br>no interval"
    plug_in = "" if center == value else f"; plug-in {value:{sign}.{words.digits}f} {unit}".rstrip()
    return f"{text}<br>95%: {formats.interval(low, high, words.digits)}{plug_in}"
