"""Methods against the parameters that they touch, and paired differences from one of them (paper, tables 1, 3, 6, 7).

A method is one mark, a method of several sizes a line; a graft of a model tuned by another recipe is named after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.localizers import table
from skillviz.core.methods import METHODS, Method
from skillviz.core.metrics import Metric, metric_row
from skillviz.plots.figure import (
    blank,
    canvas,
    center_axis,
    centers,
    error_bars,
    log_ticks,
    ordered,
    range_around_zero,
    require,
    wrapped,
)
from skillviz.plots.method_sizes import SIDE, by_size, method_hover
from skillviz.plots.references import add_references, name_ends, range_with_levels
from skillviz.plots.theme import LOCALIZERS, SOFT_INK, STATES, Style, spare_style

POINTS = ("method", "recipe", "label", "touched", "metric", "value", "low", "high")
DIFFERENCES = ("method", "metric", "value", "low", "high")
SERIES = ("method", "recipe", "label")
Series = tuple[str, str, str]
"""A method, and the recipe and label that distinguish it from the plain one; both are empty for the plain one."""
NO_TITLES: Mapping[str, str] = MappingProxyType({})
NOTHING = "No method has been scored here."
NO_RIVAL = "No method was scored on the same examples."
TOUCHED = "parameters touched, % (log scale)"
APART = 1.16  # factor between two marks that would cover each other
NEAR = 0.08  # decades: shares touched that differ by at most a fifth count as one
SPREAD = 0.35  # decades that the marks of one place take at most, so that they stay apart from the next size's
PLOT, LEGEND = 300, 19  # pixels of the plot, and of a method in the legend of a narrow page
FEW = 7  # methods at most that are named beside their marks; more have a legend
ROW, PANEL = 36, 84  # pixels of a method's row, and of the axis
NARROW = 34  # letters of an axis' title in one line at 320 pixels

_LOCALIZERS = {row.method: LOCALIZERS[name] for name, row in table.LOCALIZERS.items() if row.method != "graft"}


def _style(row: Method) -> Style:
    """Return the row's own marks, else the marks of its state or of the localizer whose graft it is."""
    if row.color:
        return Style(row.title, row.color, row.marker, row.dash)
    return replace(STATES[row.state] if row.state else _LOCALIZERS[row.name], title=row.title)


STYLES = {row.name: _style(row) for row in METHODS.values()}


def method_style(method: str, recipe: str = "", label: str = "", recipes: Mapping[str, str] = NO_TITLES) -> Style:
    """Return the style of a method.

    With another `recipe` it has the method's color and its own marks; with a `label` that distinguishes it from the
    plain method, another color too. `recipes` are the titles of recipes by name.
    """
    style = STYLES.get(method) or spare_style(method)
    if not recipe and not label:
        return style
    more = f", {label}" if label else ""
    marks = spare_style(f"{method}@{recipe}{more}" if recipe else f"{method}{more}")
    if recipe:
        return replace(marks, title=f"{style.title} of {recipes.get(recipe, recipe)}{more}", color=style.color)
    return replace(marks, title=f"{style.title}{more}")


def _series(points: pd.DataFrame) -> list[Series]:
    """Return the series of the points: plain methods in the order of the styles, then series with a recipe or label."""
    every = set(points[list(SERIES)].itertuples(index=False, name=None))
    plain = ordered([method for method, recipe, label in every if not recipe and not label], STYLES)
    return [*((method, "", "") for method in plain), *sorted(one for one in every if one[1] or one[2])]


