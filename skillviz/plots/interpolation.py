"""Between two models: scores in and out of distribution along WiSE-FT and WiSE-Graft (paper, Fig. 7 e, f).

Points are rows of interpolation.parquet for one region size: path, alpha, dataset, metric, value, low, high (shares
0..1, intervals may be missing), `debiased`, which replaces the value if there is one, and `current`: False for the
points of a path's line, True for additional rows about the point that the reader has chosen on each path, whether or
not it is on the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.core.metrics import Metric, metric_row
from skillviz.plots.figure import blank, canvas, center_axis, centers, interval_band, ordered, padded, require, span
from skillviz.plots.references import legend_level, near_levels, reference_style
from skillviz.plots.theme import SOFT_INK, STATES, Style, spare_style, state_style, template

COLUMNS = ("path", "alpha", "dataset", "metric", "value", "low", "high", "current")
PATHS = {
    "wise-ft": replace(STATES["finetuned"], title="WiSE-FT"),
    "wise-graft": replace(STATES["grafted"], title="WiSE-Graft"),
}
ENDS = {"wise-ft": "finetuned", "wise-graft": "grafted"}
LABELED = (0.2, 0.5, 0.8)
"""The mixing weights whose marks are labeled."""
NOTHING = "No point between the models has been scored yet."
WAY = "mixing weight α, %"
CONFIDENCE = "confidence, %"
BINS = ("path", "dataset", "bin", "lower", "upper", "count", "correct")
PANEL = 230  # pixels of one data set's panel
TOP = 60


def path_style(name: str) -> Style:
    """Return the style of a path: the style of the model at its end."""
    return PATHS.get(name) or spare_style(name)


def on(metric: str, dataset: str) -> Metric:
    """Return the metric's words with the data set on which it was measured."""
    words = metric_row(metric)
    return replace(words, title=f"{words.title} on {dataset}")


def trade_off(
    points: pd.DataFrame,
    inside: str = "",
    outside: str = "",
    metric: str = "accuracy",
    *,
    references: Mapping[str, float] | None = None,
    theme: str = "light",
    height: int = 460,
) -> go.Figure:
    """One line per path: the metric on `inside` on the x axis, on `outside` on the y axis, a mark at each alpha.

    The ends and the chosen points have both intervals. `references`: levels that hold for both axes (chance), 0..1.
    """
    require(points, COLUMNS, "points")
    x, y = on(metric, inside), on(metric, outside)
    figure, ends = _plane(points, ((x, inside), (y, outside)), references or {}, theme, height)
    for name, value in (references or {}).items() if ends else ():
        is_near = any(low <= value * x.scale <= high for low, high in ends)
        figure.add_trace(legend_level(name, value, x, theme, "" if is_near else "down-left"))
        if is_near:
            _level(figure, name, value * x.scale, theme)
    return figure


def accuracy_by_error(points: pd.DataFrame, dataset: str = "", *, theme: str = "light", height: int = 460) -> go.Figure:
    """One line per path: the calibration error on the x axis, the accuracy on the y axis, both on one data set.

    Every mark is an alpha, a few are labeled; ends and chosen points have both intervals.
    """
    require(points, COLUMNS, "points")
    sides = [(metric_row(name), dataset) for name in ("ece", "accuracy")]
    figure, _ = _plane(points, sides, {}, theme, height)
    for path, rows in _sides(points[~points["current"].astype(bool)], sides).items():
        for alpha, x, y in rows.loc[rows["alpha"].round(6).isin(LABELED), ["alpha", "x", "y"]].itertuples(index=False):
            side = {"ax": -34, "ay": 24 if alpha > 0.3 else -12} if path == "wise-graft" else {"ax": 28, "ay": 16}
            color = path_style(path).color
            figure.add_annotation(
                x=x, y=y, text=f"α {alpha:.0%}", arrowhead=0, arrowwidth=1, arrowcolor=color, borderpad=1,
                font={"color": color, "size": 11}, **side,
            )  # fmt: skip
    figure.update_xaxes(title_text=f"{figure.layout.xaxis.title.text} (lower is better)")
    figure.update_yaxes(title_text=f"{figure.layout.yaxis.title.text} (higher is better)")
    return figure


def _plane(
    points: pd.DataFrame, sides: Sequence[tuple[Metric, str]], references: Mapping[str, float], theme: str, height: int
) -> tuple[go.Figure, list[list[float]]]:
    """Return the paths in the plane of two sides (metric and data set of x and of y), and the ends of both axes.

    The ends are missing if no point is known on both sides.
    """
    chosen = points["current"].astype(bool)
    lines, here = (_sides(points[which], sides) for which in (~chosen, chosen))
    if not lines:
        return blank(NOTHING, theme, height, *(words.axis for words, _ in sides)), []
    known = points.set_index(["metric", "dataset"]).sort_index()
    figure = canvas(theme, height, *(center_axis(words.axis, known.loc[[(words.name, at)]]) for words, at in sides))
    figure.add_traces([_way(path, rows) for path, rows in lines.items()])
    figure.add_traces([*_ends(lines), *(_chosen(path, rows) for path, rows in here.items())])
    shown = [*lines.values(), *here.values()]
    ends = [_range(shown, axis, references, words) for axis, (words, _) in zip(("x", "y"), sides, strict=True)]
    figure.update_xaxes(showgrid=True, range=ends[0])
    figure.update_yaxes(range=ends[1])
    return figure, ends


