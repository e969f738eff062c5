"""Along the path from one model to another: a metric, and the histogram of confidence at the chosen point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.core.metrics import Metric, metric_row
from skillviz.plots.figure import blank, center_axis, centers, interval_band, ordered, require, span
from skillviz.plots.interpolation import COLUMNS, NOTHING, PATHS, datasets_of, numbers, on, path_style
from skillviz.plots.references import legend_level, near_levels, reference_style
from skillviz.plots.theme import SOFT_INK, template

WAY = "mixing weight α, %"
CONFIDENCE = "confidence, %"
BINS = ("path", "dataset", "bin", "lower", "upper", "count", "correct")
PANEL = 230  # pixels of one data set's panel
TOP = 60


def along_paths(
    points: pd.DataFrame,
    datasets: Sequence[str] = (),
    metric: str = "accuracy",
    *,
    references: Mapping[str, float] | None = None,
    room: pd.DataFrame | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One panel per data set: the metric against alpha in percent, one line per path with its interval as a band.

    `points` as in plots.interpolation; a vertical line is drawn at the chosen alpha. `references`: levels, 0..1; one
    far below the curves is only named. The y axes have room for all points of `room`, so they do not change while more
    points are drawn.
    """
    require(points, COLUMNS, "points")
    rows = points[points["metric"] == metric]
    chosen, rows = rows[rows["current"].astype(bool)], rows[~rows["current"].astype(bool)]
    shown = datasets_of(rows, datasets or sorted(set(rows["dataset"])))
    tall = height or TOP + PANEL * max(len(shown), 1)
    if not shown:
        return blank(NOTHING, theme, tall, WAY, metric_row(metric).axis)
    figure = _panels(len(shown), theme, tall)
    spanned = pd.concat([rows if room is None else room[room["metric"] == metric], chosen])
    for number, dataset in enumerate(shown, start=1):
        here = rows[rows["dataset"] == dataset]
        for path in ordered(here["path"], PATHS):
            on_path = here[here["path"] == path].drop_duplicates("alpha").sort_values("alpha")
            figure.add_traces(_band(path, on_path, on(metric, dataset), number == 1), rows=number, cols=1)
            figure.add_trace(_ring(path, chosen[chosen["dataset"] == dataset], on(metric, dataset)), row=number, col=1)
        title = center_axis(on(metric, dataset).axis, here)
        figure.update_yaxes(title_text=title.replace(" on ", " on<br>", 1), row=number, col=1)  # fits a low panel
        if room is not None:
            low, high = span(_values(spanned, [dataset]) * metric_row(metric).scale)
            air = 0.06 * (high - low) or 1.0
            figure.update_yaxes(range=[low - air, high + air], row=number, col=1)
    for alpha in sorted(set(chosen["alpha"])):
        figure.add_vline(x=100 * alpha, line={"color": SOFT_INK[theme], "width": 1.5}, layer="below")
    near = near_levels(references or {}, _values(spanned, shown))
    for name, value in (references or {}).items():
        words, is_near = metric_row(metric), name in near
        figure.add_trace(legend_level(name, value, words, theme, "" if is_near else "down"), row=1, col=1)
        if is_near:
            style = reference_style(name, theme)
            line = {"color": style.color, "dash": style.dash, "width": 1.5}
            figure.add_hline(y=value * words.scale, line=line, layer="below")
    figure.update_xaxes(title_text=WAY, row=len(shown), col=1)
    lowest, farthest = 100 * min([0.0, *chosen["alpha"]]), 100 * max([1.0, *chosen["alpha"]])
    air = 0.03 * (farthest - lowest)
    figure.update_xaxes(range=[lowest - air, farthest + air])
    return figure