def against_touched(
    points: pd.DataFrame,
    metric: str = "accuracy",
    *,
    references: Mapping[str, float] | None = None,
    recipes: Mapping[str, str] = NO_TITLES,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One mark with its interval per method and size, by the share of parameters touched, on a log axis.

    If `is_printed`, the numbers are printed instead, because so many lines would hide one another. `points`: method,
    recipe and label (both empty for a plain method), touched (0..1 of the graftable parameters, above 0), metric,
    value, low, high. Up to FEW methods are named at the right side. `recipes` are the titles of recipes by name.
    """
    require(points, POINTS, "points")
    words = metric_row(metric)
    shown = points[(points["metric"] == metric) & (points["touched"] > 0) & points["value"].notna()]
    is_direct = len(_series(shown)) <= FEW
    tall = height or PLOT + (60 if is_direct else LEGEND * len(_series(shown)))
    if shown.empty:
        return blank(NOTHING, theme, tall, TOUCHED, words.axis)
    placed = _placed(shown)
    if is_printed(points, metric):
        names = [method_style(*one, recipes).title if any(one[1:]) else _beside(one[0]) for one in _series(placed)]
        return by_size(placed, names, words, dict(references or {}), theme, height)
    figure = canvas(theme, tall, TOUCHED, center_axis(words.axis, shown))
    for number, series in enumerate(_series(placed)):
        rows = placed[placed["rank"] == number].sort_values("touched")
        figure.add_trace(_marks(method_style(*series, recipes), rows, words))
    low, high = float(np.log10(100 * placed["at"].min())), float(np.log10(100 * placed["at"].max()))
    air = max(0.06 * (high - low), 0.12)
    figure.update_xaxes(type="log", range=[low - air, high + air], **_up_to_all(log_ticks(low, high)))
    levels = dict(references or {})
    figure.update_yaxes(range=range_with_levels(shown, levels, words))
    (name_ends if is_direct else add_references)(figure, levels, words, theme)
    return figure


def is_printed(points: pd.DataFrame, metric: str) -> bool:
    """True if more than FEW methods have several sizes each, and no two sizes of a method count as one."""
    shown = points[(points["metric"] == metric) & (points["touched"] > 0) & points["value"].notna()]
    sizes = shown.assign(place=_place(shown)).groupby(list(SERIES))["place"].agg(["size", "nunique"])
    return int((sizes["size"] > 1).sum()) > FEW and bool((sizes["size"] == sizes["nunique"]).all())


def _up_to_all(ticks: dict) -> dict:
    """Return the ticks up to 100%, because the names are to the right."""
    kept = [pair for pair in zip(ticks["tickvals"], ticks["ticktext"], strict=True) if pair[0] <= 100]
    return {**ticks, "tickvals": [value for value, _ in kept], "ticktext": [words for _, words in kept]}


def rivals(
    differences: pd.DataFrame,
    metric: str = "accuracy",
    *,
    of: str = "graft",
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One row per method: the method minus `of`, paired, with its interval, and the line at zero.

    `differences`: method, metric, value, low, high, in the metric's own unit.
    """
    require(differences, DIFFERENCES, "differences")
    words = metric_row(metric)
    unit = words.difference_unit
    shown = differences[(differences["metric"] == metric) & differences["value"].notna()]
    title = center_axis(words.difference_axis(f"{words.title}: method − {method_style(of).title}"), shown)
    title = title if len(title) <= NARROW else title.replace(": ", ":<br>", 1)
    rows = ordered(shown["method"].astype(str), STYLES)
    tall = height or PANEL + ROW * max(len(rows), 3)
    if not rows:
        return blank(NO_RIVAL, theme, tall, title, "method")
    figure = canvas(theme, tall, title, "method")
    for method in rows:
        figure.add_trace(_difference(method, shown[shown["method"] == method], words, unit))
    titles = [method_style(method).title for method in rows]
    ends = words.scale * shown[["value", "low", "high"]].to_numpy(float).ravel()
    figure.update_xaxes(showgrid=True, range=range_around_zero(ends))
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=titles[::-1], showgrid=False,
        tickvals=titles, ticktext=[wrapped(_beside(row), SIDE) for row in rows],
        range=[-0.6, len(titles) - 0.4],
    )  # fmt: skip
    line = {"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}
    figure.add_vline(x=0, line=line, layer="below")
    figure.update_layout(showlegend=False)  # every row is named at its side
    return figure


def _beside(method: str) -> str:
    """Return the method's name in a figure that compares all with a graft."""
    return METHODS[method].short_title if method in METHODS else method_style(method).title


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `at`, the position of each mark. Marks of one place are put side by side, in the order of the styles."""
    order = {series: number for number, series in enumerate(_series(rows))}
    ranks = [order[series] for series in rows[list(SERIES)].itertuples(index=False, name=None)]
    placed = rows.assign(rank=ranks, place=_place(rows))
    placed = placed.sort_values(["place", "rank"])
    number = placed.groupby("place").cumcount()
    several = placed.groupby("place")["rank"].transform("size")
    apart = np.minimum(np.log10(APART), SPREAD / several)
    return placed.assign(at=placed["touched"] * 10 ** (apart * (number - (several - 1) / 2)))


def _place(rows: pd.DataFrame) -> np.ndarray:
    """Return the place of each share touched: the next one begins where two neighbors are more than NEAR apart."""
    decades = np.log10(rows["touched"].to_numpy(float))
    known = np.unique(decades)
    return np.append(0, np.cumsum(np.diff(known) > NEAR))[np.searchsorted(known, decades)]


def _marks(style: Style, rows: pd.DataFrame, words: Metric) -> go.Scatter:
    value, low, high = centers(rows, words.scale), *(rows[c].to_numpy(float) * words.scale for c in ("low", "high"))
    hover = [method_hover(row, words) for row in rows.astype({"low": float, "high": float}).to_dict("records")]
    return go.Scatter(
        x=100 * rows["at"].to_numpy(float),
        y=value,
        mode="lines+markers" if len(rows) > 1 else "markers",
        name=style.title,
        line=style.line(1.5),
        marker=style.marker(11),
        cliponaxis=False,  # a mark at 0 or 100% is not clipped
        error_y=error_bars(value, low, high, 1.5, 4),
        hovertext=hover,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def _difference(method: str, rows: pd.DataFrame, words: Metric, unit: str) -> go.Scatter:
    style = method_style(method)
    value, low, high = (rows[c].to_numpy(float) * words.scale for c in ("value", "low", "high"))
    center = centers(rows, words.scale)
    hover = [
        f"{c:+.{words.digits}f} {unit}<br>"
        + ("no interval" if np.isnan(a) or np.isnan(b) else f"95%: {formats.interval(a, b, words.digits)}")
        + ("" if c == v else f"; plug-in {v:+.{words.digits}f}")
        for v, a, b, c in zip(value, low, high, center, strict=True)
    ]
    return go.Scatter(
        x=center,
        y=[style.title] * len(rows),
        mode="markers",
        name=style.title,
        marker=style.marker(11),
        error_x=error_bars(center, low, high, 1.5, 4),
        hovertext=hover,
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )
