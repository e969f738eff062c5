"""Confidence and correctness: histograms and reliability diagrams (paper, Fig. 6 and Eq. 6), one panel per model.

Functions of bins take the frame of `core.calibration.reliability` with an added column `state`, one block of rows per
state: state, bin, lower, upper, count, confidence, accuracy, low, high. Edges, confidence, accuracy and its
Wilson interval are 0..1; empty bins have count 0 and NaN. States are the keys of `theme.STATES`; `temperature` is the
fine-tuned model with its temperature fitted on validation data.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from textwrap import wrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.core import formats
from skillviz.plots.figure import blank, canvas, error_bars, interval_band, ordered, require
from skillviz.plots.theme import INK, SOFT_INK, STATES, Style, check_theme, state_style, template

COLUMNS = ("state", "bin", "lower", "upper", "count", "confidence", "accuracy", "low", "high")
SMOOTH_COLUMNS = ("state", "confidence", "accuracy", "low", "high", "n")
RISK_COLUMNS = ("state", "coverage", "risk", "low", "high")
SCOPE_COLUMNS = ("state", "scope", "lower", "upper", "count")
CONFIDENCE = "confidence, %"
NOTHING = "No predictions to bin yet."
PANEL_COLUMNS = 3  # at most, so that axis titles fit on a phone
PANEL_HEIGHT = 296
RISK_HEIGHT = 340
TITLE_LETTERS = 14  # letters per line, on a phone
TITLE_LINES, LINE = 3, 16  # lines of a title in PANEL_HEIGHT, and the pixels of a further one
ABOVE, COUNT_TALL = 102, 28  # start of the counts on the axis of accuracies, and the room for a count of five digits
COUNT_PIXELS = 30  # pixels that the counts add to a panel
LEAST_COUNT = 8  # font size in pixels; if a bin is too narrow for it, as on a phone, the counts are left out

Panels = list[tuple[str, pd.DataFrame]]


def confidence_histogram(
    bins: pd.DataFrame, *, least: float | None = None, theme: str = "light", height: int | None = None
) -> go.Figure:
    """Share of examples by confidence, filled bars, one panel per state; the wrong part is hatched, from the axis up.

    The wrong part needs the column `accuracy`; bins where it is NaN have none. `least`: a vertical line is drawn at
    this confidence, 0..1.
    """
    panels = _panels(bins)
    if not panels:
        return blank(NOTHING, check_theme(theme), height or PANEL_HEIGHT, CONFIDENCE, "share of examples, %")
    titles = []
    for name, rows in panels:
        wrong = (rows["count"] * (1 - rows["accuracy"])).round()  # whole examples, because shares are rounded numbers
        known = wrong.notna().any()
        share = formats.percent(float(wrong.sum()) / float(rows["count"].sum())) if known else ""
        under = f"{share} wrong<br>(hatched)" if known else ""
        titles.append(_title(state_style(name), under))
    figure = _grid(titles, "share of examples, %", _first_edge(panels), theme, height)
    for place, (name, rows) in enumerate(panels):
        for trace in _parts(state_style(name), rows):
            figure.add_trace(trace, **_cell(place, len(panels)))
    if least is not None:
        figure.add_vline(x=100 * least, line={"color": SOFT_INK[theme], "width": 1.5})
    figure.update_yaxes(rangemode="tozero")
    return figure


def reliability_diagram(
    bins: pd.DataFrame,
    *,
    styles: Mapping[str, Style] = STATES,
    errors: Mapping[str, str] | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """Accuracy of each bin as a bar with its Wilson interval and its count, one panel per state.

    A hatched bar from accuracy to mean confidence is the gap that ECE averages. The panel's title has the ECE as text
    from `errors` for the state, else the plug-in value. `styles` is needed if the column `state` has other names, such
    as runs.
    """
    panels = _panels(bins)
    if not panels:
        return blank(NOTHING, check_theme(theme), height or PANEL_HEIGHT, CONFIDENCE, "accuracy, %")
    looks = [styles.get(name) or state_style(name) for name, _ in panels]
    gaps = [float(((r["accuracy"] - r["confidence"]).abs() * r["count"]).sum() / r["count"].sum()) for _, r in panels]
    known = errors or {}
    words = [known.get(name) or formats.percent(gap) for (name, _), gap in zip(panels, gaps, strict=True)]
    titles = [_title(style, f"ECE {error}<br>hatched: gap") for style, error in zip(looks, words, strict=True)]
    start = _first_edge(panels)
    rows_of_panels, _ = _shape(len(panels))
    figure = _grid(titles, "accuracy, %", start, theme, height or (PANEL_HEIGHT + COUNT_PIXELS) * rows_of_panels)
    for place, (style, (_, rows)) in enumerate(zip(looks, panels, strict=True)):
        filled = rows[rows["count"] > 0]
        figure.add_trace(_gaps(style, filled), **_cell(place, len(panels)))
        figure.add_trace(_accuracies(style, filled), **_cell(place, len(panels)))
        figure.add_trace(_counts(style, filled, theme), **_cell(place, len(panels)))
        figure.add_trace(_diagonal(start, theme), **_cell(place, len(panels)))
    figure.update_yaxes(range=[0, ABOVE + COUNT_TALL], tickvals=list(range(0, 101, 20)))
    figure.update_layout(uniformtext={"minsize": LEAST_COUNT, "mode": "hide"})
    return figure


def smooth_reliability(
    curves: pd.DataFrame, titles: Mapping[str, str], *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """Accuracy against confidence, both averaged under a kernel, with a 95% band, one panel per state.

    `curves` has state, confidence, accuracy, low, high (0..1) and n, the effective number of examples; `titles` are the
    words under each state's name.
    """
    require(curves, SMOOTH_COLUMNS, "smoothed reliability")
    names = ordered(curves["state"], STATES)
    if not names:
        return blank(NOTHING, check_theme(theme), height or PANEL_HEIGHT, CONFIDENCE, "accuracy, %")
    start = 100 * float(curves["confidence"].min())
    figure = _grid(
        [_title(state_style(name), titles.get(name, "")) for name in names], "accuracy, %", start, theme, height
    )
    for place, name in enumerate(names):
        rows = curves[curves["state"] == name]
        words = [f"{hover}<br>about {n:,.0f} examples near" for hover, n in zip(_hover(rows), rows["n"], strict=True)]
        for trace in (*_curve(state_style(name), rows, "confidence", "accuracy", words), _diagonal(start, theme)):
            figure.add_trace(trace, **_cell(place, len(names)))
    figure.update_yaxes(range=[0, ABOVE], tickvals=list(range(0, 101, 20)))
    return figure


def risk_coverage(
    curves: pd.DataFrame, titles: Mapping[str, str], *, theme: str = "light", height: int = RISK_HEIGHT
) -> go.Figure:
    """The share of wrong answers among the most confident examples, by the share answered; a line with band per state.

    `curves` has state, coverage, risk, low and high (0..1); `titles` are the states' names in the legend. The axis has
    room for all lines, and for bands from a fifth of the examples on: those of a few examples reach anywhere.
    """
    require(curves, RISK_COLUMNS, "risk and coverage")
    names, axes = ordered(curves["state"], STATES), ("examples answered (coverage), %", "wrong among them (risk), %")
    if not names:
        return blank(NOTHING, check_theme(theme), height, *axes)
    figure = canvas(theme, height, *axes)
    for name in names:
        rows = curves[curves["state"] == name]
        words = [
            f"risk {100 * risk:.1f}% (95%: {formats.percent_interval(low, high)})<br>coverage {100 * share:.0f}%"
            for share, risk, low, high in rows[["coverage", "risk", "low", "high"]].itertuples(index=False)
        ]
        figure.add_traces(_curve(state_style(name), rows, "coverage", "risk", words, titles.get(name, "")))
    top = max(curves["risk"].max(), curves.loc[curves["coverage"] >= 0.2, "high"].max())
    figure.update_xaxes(range=[0, 101])
    figure.update_yaxes(range=[0, 100 * top + 1])
    return figure


def scope_histogram(
    counts: pd.DataFrame, titles: Mapping[str, str], *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """Share of examples by confidence in two kinds, one panel per state: filled bars for `test`, hatched for the other.

    `counts` has state, scope, lower, upper (0..1) and count; `titles` are the words under each state's name.
    """
    require(counts, SCOPE_COLUMNS, "confidences in and out of scope")
    names = ordered(counts.loc[counts["count"] > 0, "state"], STATES)
    if not names:
        return blank(NOTHING, check_theme(theme), height or PANEL_HEIGHT, CONFIDENCE, "share of examples, %")
    start = 100 * float(counts.loc[counts["count"] > 0, "lower"].min())
    heads = [_title(state_style(name), titles.get(name, "")) for name in names]
    figure = _grid(heads, "share of its kind, %", start, theme, height)
    for place, name in enumerate(names):
        style = state_style(name)
        by_scope = counts[counts["state"] == name].groupby("scope")
        for scope, rows in sorted(by_scope, key=lambda group: group[0] != "test"):
            middle, width = _edges(rows)
            total = max(float(rows["count"].sum()), 1.0)
            kind = "test" if scope == "test" else "out of scope"
            hover = [
                f"{count:,} of {total:,.0f} ({100 * count / total:.1f}%), {kind}<br>"
                f"confidence above {100 * a:.1f} to {100 * b:.1f}%"
                for count, a, b in zip(rows["count"], rows["lower"], rows["upper"], strict=True)
            ]
            bar = go.Bar(
                x=middle, y=100 * rows["count"].to_numpy(float) / total, width=width, name=f"{style.title}: {kind}",
                marker=_filled(style) if scope == "test" else _hatched(style), hovertext=hover,
                hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
            )  # fmt: skip
            figure.add_trace(bar, **_cell(place, len(names)))
    figure.update_yaxes(rangemode="tozero")
    return figure


def _panels(bins: pd.DataFrame) -> Panels:
    """Return the frame's states in table order, each with its rows from low to high confidence."""
    require(bins, COLUMNS, "reliability bins")
    names = ordered(bins.loc[bins["count"] > 0, "state"], STATES)
    return [(name, bins[bins["state"] == name].sort_values("lower")) for name in names]