def _range(rows: Sequence[pd.DataFrame], axis: str, references: Mapping[str, float], words: Metric) -> list[float]:
    """Return the axis' ends: all values, the drawn intervals, and levels that are near, with a margin.

    A level farther off than the range of all values would press them into a corner; its value is in the legend.
    """
    drawn = [one[(one["alpha"] % 1 == 0) | (len(one) == 1)] for one in rows]
    ends = [one[[f"{axis}_low", f"{axis}_high"]].to_numpy(float).ravel() for one in drawn]
    values = np.concatenate([*(one[axis].to_numpy(float) for one in rows), *ends])
    low, high = span(values)
    levels = [value * words.scale for value in references.values()]
    close = [level for level in levels if 2 * low - high <= level <= 2 * high - low]
    return padded([low, high, *close], 0.04)


def _sides(points: pd.DataFrame, sides_of: Sequence[tuple[Metric, str]]) -> dict[str, pd.DataFrame]:
    """Return by path one row per alpha that is known on both sides (metric and data set), in order.

    Columns: alpha, x, y and their ends in the metric's unit, and the hover text of each.
    """
    sides_by_path: dict[str, pd.DataFrame] = {}
    for path in ordered(points["path"], PATHS):
        rows = points[points["path"] == path]
        sides = []
        for axis, (words, dataset) in zip(("x", "y"), sides_of, strict=True):
            one = rows[(rows["metric"] == words.name) & (rows["dataset"] == dataset)].drop_duplicates("alpha")
            columns = {
                axis: centers(one, words.scale),
                f"{axis}_low": numbers(one, "low", words.scale),
                f"{axis}_high": numbers(one, "high", words.scale),
                f"{axis}_hover": [words.hover(row) for row in one.to_dict("records")],
            }
            sides.append(pd.DataFrame(columns, index=pd.Index(one["alpha"])))
        both = sides[0].join(sides[1], how="inner").sort_index().reset_index()
        sides_by_path |= {path: both} if len(both) else {}
    return sides_by_path


def _way(path: str, rows: pd.DataFrame) -> go.Scatter:
    style = path_style(path)
    return go.Scatter(
        x=rows["x"],
        y=rows["y"],
        mode="lines+markers" if len(rows) > 2 else "markers",  # nothing was measured between two ends
        name=style.title,
        legendgroup=path,
        line=style.line(),
        marker=style.marker(6),
        hovertext=[_hover(row) for row in rows.to_dict("records")],
        hovertemplate=f"<b>{style.title}</b><br>%{{hovertext}}<extra></extra>",
    )


def _hover(row: Mapping[Any, Any]) -> str:
    return f"alpha {row['alpha']:.2f}<br>{row['x_hover']}<br>{row['y_hover']}"


def _ends(lines: Mapping[str, pd.DataFrame]) -> list[go.Scatter]:
    """Return the models at the ends of the paths, in the style of their states, with their intervals."""
    at_base = [rows[rows["alpha"] == 0] for rows in lines.values()]
    base = next((rows for rows in at_base if len(rows)), at_base[0])
    ends = {"pretrained": base, **{ENDS[p]: rows[rows["alpha"] == 1] for p, rows in lines.items() if p in ENDS}}
    return [_cross(rows, state_style(s), state_style(s).title, 11) for s, rows in ends.items() if len(rows)]


def _chosen(path: str, rows: pd.DataFrame) -> go.Scatter:
    """Return the point that the reader has chosen: a ring around its mark."""
    style = path_style(path)
    ring = replace(style, symbol=f"{style.symbol}-open")
    return _cross(rows, ring, f"{style.title}, chosen point", 20)


def _cross(rows: pd.DataFrame, style: Style, name: str, size: int) -> go.Scatter:
    """Return marks with both intervals."""
    marker = style.marker(size)
    return go.Scatter(
        x=rows["x"],
        y=rows["y"],
        mode="markers",
        name=name,
        marker={**marker, "line": {**marker["line"], "width": 2.5}},
        error_x=_bars(rows, "x"),
        error_y=_bars(rows, "y"),
        hovertext=[_hover(row) for row in rows.to_dict("records")],
        hovertemplate=f"<b>{name}</b><br>%{{hovertext}}<extra></extra>",
    )


def _bars(rows: pd.DataFrame, axis: str) -> dict:
    above, below = rows[f"{axis}_high"] - rows[axis], rows[axis] - rows[f"{axis}_low"]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.2, "width": 3}


def _level(figure: go.Figure, name: str, value: float, theme: str) -> None:
    """Add a level that holds on both axes; the legend names it."""
    style = reference_style(name, theme)
    line = {"color": style.color, "dash": style.dash, "width": 1.5}
    figure.add_vline(x=value, line=line, layer="below")
    figure.add_hline(y=value, line=line, layer="below")


def datasets_of(points: pd.DataFrame, datasets: Sequence[str]) -> list[str]:
    """Return the data sets that have points, in their order."""
    return [name for name in datasets if (points["dataset"] == name).any()]


def numbers(rows: pd.DataFrame, column: str, scale: float) -> np.ndarray:
    """Return a column as numbers in the metric's unit."""
    return rows[column].to_numpy(float, na_value=np.nan) * scale


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
            ends = padded(_values(spanned, [dataset]) * metric_row(metric).scale)
            figure.update_yaxes(range=ends, row=number, col=1)
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
