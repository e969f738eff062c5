"""The smallest useful region: a metric against region size, one line per localizer (paper, Fig. 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.localizers.table import OUTCOME_SIZED
from skillviz.core.metrics import metric_row
from skillviz.plots.figure import blank, canvas, center_axis, centers, error_bars, ordered, padded, require, span
from skillviz.plots.references import add_references, name_ends, named_heights, near_levels, spans
from skillviz.plots.theme import GROUND, LOCALIZERS, SOFT_INK, Style, localizer_style

COLUMNS = ("localizer", "settings", "size", "share", "value", "low", "high", "seeds", "over")
SIZE_TITLE = "region size, % of graftable parameters"
WORDS_WIDTH = 0.3  # width of the words beside the vertical line as a share of the plot's width on a phone
DODGE = 0.02  # decades between neighboring localizers, so that their intervals do not overlap


def metric_by_size(
    points: pd.DataFrame,
    metric: str = "accuracy",
    *,
    references: Mapping[str, float] | None = None,
    per_run: Collection[str] = OUTCOME_SIZED,
    styles: Mapping[str, Style] | None = None,
    direct: bool = False,
    crossing: tuple[float, str] | None = None,
    room: pd.DataFrame | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """The metric against region size on a log axis, one line per localizer, intervals as bars.

    `points` are from `analysis.size_curve`. `references` draws level lines with direct labels, values as in the frame
    (0..1); keys `finetuned`, `pretrained`, `temperature`, `chance`, `majority`, or any words. Localizers in `per_run`
    are shown as marks without a line. Neighboring lines are set 0.02 decades apart; the hover has the true size.
    `styles` are for names in the column `localizer` that are not localizers, such as runs. With `direct` each line is
    named at the right side and there is no legend. `crossing` marks a share (0..1) with a vertical line and these
    words. The axes have room for all points of `room`, so they do not change while more points are drawn.
    """
    require(points, COLUMNS, "points")
    words = metric_row(metric)
    if points.empty:
        return blank(f"No run has {words.title} by region size yet.", theme, height or 360, SIZE_TITLE, words.axis)
    rank = {name: place for place, name in enumerate(ordered(points["localizer"], LOCALIZERS))}
    ranked = points.assign(rank=points["localizer"].map(rank)).sort_values(["rank", "settings", "size"])
    groups: dict[tuple[str, str], pd.DataFrame] = {
        (str(name), str(settings)): rows
        for (name, settings), rows in ranked.groupby(["localizer", "settings"], sort=False)
    }
    figure = canvas(theme, height or 360 + 12 * len(groups), SIZE_TITLE, center_axis(words.axis, points))
    lines = [(name, settings) for name, settings in groups if name not in per_run]
    for (name, settings), of_series in groups.items():
        is_line = name not in per_run
        shift = (lines.index((name, settings)) - (len(lines) - 1) / 2) * DODGE if is_line else 0.0
        style = (styles or {}).get(str(name)) or localizer_style(str(name), str(settings))
        figure.add_trace(_line(of_series, style, metric, shift, not is_line))
    levels = dict(references or {})
    _axes(figure, points if room is None else room, levels, metric)
    (name_ends if direct else add_references)(figure, levels, words, theme)
    if crossing:
        _mark(figure, *crossing, theme)
    return figure


def _mark(figure: go.Figure, share: float, words: str, theme: str) -> None:
    """Add a vertical line at a share of the parameters, with words beside it as far as possible from all else."""
    figure.add_vline(x=100 * share, line={"color": SOFT_INK[theme], "width": 1.5, "dash": "4px,3px"}, layer="below")
    x, (left, right) = float(np.log10(100 * share)), figure.layout.xaxis.range
    side, shift = ("left", 4) if x < (left + right) / 2 else ("right", -4)
    other = x + (1 if side == "left" else -1) * WORDS_WIDTH * (right - left)
    y = _free_height(figure, min(x, other), max(x, other))
    figure.add_annotation(
        name="crossing", text=words, x=x, y=y, xanchor=side, yanchor="middle", xshift=shift,
        showarrow=False, font={"size": 11, "color": SOFT_INK[theme]}, align=side, bgcolor=GROUND[theme],
    )  # fmt: skip


def _free_height(figure: go.Figure, left: float, right: float) -> float:
    """Return the middle of the widest gap between lines, intervals and levels, from left to right on the log axis."""
    bottom, top = figure.layout.yaxis.range
    taken = [(shape.y0, shape.y0) for shape in figure.layout.shapes if shape.y0 == shape.y1] + named_heights(figure)
    taken += [ends for trace in figure.data if (ends := spans(trace, left, right)) is not None]
    best, reached = (0.0, bottom), bottom
    for low, high in [*sorted(taken), (top, top)]:
        best = max(best, (min(low, top) - reached, reached))
        reached = max(reached, high)
    return best[1] + best[0] / 2


def _line(points: pd.DataFrame, style: Style, metric: str, shift: float, alone: bool) -> go.Scatter:
    words = metric_row(metric)
    value, low, high = centers(points, words.scale), *(points[c].to_numpy(float) * words.scale for c in ("low", "high"))
    return go.Scatter(
        x=points["share"].to_numpy(float) * 100 * 10**shift,
        y=value,
        name=style.title,
        mode="markers" if alone else "lines+markers",
        line=style.line(),
        marker=style.marker(9 if alone else 8),
        error_y=error_bars(value, low, high, 1.5, 3),
        hovertext=[
            f"{words.hover(row, over=row['over'])}<br>"
            f"{row['size']:,} entries = {formats.share(row['share'])}<br>{formats.counted(row['seeds'], 'seed')}"
            for row in points.to_dict("records")
        ],
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def _axes(figure: go.Figure, points: pd.DataFrame, levels: Mapping[str, float], metric: str) -> None:
    """Set a log axis with round ticks; the metric's range with a margin, within 0 to 100%, without levels far below."""
    share = np.log10(points["share"].to_numpy(float) * 100)
    air = max(0.15, 0.35 - float(np.ptp(share)) / 2)
    left, right = float(share.min()) - air, float(share.max()) + air
    ticks = _round_ticks(left, right)
    figure.update_xaxes(type="log", range=[left, right], tickvals=ticks, ticktext=[f"{t:.10g}" for t in ticks])
    words = metric_row(metric)
    values = points[["value", "low", "high"]].to_numpy(float).ravel()
    values = np.append(values, list(near_levels(levels, values).values())) * words.scale
    (low, high), ends = span(values), padded(values)
    # a share of a gain may be outside 0 to 100%
    floor = 0.0 if low >= 0 else -np.inf
    ceiling = 100.0 if words.unit == "%" and high <= 100 else np.inf
    figure.update_yaxes(range=[max(floor, ends[0]), min(ceiling, ends[1])])


def _round_ticks(left: float, right: float) -> list[float]:
    """Whole decades between the ends (log10); with 2 and 5, or all digits, if there are fewer than two decades."""
    decades, ticks = range(int(np.floor(left)), int(np.ceil(right)) + 1), [0.0]
    for digits in ((1,), (1, 2, 5), range(1, 10)):
        ticks = [float(f"{d}e{t}") for t in decades for d in digits if left <= np.log10(float(f"{d}e{t}")) <= right]
        if len(ticks) > 1:
            break
    return ticks
