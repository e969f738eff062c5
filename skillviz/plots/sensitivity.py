"""The sensitivity of a search to its constants: one mark per setting.

The paper's appendix varies the mask's learning rate and bias. The learned mask, whose size is an outcome, is placed by
its learning rate, one line per choice of steps and bias; searches of a given size are placed beside it, one mark per
choice of steps and batch.
"""

from __future__ import annotations

from math import log10

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.metrics import Metric, metric_row
from skillviz.plots.figure import blank, canvas, center_axis, centers, error_bars, log_ticks, ordered, require
from skillviz.plots.theme import LOCALIZERS, SOFT_INK, Style, localizer_style

SETTINGS = ("localizer", "lr", "steps", "bias", "batch_size", "metric", "value", "low", "high")
SIZE = "size"
REACHED = "size reached, % (log scale)"
PLACES = "learning rate, or search told its size"
NOTHING = "No setting of a search has been tried here."
PLOT, LEGEND = 300, 19  # pixels of the plot, and of a series in the legend of a narrow page
WIDTH = 0.7  # share of the room between two places for marks side by side

FREE = ("#0085AD", "#C8143F", "#7A7D00", "#8B3FD9")  # by bias
SIZED = ("#1D5FD1", "#A14500", "#7D5F3A", "#D6247F")  # by batch
FREE_MARKS = (("circle", "solid"), ("diamond", "dash"), ("square", "dot"), ("triangle-up", "dashdot"))  # by steps
SIZED_MARKS = ("x", "star", "cross", "triangle-down")
FILLS = ("", "-open", "-dot", "-open-dot")  # of the marks, by bias or batch: they distinguish series without color


def by_setting(
    settings: pd.DataFrame, metric: str = SIZE, *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """One mark with its ends per setting: the size reached, as a share of d on a log axis, or a metric.

    `settings`: localizer, lr and bias (NaN for a search of a given size), steps, batch_size, metric (`size` or a
    metric's name), value, low, high and, for a calibration error, debiased; one row per setting and metric. Sizes are
    shares 0..1.
    """
    require(settings, SETTINGS, "settings")
    words = Metric(SIZE, "size", digits=3) if metric == SIZE else metric_row(metric)
    shown = settings[(settings["metric"] == metric) & settings["value"].notna()]
    title = REACHED if metric == SIZE else center_axis(words.axis, shown)
    if metric == SIZE:
        shown = shown[shown["value"] > 0]
    series = _series(shown)
    tall = height or PLOT + LEGEND * len(series)
    if not series:
        return blank(NOTHING, theme, tall, PLACES, title)
    figure = canvas(theme, tall, PLACES, title)
    places = _places(shown)
    for style, rows, aside in series:
        figure.add_trace(_marks(style, rows, places, aside, words))
    figure.update_xaxes(
        tickmode="array", tickvals=list(range(len(places))), ticktext=list(places.values()),
        range=[-0.6, len(places) - 0.4],
    )  # fmt: skip
    free = sum(isinstance(key, float) for key in places)
    if 0 < free < len(places):
        figure.add_vline(x=free - 0.5, line={"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}, layer="below")
    if metric == SIZE:
        ends = shown[["value", "low", "high"]].to_numpy(float)
        low, high = (float(np.log10(100 * end)) for end in (ends[ends > 0].min(), np.nanmax(ends)))
        air = max(0.06 * (high - low), 0.12)
        figure.update_yaxes(type="log", range=[low - air, high + air], **log_ticks(low, high))
    return figure


def _places(rows: pd.DataFrame) -> dict[float | str, str]:
    """Return the tick labels by a row's rate or, without one, its localizer: rates first."""
    rates = sorted(set(rows["lr"].dropna()))
    others = ordered(rows.loc[rows["lr"].isna(), "localizer"].astype(str), LOCALIZERS)
    titles = {name: localizer_style(name).title.replace(" ", "<br>") for name in others}
    return {float(rate): _power(rate) for rate in rates} | titles


def _power(rate: float) -> str:
    """`10⁷` as a tick can show it; other numbers unchanged."""
    power = round(log10(rate))
    return f"10<sup>{power}</sup>" if np.isclose(rate, 10.0**power) else f"{rate:,.3g}"


def _series(rows: pd.DataFrame) -> list[tuple[Style, pd.DataFrame, float]]:
    """Return the series of one style each, and their offset from the tick.

    A learned mask has a series per steps and bias, other searches per steps and batch.
    """
    series = []
    for half, other, words, colors in (
        (rows[rows["lr"].notna()], "bias", "bias", FREE),
        (rows[rows["lr"].isna()], "batch_size", "batch", SIZED),
    ):
        steps, values = sorted(set(half["steps"])), sorted(set(half[other].fillna(0.0)))
        parts = list(half.groupby([half[other].fillna(0.0), "steps"]))
        for number, ((value, step), part) in enumerate(parts):
            symbol, dash = FREE_MARKS[steps.index(step) % len(FREE_MARKS)]
            if colors is SIZED:
                symbol = SIZED_MARKS[steps.index(step) % len(SIZED_MARKS)]
            name = f"{step:g} steps, {words} {value:g}" if value else f"{step:g} steps"
            place = values.index(value)
            style = Style(name, colors[place % len(colors)], f"{symbol}{FILLS[place % len(FILLS)]}", dash)
            aside = 0.0 if len(parts) < 2 else WIDTH * (number / (len(parts) - 1) - 0.5)
            series.append((style, part.sort_values(["lr", "localizer"]), aside))
    return series


def _marks(style: Style, rows: pd.DataFrame, places: dict[float | str, str], aside: float, words: Metric) -> go.Scatter:
    keys = list(places)
    where = [float(r["lr"]) if r["lr"] == r["lr"] else str(r["localizer"]) for r in rows.to_dict("records")]
    value, low, high = centers(rows, words.scale), *(rows[c].to_numpy(float) * words.scale for c in ("low", "high"))
    hover = [_hover(style, row, words) for row in rows.astype({"low": float, "high": float}).to_dict("records")]
    is_line = len(rows) > 1 and bool(rows["lr"].notna().all())
    return go.Scatter(
        x=[keys.index(key) + aside for key in where],
        y=value,
        mode="lines+markers" if is_line else "markers",
        name=style.title,
        line=style.line(1.5),
        marker=style.marker(9),
        error_y=error_bars(value, low, high, 1.5, 3),
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip


def _hover(style: Style, row: dict, words: Metric) -> str:
    rate = f", rate {_power(row['lr'])}" if row["lr"] == row["lr"] else ""
    place = f"<b>{localizer_style(str(row['localizer'])).title}{rate}, {style.title}</b>"
    shown = formats.share if row["metric"] == SIZE else words.text
    what = "of the graftable parameters" if row["metric"] == SIZE else words.title
    value, _ = formats.read_first(row["value"], row.get("debiased"))
    return f"{place}<br>{shown(value)} {what}<br>{shown(row['low'])} to {shown(row['high'])}"
