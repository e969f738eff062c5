"""Regions of several tasks: their overlap, the gain of each on every task, and their stability (paper, Fig. 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.plots.cells import CIVIDIS, broken, matrix, numbers, shown
from skillviz.plots.figure import blank, canvas, colour_bar, error_bars, ordered, require
from skillviz.plots.overlap import CHANCE
from skillviz.plots.theme import DENSITY, INK, LOCALIZERS, SOFT_INK, STATES, Style

OVERLAP = ("row_task", "column_task", "kind", "value", "low", "high", *CHANCE, "relation")
GAIN = ("region_tasks", "task", "purified", "value", "low", "high")
UNION = ("task", "what", "value", "low", "high")
STABILITY = ("task", "source", "iou", "low", "high", *CHANCE)
NO_REGIONS = "No two regions are stored here to be compared."
NO_GAIN = "No relative gain is stored here."
NO_STABILITY = "No region was found twice, so nothing can be said of its stability."
GAIN_TITLE = "gain, % of multi-task's"
FRAME, CELL, LOW_CELL, LINE = 120, 58, 34, 16
TURNED = 60  # pixels more below many columns, whose names are rotated on a narrow page
FEW = 4  # tasks up to which a cell has room for its interval, also at 320 pixels
MOST_BROKEN = 9  # columns that have room for a name in two lines, also rotated
SIZE, SMALL = 12, 10  # pixels of a number, and of an interval or of a number among many
MOST_NAMED = 4  # tasks of a union that an axis names; the hover names all
OFF = 5  # pixels between a row's name and its marks
KINDS = {
    "overlap": ("share of the column, %", "also in region of", "entries of region of"),
    "iou": ("shared entries (IoU), %", "region of", "region of"),
}
SINGLE, UNION_OF, PURIFIED = "its own region alone", "union", "union, purified"
CHOSEN = "this region"
WITHOUT_SHARED, WITHOUT_RANDOM = "without shared entries", "without random entries"
RANDOM_OF, TRAINED_ON = "random entries", "model of this subset"
UNION_STYLES = {
    UNION_OF: Style("union", STATES["grafted"].color, "diamond", "solid"),
    CHOSEN: Style("this region", STATES["grafted"].color, "diamond", "solid"),
    PURIFIED: Style("union, purified", "#8B3FD9", "star", "longdash"),
    WITHOUT_SHARED: Style("without entries that other tasks share", "#A16207", "triangle-up", "dash"),
    WITHOUT_RANDOM: Style("without as many random entries", "#A16207", "triangle-up-open", "dash"),
    RANDOM_OF: Style("as many random entries (null)", LOCALIZERS["random"].color, "x", "dot"),
    TRAINED_ON: Style("a model of these tasks alone", STATES["finetuned"].color, "circle", "solid"),
    SINGLE: Style("the task's own region alone", "#1D5FD1", "square-open", "dot"),
}
SOURCE_STYLES = {
    "mask seeds": Style("other mask seeds", "#1D5FD1", "square", "solid"),
    "data seeds": Style("other samples of the data", "#A16207", "triangle-up", "dash"),
    "bootstrap": replace(LOCALIZERS["linearized"], title="bootstrap samples (linearized)"),
}


def overlap_of_tasks(
    overlap: pd.DataFrame,
    kind: str = "overlap",
    *,
    order: Sequence[str] = (),
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """One cell per pair of tasks: the share in percent, its interval, and in the hover the value expected by chance.

    `overlap` has the columns of the study's table; tasks are in `order`, then by alphabet. The color scale ends at the
    largest share, because regions share little.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not known; it is {' or '.join(map(repr, KINDS))}")
    require(overlap, OVERLAP, "overlap")
    title, y, x = KINDS[kind]
    rows = overlap[overlap["kind"] == kind]
    names = ordered(rows["row_task"].astype(str), order)
    if not names:
        return blank(NO_REGIONS, theme, height or 300, x, y)
    value, low, high, *chance = (
        matrix(rows, ("row_task", "column_task"), names, names, of) for of in ("value", "low", "high", *CHANCE)
    )
    by_chance = np.stack(chance, axis=-1)
    hover = [
        [_shares_words(kind, a, b, value[i, j], low[i, j], high[i, j], by_chance[i, j]) for j, b in enumerate(names)]
        for i, a in enumerate(names)
    ]
    most = max(float(np.nanmax(value)), 1e-6) if np.isfinite(value).any() else 1.0
    figure = canvas(theme, height or _frame(names) + _tall(names) * len(names), x, y)
    _cells(figure, value, low, high, hover, names, names, (0, 100 * most), title, theme)
    return figure