def _first_edge(panels: Panels) -> float:
    """Return the lower edge of the lowest bin that is not empty in any state, in percent."""
    return 100 * min(float(rows.loc[rows["count"] > 0, "lower"].min()) for _, rows in panels)


def _title(style: Style, under: str) -> str:
    """Return the panel's title, in lines that are narrow enough for three panels on a phone."""
    lines = [style.title, *under.split("<br>")]
    return "<br>".join(part for line in lines for part in wrap(line, TITLE_LETTERS, break_long_words=False))


def _grid(titles: list[str], y: str, start: float, theme: str, height: int | None) -> go.Figure:
    """Return empty panels with these titles, in rows of equal length, all with the same axes."""
    rows, columns = _shape(len(titles))
    lines = max(title.count("<br>") + 1 for title in titles)
    tall = (height or PANEL_HEIGHT * rows) + LINE * max(0, lines - TITLE_LINES)
    apart, small = (0.06, {"title_font_size": 11}) if columns == PANEL_COLUMNS else (0.04, {})  # fits a phone
    figure = make_subplots(
        rows=rows, cols=columns, shared_yaxes="all", subplot_titles=titles, horizontal_spacing=apart,
        vertical_spacing=min(124 / tall, 0.8 / rows),
    )  # fmt: skip
    figure.update_annotations(font={"size": 12}, yshift=2)
    figure.update_layout(
        template=template(theme), height=tall, margin_t=12 + LINE * lines, showlegend=False, barmode="overlay", bargap=0
    )
    figure.update_xaxes(range=[start - 1, 101], title_text=CONFIDENCE, nticks=5, **small)
    figure.update_yaxes(title_text=y, col=1)
    return figure


