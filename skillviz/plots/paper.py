"""Published values beside a study's own, and the comparisons by which a claim of the paper is judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.metrics import Metric, metric_row
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.cells import shown as shortened
from skillviz.plots.figure import blank, canvas, centers, error_bars, ordered, range_around_zero, require, value_range
from skillviz.plots.methods import STYLES, method_style
from skillviz.plots.theme import INK, SOFT_INK

COLUMNS = ("task", "method", "source", "value", "low", "high")
HERE, PUBLISHED = SOURCES = ("here", "published")
NOTHING = "There is no value of this metric."
LINE, HEAD, LEAST = 15, 110, 46  # pixels of a mark's line, of axes and legend, and of a task at least

CLAIM_COLUMNS = ("where", "value", "debiased", "low", "high", "says")
SAYS = {
    "supports": "circle", "contradicts": "x", "leaves open": "circle-open", NOT_MEASURED: "circle-open-dot",
    "mean here": "diamond", "mean in the paper": "diamond-open",
}  # fmt: skip
"""The results of a claim's comparisons, each with its marker."""
AXES = {"points": (100, "difference, points"), "percent": (100, "share, %"), "times": (1, "times the average")}
ROW, AROUND = 24, 110  # pixels of a comparison, and of axes and legend
LONGEST = 40  # characters of a row's name