def gain_of_regions(
    gain: pd.DataFrame, *, order: Sequence[str] = (), theme: str = "light", height: int | None = None
) -> go.Figure:
    """One row per region or union, one column per task: the relative gain; bold if the region was made for the task.

    `gain` has the columns of the study's table; tasks are in `order`, then by alphabet. Colors end at 0 and 100%; the
    numbers do not. A cell whose gain is undefined has no color.
    """
    require(gain, GAIN, "gain")
    x, y = "task", "region of"
    if gain["value"].isna().all():
        return blank(NO_GAIN, theme, height or 300, x, y)
    tasks = ordered(gain["task"].astype(str), order)
    regions = sorted(
        set(zip(gain["region_tasks"], gain["purified"], strict=True)), key=lambda row: _place(row[0], row[1], tasks)
    )
    cells = {(r["region_tasks"], r["purified"], r["task"]): r for r in gain.to_dict("records")}
    value, low, high = (
        np.array([[cells[(*region, task)][end] if (*region, task) in cells else np.nan for task in tasks]
                  for region in regions], dtype=float)
        for end in ("value", "low", "high")
    )  # fmt: skip
    bold = [[task in of for task in tasks] for of, _ in regions]
    hover = [
        [_gain_words(*region, task, value[i, j], low[i, j], high[i, j]) for j, task in enumerate(tasks)]
        for i, region in enumerate(regions)
    ]
    names = [region_name(*region) for region in regions]
    tall = _frame(tasks) + len(names) * max(_tall(tasks), *(LINE * (name.count("<br>") + 1) + 8 for name in names))
    figure = canvas(theme, height or tall, x, y)
    _cells(figure, value, low, high, hover, names, tasks, (0, 100), GAIN_TITLE, theme, bold)
    return figure