def confidence_at(
    bins: pd.DataFrame, datasets: Sequence[str] = (), *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """One panel per data set: share of examples by confidence at the chosen point, an outline per path.

    The filled part under each outline is the wrongly predicted examples. `bins`: path, dataset, bin, lower, upper
    (0..1), count, correct.
    """
    require(bins, BINS, "histogram")
    shown = datasets_of(bins[bins["count"] > 0], datasets or sorted(set(bins["dataset"])))
    tall = height or TOP + PANEL * max(len(shown), 1)
    y = "share of examples, %"
    if not shown:
        return blank("No histogram is stored for this point.", theme, tall, CONFIDENCE, y)
    figure = _panels(len(shown), theme, tall)
    for number, dataset in enumerate(shown, start=1):
        for path in ordered(bins.loc[bins["dataset"] == dataset, "path"], PATHS):
            on_path = bins[(bins["path"] == path) & (bins["dataset"] == dataset)].sort_values("bin")
            figure.add_traces(_outline(path, on_path, number == 1), rows=number, cols=1)
        figure.update_yaxes(title_text=f"share of<br>{dataset}, %", rangemode="tozero", row=number, col=1)
    figure.update_xaxes(title_text=CONFIDENCE, row=len(shown), col=1)
    filled = bins[bins["count"] > 0]
    figure.update_xaxes(range=[100 * float(filled["lower"].min()) - 1, 101])
    return figure


def _values(rows: pd.DataFrame, datasets: Sequence[str]) -> np.ndarray:
    """Return all values as they are drawn, and ends of intervals, on these data sets."""
    shown = rows[rows["dataset"].isin(datasets)]
    return np.concatenate([centers(shown, 1.0), shown[["low", "high"]].to_numpy(float).ravel()])


def _panels(count: int, theme: str, tall: int) -> go.Figure:
    """Return stacked panels that share their x axis."""
    gap = min(26 / tall, 0.8 / count)
    figure = make_subplots(rows=count, cols=1, shared_xaxes=True, vertical_spacing=gap)
    figure.update_layout(template=template(theme), height=tall)
    return figure


def _band(path: str, rows: pd.DataFrame, words: Metric, is_first: bool) -> list[go.Scatter]:
    """Return a path's line over its interval; only marks if only the ends are known."""
    style, at = path_style(path), 100 * rows["alpha"].to_numpy(float)
    low, high = (numbers(rows, name, words.scale) for name in ("low", "high"))
    hover = [f"{words.hover(row)}<br>alpha {row['alpha']:.2f}" for row in rows.to_dict("records")]
    band = interval_band(style, at, low, high, legendgroup=path)
    line = go.Scatter(
        x=at,
        y=centers(rows, words.scale),
        mode="lines+markers" if len(rows) > 2 else "markers",
        name=style.title,
        legendgroup=path,
        showlegend=is_first,
        line=style.line(),
        marker=style.marker(6),
        hovertext=hover,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )
    return [band, line] if len(rows) > 2 else [line]


def _ring(path: str, chosen: pd.DataFrame, words: Metric) -> go.Scatter:
    """Return the chosen point: a ring with its interval."""
    style, rows = path_style(path), chosen[chosen["path"] == path]
    value, low, high = centers(rows, words.scale), *(numbers(rows, name, words.scale) for name in ("low", "high"))
    marker = replace(style, symbol=f"{style.symbol}-open").marker(16)
    ends = {"array": high - value, "arrayminus": value - low}
    return go.Scatter(
        x=100 * rows["alpha"].to_numpy(float),
        y=value,
        mode="markers",
        name=f"{style.title}, chosen point",
        legendgroup=path,
        showlegend=False,
        marker={**marker, "line": {**marker["line"], "width": 2.5}},
        error_y={"type": "data", "symmetric": False, **ends, "thickness": 1.2, "width": 3},
        hoverinfo="skip",
    )


def _outline(path: str, rows: pd.DataFrame, is_first: bool) -> list[go.Scatter]:
    """Return all examples as a step outline with a mark in every bin, the wrong ones as the filled part under it."""
    style, total = path_style(path), max(int(rows["count"].sum()), 1)
    lower, upper = numbers(rows, "lower", 100), numbers(rows, "upper", 100)
    every = rows["count"].to_numpy(float) * 100 / total
    wrong = (rows["count"] - rows["correct"]).to_numpy(float) * 100 / total
    hover = [
        f"{count:,} of {total:,} examples ({share:.1f}%)<br>{count - correct:,} of them wrong<br>"
        f"confidence above {a:.1f} to {b:.1f}%"
        for count, correct, share, a, b in zip(rows["count"], rows["correct"], every, lower, upper, strict=True)
    ]
    outline = go.Scatter(
        x=[lower[0], *np.column_stack([lower, (lower + upper) / 2, upper]).ravel(), upper[-1]],
        y=[0, *np.repeat(every, 3), 0],
        mode="lines+markers",
        name=style.title,
        legendgroup=path,
        showlegend=is_first,
        line=style.line(),
        marker={**style.marker(), "size": [0, *([0, 7, 0] * len(rows)), 0], "opacity": 1},
        hovertext=["", *np.repeat(hover, 3), ""],
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )
    part = go.Scatter(
        x=[lower[0], *np.column_stack([lower, upper]).ravel(), upper[-1]],
        y=[0, *np.repeat(wrong, 2), 0],
        mode="lines",
        fill="tozeroy",
        fillcolor=style.faint(0.3),
        line={"color": style.color, "width": 0.5, "dash": style.dash},
        name=f"{style.title}: wrong",
        legendgroup=path,
        showlegend=is_first,
        hoverinfo="skip",
    )
    return [part, outline]