def comparisons(
    rows: pd.DataFrame, unit: str, limits: Sequence[float], *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """One line per comparison of a claim with its interval, from the top, and a dotted line at each limit of the claim.

    `rows` are where, value, low, high (shares 0..1, or times), debiased (for calibration errors the value that the
    interval is about, else NaN) and says, one of SAYS; `unit` is one of AXES.
    """
    require(rows, CLAIM_COLUMNS, "rows")
    scale, title = AXES[unit]
    tall = height or AROUND + ROW * max(len(rows), 1)
    if rows.empty:
        return blank("The study has nothing to judge this claim by.", theme, tall, title, "comparison")
    figure = canvas(theme, tall, title, "comparison")
    places = pd.Series(-np.arange(len(rows), dtype=float), index=rows.index)
    line = {"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}
    for limit in limits:
        figure.add_vline(x=scale * limit, line=line, layer="below")
    for says, symbol in SAYS.items():
        side = rows[rows["says"] == says]
        if side.empty:
            continue
        value = centers(side, scale)
        low, high = (side[name].to_numpy(float) * scale for name in ("low", "high"))
        known = np.isfinite(low) & np.isfinite(high)
        figure.add_trace(
            go.Scatter(
                x=value, y=places[side.index], mode="markers", name=says, cliponaxis=False,
                marker={"color": INK[theme], "symbol": symbol, "size": 10, "line": {"color": INK[theme], "width": 1.5}},
                error_x=error_bars(value, low, high, 1.5, 3),
                hovertext=[
                    f"<b>{shortened(str(where), 80)}</b><br>{v:,.4g}" + (f" ({a:,.4g} to {b:,.4g})" if k else "")
                    for where, v, a, b, k in zip(side["where"], value, low, high, known, strict=True)
                ],
                hovertemplate=f"%{{hovertext}}<br>{says}<extra></extra>",
            )
        )  # fmt: skip
    figure.update_yaxes(
        range=[float(places.min()) - 0.6, 0.6], tickmode="array", tickvals=places.tolist(), showgrid=False,
        ticktext=[shortened(str(where), LONGEST) for where in rows["where"]],
    )  # fmt: skip
    ends = rows[["value", "low", "high"]].to_numpy(float).ravel() * scale
    about = scale * float(limits[0])
    figure.update_xaxes(showgrid=True, range=[about + end for end in range_around_zero(ends - about)])
    return figure


def beside(
    rows: pd.DataFrame,
    tasks: Sequence[str] = (),
    metric: str = "accuracy",
    *,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One band per task; in it one line per method and source, with its interval.

    `rows` are about one metric: task, method, source ("here" or "published"), value, low, high (shares 0..1), and for a
    calibration error `debiased`, drawn as a vertical stroke: the mark is the plug-in value, like the published ones,
    and the interval is about the debiased one. Intervals here are 95%, published ones a standard deviation to each
    side.
    """
    require(rows, COLUMNS, "rows")
    words = metric_row(metric)
    known = rows[rows["value"].notna()]
    shown = [t for t in tasks if t in set(known["task"])] if tasks else sorted(set(known["task"]))
    sides = [
        (method, source)
        for method in ordered(known["method"].astype(str), STYLES)
        for source in SOURCES
        if ((known["method"] == method) & (known["source"] == source)).any()
    ]
    tall = height or HEAD + 22 * ((len(sides) + 1) // 2) + len(shown) * max(LEAST, LINE * (len(sides) + 1))
    if not shown:
        return blank(NOTHING, theme, height or 300, words.axis, "task")
    figure = canvas(theme, tall, words.axis, "task")
    for number, (method, source) in enumerate(sides):
        offset = ((len(sides) - 1) / 2 - number) * 0.8 / len(sides)
        side = known[(known["method"] == method) & (known["source"] == source) & known["task"].isin(shown)]
        figure.add_trace(_marks(method, source, side, shown, offset, words))
        debiased = side[side["debiased"].notna()] if "debiased" in side else side[:0]
        if len(debiased):
            figure.add_trace(_strokes(method, debiased, shown, offset, words))
    _bands(figure, shown)
    ends = known.loc[known["task"].isin(shown), ["value", "low", "high"]].to_numpy(float).ravel()
    figure.update_xaxes(range=value_range(words.scale * ends, words))
    return figure


def _marks(
    method: str, source: str, rows: pd.DataFrame, shown: Sequence[str], offset: float, words: Metric
) -> go.Scatter:
    style = method_style(method)
    is_ours = source == HERE
    value, low, high = (rows[c].to_numpy(float) * words.scale for c in ("value", "low", "high"))
    symbol = style.symbol if is_ours else f"{style.symbol.removesuffix('-open')}-open"
    marker = {**style.marker(10), "symbol": symbol, "line": {"color": style.color, "width": 2 if is_ours else 1.5}}
    hover = [
        f"{words.text(r['value'])} {words.title}{'' if formats.missing(r.get('debiased')) else ', plug-in,'} "
        f"on {r['task']}<br>{_ends(r, words, is_ours)}"
        for r in rows.astype({"low": float, "high": float}).to_dict("records")
    ]
    return go.Scatter(
        x=value,
        y=np.array([-shown.index(str(task)) for task in rows["task"]], dtype=float) + offset,
        mode="markers",
        cliponaxis=False,  # a mark at 0 or 100% is not clipped
        name=f"{style.title}, {source}",
        marker=marker if is_ours else {**marker, "color": style.color},
        error_x=error_bars(value, low, high, 2 if is_ours else 1, 4 if is_ours else 2),
        hovertext=hover,
        hovertemplate=f"<b>{style.title}, {source}</b><br>%{{hovertext}}<extra></extra>",
    )


def _strokes(method: str, rows: pd.DataFrame, shown: Sequence[str], offset: float, words: Metric) -> go.Scatter:
    """Return the debiased errors, on the lines of their intervals."""
    color = method_style(method).color
    return go.Scatter(
        x=rows["debiased"].to_numpy(float) * words.scale,
        y=np.array([-shown.index(str(task)) for task in rows["task"]], dtype=float) + offset,
        mode="markers",
        name=f"{method_style(method).title}, debiased",
        marker={"symbol": "line-ns-open", "size": 14, "color": color, "line": {"color": color, "width": 2}},
        showlegend=False,
        hovertext=[f"{words.text(value)} {words.title}, debiased" for value in rows["debiased"]],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _ends(row: dict, words: Metric, is_ours: bool) -> str:
    if is_ours:
        return words.interval_text(row["low"], row["high"])
    if np.isnan(row["low"]):
        return "no deviation is printed"
    return f"± standard deviation: {words.text(row['low'])} to {words.text(row['high'])}"


def _bands(figure: go.Figure, shown: Sequence[str]) -> None:
    """Write the tasks' names at their bands, with a hairline between two."""
    places = [-float(number) for number in range(len(shown))]
    names = [name.replace(" to ", "<br>to ").replace(" (", "<br>(") for name in shown]
    figure.update_yaxes(
        range=[places[-1] - 0.55, 0.55], tickmode="array", tickvals=places, ticktext=names, showgrid=False,
        ticklabelstandoff=8,  # a mark at 0% does not cover the name
    )  # fmt: skip
    figure.update_xaxes(showgrid=True)
    for place in places[1:]:
        figure.add_hline(y=place + 0.5, line={"width": 0.5, "color": "#808080"}, layer="below")