def union_gain(union: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """The gain of a union on every task, beside the task's own region: one row per task, marks with intervals.

    `union`: task, what (SINGLE, UNION_OF, PURIFIED; CHOSEN: of one task's region), value, low, high (relative gain, 1 =
    the multi-task model). Tasks without a defined gain have no row.
    """
    require(union, UNION, "union")
    union = union[union["task"].isin(union.loc[union["value"].notna(), "task"])]
    if union.empty:
        return blank(NO_GAIN, theme, height or 300, GAIN_TITLE, "task")
    figure = _dots(union.rename(columns={"what": "group"}), UNION_STYLES, GAIN_TITLE, theme, height)
    for place, word in ((0, "pre-trained"), (100, "multi-task")):
        figure.add_vline(x=place, line={"color": SOFT_INK[theme], "width": 1, "dash": "dot"})
        figure.add_annotation(
            x=place, y=1, yref="paper", yanchor="bottom", text=word, showarrow=False,
            font={"size": 11, "color": SOFT_INK[theme]},
        )  # fmt: skip
    figure.update_layout(legend={"y": 1.14}, margin={"t": 76})
    return figure


def stability_of_regions(stability: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """IoU of two regions of a task that differ only by chance, one row per task.

    The level expected by chance is a tick, its range a thin line.
    """
    require(stability, STABILITY, "stability")
    x = "shared entries (IoU), %"
    if stability.empty:
        return blank(NO_STABILITY, theme, height or 300, x, "task")
    frame = stability.rename(columns={"source": "group"}).assign(value=stability["iou"])
    figure = _dots(frame, SOURCE_STYLES, x, theme, height)
    tasks = ordered(stability["task"].astype(str), ())
    highest = stability.sort_values("chance").groupby("task")[list(CHANCE)].last().reindex(tasks)
    chance, low, high = (100 * highest[name].to_numpy(float) for name in CHANCE)
    figure.add_trace(
        go.Scatter(
            x=chance, y=list(range(len(tasks))), mode="markers", name="by chance",
            error_x=error_bars(chance, low, high, 1, 0),
            hovertext=[formats.by_chance(*row) for row in highest.to_numpy(float)],
            marker={"symbol": "line-ns", "size": 16, "line": {"color": INK[theme], "width": 2}},
            hovertemplate="by chance: %{hovertext}<extra></extra>",
        )
    )  # fmt: skip
    figure.update_xaxes(rangemode="tozero")
    return figure


def region_name(of: Sequence[str], purified: bool = False) -> str:
    """`a +<br>b` of these tasks, to fit an axis; with `(purified)` below; a large union by its first tasks."""
    named = of if len(of) <= MOST_NAMED else of[: MOST_NAMED - 2]
    rest = [f"{len(of) - len(named)} more"] if len(of) > len(named) else []
    words = " +<br>".join([*(shown(task, 28) for task in named), *rest])
    return f"{words}<br>(purified)" if purified else words


def _place(of: tuple[str, ...], purified: bool, tasks: Sequence[str]) -> tuple[int, list[int], tuple[str, ...], bool]:
    """Return the sort key: single regions first, in the order of the tasks, then unions by their number of tasks."""
    return len(of), [tasks.index(name) if name in tasks else len(tasks) for name in of], of, purified


def _cells(
    figure: go.Figure,
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    hover: list[list[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    ends: tuple[float, float],
    title: str,
    theme: str,
    bold: list[list[bool]] | None = None,
) -> None:
    """Add a heatmap of shares in percent with their numbers, and below them their intervals if there is room."""
    many = len(columns) > FEW
    strong = bold or [[False] * len(columns) for _ in rows]
    digits = 0 if many or (len(columns) == FEW and _is_wide(low, high)) else 1  # the hover has all digits
    texts = [
        [_cell(value[i, j], low[i, j], high[i, j], strong[i][j], digits, many) for j in range(len(columns))]
        for i in range(len(rows))
    ]
    figure.add_trace(
        go.Heatmap(
            z=100 * value, x=list(range(len(columns))), y=list(range(len(rows))), zmin=ends[0], zmax=ends[1],
            colorscale=DENSITY, colorbar=colour_bar(figure, title), xgap=2, ygap=2, name="cells", hovertext=hover,
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )  # fmt: skip
    figure.add_trace(
        numbers(100 * value, texts, CIVIDIS, ends, theme, size=SMALL if many else SIZE - (len(columns) == FEW))
    )
    words = [broken(column) if 3 < len(columns) <= MOST_BROKEN else column for column in columns]
    figure.update_xaxes(tickvals=list(range(len(columns))), ticktext=words, showgrid=False, showline=False)
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=[row if "<br>" in row else broken(row) for row in rows],
        autorange="reversed", showgrid=False, zeroline=False,
        ticklabelstandoff=OFF,
    )  # fmt: skip


def _dots(frame: pd.DataFrame, styles: Mapping[str, Style], title: str, theme: str, height: int | None) -> go.Figure:
    """Return a figure with one row per task, one mark per group; `frame` has task, group, value, low, high (shares)."""
    tasks, groups = ordered(frame["task"].astype(str), ()), ordered(frame["group"].astype(str), styles)
    figure = canvas(theme, height or 150 + max(54, 16 * len(groups)) * len(tasks), title, "task")
    for number, group in enumerate(groups):
        marks = frame[frame["group"] == group]
        marks = marks.assign(place=marks["task"].map(tasks.index)).sort_values("place", kind="stable")
        offset = min(0.22, 0.8 / len(groups)) * (number - (len(groups) - 1) / 2)
        style = styles[group] if group in styles else Style(group, INK[theme], "circle", "solid")
        value, low, high = (100 * marks[c].to_numpy(float) for c in ("value", "low", "high"))
        bars = {"array": np.nan_to_num(high - value), "arrayminus": np.nan_to_num(value - low)}
        ends = [_ends(*pair) for pair in zip(marks["low"], marks["high"], strict=True)]
        figure.add_trace(
            go.Scatter(
                x=value, y=marks["place"] + offset, mode="markers", name=style.title,
                marker=style.marker(9), customdata=ends, text=marks["task"],
                error_x={"type": "data", "symmetric": False, "color": style.color, "thickness": 1.5, **bars},
                hovertemplate=f"<b>%{{text}}</b>, {style.title}<br>%{{x:.1f}}% (%{{customdata}})<extra></extra>",
            )
        )  # fmt: skip
    figure.update_yaxes(
        tickvals=list(range(len(tasks))), ticktext=[shown(task, 28) for task in tasks], range=[len(tasks) - 0.5, -0.5],
        showgrid=False, ticklabelstandoff=OFF,
    )  # fmt: skip
    figure.update_xaxes(showgrid=True)
    return figure


def _is_wide(low: np.ndarray, high: np.ndarray) -> bool:
    """True if intervals exceed 0 to 100% so far that FEW columns at 320 pixels cannot fit their numbers."""
    return bool(np.nanmin(low, initial=0.0) < -0.095 or np.nanmax(high, initial=0.0) > 1)


def _cell(value: float, low: float, high: float, bold: bool, digits: int, many: bool) -> str:
    if np.isnan(value):
        return "n/a"
    number = formats.number(100 * value, digits)
    number = f"<b>{number}</b>" if bold else number
    if many or np.isnan(low) or np.isnan(high):
        return number
    ends = "<br>to ".join(formats.number(100 * end, digits) for end in (low, high))
    return f'{number}<br><span style="font-size:{SMALL}px">{ends}</span>'


def _frame(columns: Sequence[str]) -> int:
    """Return the pixels around the cells."""
    return FRAME if len(columns) <= FEW else FRAME + TURNED


def _tall(columns: Sequence[str]) -> int:
    """Return the pixels of a row of cells: two lines, or only a number."""
    return CELL if len(columns) <= FEW else LOW_CELL


def _ends(low: float, high: float) -> str:
    if np.isnan(low) or np.isnan(high):
        return formats.NO_INTERVAL
    return f"95%: {formats.percent_interval(low, high)}"


def _shares_words(kind: str, a: str, b: str, value: float, low: float, high: float, chance: np.ndarray) -> str:
    if np.isnan(value):
        return ""
    if a == b:
        sentence = f"two regions of {a}, found with other mask seeds, share {formats.share(value)}"
    elif kind == "overlap":
        sentence = f"of the entries of {b}'s region, {formats.share(value)} are in that of {a} too"
    else:
        sentence = f"the regions of {a} and {b} share {formats.share(value)} of their entries"
    return f"{sentence}<br>{_ends(low, high)}<br>by chance: {formats.by_chance(*chance)}"


def _gain_words(of: Sequence[str], purified: bool, task: str, value: float, low: float, high: float) -> str:
    what = "the purified union of " if purified else "the region of " if len(of) == 1 else "the union of "
    named = what + ", ".join(of)
    if np.isnan(value):
        return f"{named} on {task}: n/a, as the multi-task model gains nothing there"
    return f"{named} on {task}: {formats.number(100 * value, 1)}% of the multi-task model's gain<br>{_ends(low, high)}"