def _shape(panels: int) -> tuple[int, int]:
    """Return the numbers of rows and columns."""
    rows = ceil(panels / PANEL_COLUMNS)
    return rows, ceil(panels / rows)


def _cell(place: int, panels: int) -> dict[str, int]:
    _, columns = _shape(panels)
    return {"row": place // columns + 1, "col": place % columns + 1}


def _hatched(style: Style) -> dict:
    """Return the `marker` of hatched bars, which differ from filled ones by their lines, not by their color."""
    pattern = {"shape": "/", "fgcolor": style.color, "bgcolor": "rgba(0,0,0,0)", "size": 6, "solidity": 0.45}
    return {"color": style.color, "pattern": pattern, "line": {"color": style.color, "width": 1}}


def _filled(style: Style) -> dict:
    return {"color": style.faint(0.28), "line": {"color": style.color, "width": 1}}


def _edges(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return middle and width of each bin, in percent."""
    lower, upper = rows["lower"].to_numpy(float) * 100, rows["upper"].to_numpy(float) * 100
    return (lower + upper) / 2, upper - lower


def _parts(style: Style, rows: pd.DataFrame) -> list[go.Bar]:
    """Return bars of all examples of each bin, and on top bars of the wrong ones."""
    counts, total = rows["count"].to_numpy(float), float(rows["count"].sum())
    wrong = np.nan_to_num(counts * (1 - rows["accuracy"].to_numpy(float)))
    middle, width = _edges(rows)
    is_known = bool(rows["accuracy"].notna().any())
    hover = [
        f"{count:,.0f} of {total:,.0f} examples ({100 * count / total:.1f}%)"
        + (f"<br>{bad:,.0f} of them wrong" if is_known else "")
        + f"<br>confidence above {100 * a:.1f} to {100 * b:.1f}%"
        for count, bad, a, b in zip(counts, wrong, rows["lower"], rows["upper"], strict=True)
    ]
    words = {"hovertext": hover, "hovertemplate": f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>"}
    every = go.Bar(x=middle, y=100 * counts / total, width=width, name=style.title, marker=_filled(style), **words)
    if not is_known:
        return [every]
    name = f"{style.title}: wrong"
    return [every, go.Bar(x=middle, y=100 * wrong / total, width=width, name=name, marker=_hatched(style), **words)]


def _gaps(style: Style, rows: pd.DataFrame) -> go.Bar:
    """Return bars from accuracy to mean confidence."""
    confidence, accuracy = rows["confidence"].to_numpy(float) * 100, rows["accuracy"].to_numpy(float) * 100
    middle, width = _edges(rows)
    return go.Bar(
        x=middle, y=confidence - accuracy, base=accuracy, width=width, name=f"{style.title}: gap",
        marker=_hatched(style), hoverinfo="skip",
    )  # fmt: skip


def _accuracies(style: Style, rows: pd.DataFrame) -> go.Bar:
    accuracy, low, high = (rows[c].to_numpy(float) * 100 for c in ("accuracy", "low", "high"))
    hover = [f"{words}<br>n = {int(n):,}" for words, n in zip(_hover(rows), rows["count"], strict=True)]
    middle, width = _edges(rows)
    return go.Bar(
        x=middle, y=accuracy, width=width, name=style.title, marker=_filled(style),
        error_y={**error_bars(accuracy, low, high, 1.5, 3), "color": style.color},
        hovertext=hover, hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )  # fmt: skip


def _hover(rows: pd.DataFrame) -> list[str]:
    """Return each row's accuracy with its interval, its confidence, and the gap between them."""
    accuracy, confidence, low, high = (rows[c].to_numpy(float) * 100 for c in ("accuracy", "confidence", "low", "high"))
    return [
        f"accuracy {a:.1f}% (95%: {formats.interval(lo, hi, 1)})<br>confidence {c:.1f}%<br>"
        f"{abs(a - c):.1f} points {'under' if a > c else 'over'}-confident"
        for a, lo, hi, c in zip(accuracy, low, high, confidence, strict=True)
    ]


def _curve(style: Style, rows: pd.DataFrame, x: str, y: str, hover: list[str], name: str = "") -> list[go.Scatter]:
    """Return the line of a column over another, both shares, and under it the band of its intervals."""
    at, value, low, high = (rows[column].to_numpy(float) * 100 for column in (x, y, "low", "high"))
    line = go.Scatter(
        x=at, y=value, mode="lines", name=name or style.title, line=style.line(), hovertext=hover,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )  # fmt: skip
    return [interval_band(style, at, low, high), line]


def _diagonal(start: float, theme: str) -> go.Scatter:
    """Return the line where accuracy equals confidence, from `start` percent."""
    line = {"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}
    return go.Scatter(
        x=[start, 100], y=[start, 100], mode="lines", line=line, name="accuracy = confidence", hoverinfo="skip"
    )


def _counts(style: Style, rows: pd.DataFrame, theme: str) -> go.Bar:
    """Each bin's number of examples, written upward above all bars and intervals; the bar itself is invisible."""
    middle, width = _edges(rows)
    return go.Bar(
        x=middle, y=[COUNT_TALL] * len(rows), base=ABOVE, width=width, name=f"{style.title}: examples",
        hoverinfo="skip", marker={"color": "rgba(0,0,0,0)", "line": {"width": 0}},
        text=[f"{int(n):,}" for n in rows["count"]], textposition="inside", insidetextanchor="start", textangle=-90,
        constraintext="inside", textfont={"size": 10, "color": INK[theme]},
    )  # fmt: skip
