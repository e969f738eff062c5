"""The region as a map of layers and modules whose cells can be selected, with bars at its sides.

The frame is layers.parquet, one row per parameter and kind: layer (number from 0, or missing outside the blocks), kind,
is_bias, selected, total; for the movement view also movement_l2 and movement_l2_selected, for the views of two regions
the columns of `core.composition.shared_composition`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from skillviz.core import formats
from skillviz.plots.cells import AGAINST, FOR, Scale, diverging, name_columns, numbers, printed, shades
from skillviz.plots.figure import BAR_ROOM, blank, canvas, colour_bar, ordered, require
from skillviz.plots.references import name_category_ends
from skillviz.plots.theme import BAR, DENSITY, GROUND, INK, MODULE_KINDS, SOFT_INK, Style, kind_style

COLUMNS = ("layer", "kind", "is_bias", "selected", "total")
MOVED = ("movement_l2", "movement_l2_selected")
SHARED = ("only_a", "both", "only_b", "expected")
LAYER, MODULE = "layer (first = 0)", "module"
SHORT = {
    "attention output": "attn out", "key and value": "key+value", "cross query": "cross q", "cross key": "cross k",
    "cross value": "cross v", "cross output": "cross out", "MLP gate": "gate", "MLP up": "up",
    "expert gate": "exp. gate", "expert up": "exp. up", "expert out": "exp. out", "bias": "biases",
}  # fmt: skip
NOTHING = "This region has no entries yet."
ENDS = 3
"""Doublings from 1 x to either end of the scale of densities: 1/8 to 8."""
CROWDED = 10
"""Maps with more columns than this have numbers of three characters, which also fit on a phone."""
MUTED = {"light": "#8A919C", "dark": "#7C8490"}
"""The gray of secondary parts: 3:1 on its background, and far from the text color."""
CELL_FRACTION, SIDE = 0.86, 66  # share of the width, for the map; pixels above it, for the bars
AROUND = BAR_ROOM + 66  # pixels above and below the plot: color bar, names of the modules, title of the axis
TALLEST = 450  # pixels, which fit a window of 720 below the page's head; maps of more than a dozen layers are taller
CELL_HEIGHTS = (18, 40)  # pixels; in smaller cells numbers are illegible
MOST_DOTS = 1500
MOST_BLOCKS = 96
NOTHING_HERE = "No entry of this tensor is in the region."
KINDS = 4  # kinds of modules that have their own line


@dataclass(frozen=True)
class View:
    """The content of a view: the title of the cells' colors, and the titles of the bars and the marks at the sides."""

    title: str
    bars: str
    side: str
    marks: str
    columns: tuple[str, ...] = ()


EVENLY = "if it were spread evenly"
VIEWS = {
    "density": View("density, × the region's average", "share of the region, %", "share, %", EVENLY),
    "share": View("share of the region, %", "share of the region, %", "share, %", EVENLY),
    "movement": View(
        "movement held, % of the squared distance", "movement held, %", "held, %", "a random region", MOVED
    ),
    "stability": View("entries that two seeds share (IoU), %", "IoU, %", "IoU, %", "by chance", SHARED),
    "overlap": View("entries that both have (IoU), %", "IoU, %", "IoU, %", "by chance", SHARED),
    "minimal": View("entries that suffice, %", "suffice, %", "suffice, %", "by chance", SHARED),
    "roles": View("regions denser here than on average, %", "regions, %", "regions, %", "", ("dense",)),
}

_VALUES = {
    "density": "density_ratio",
    "share": "share",
    "movement": "movement_share",
    "stability": "iou",
    "overlap": "iou",
    "minimal": "iou",
    "roles": "dense",
}
_MARKS = {"stability": "chance", "overlap": "chance", "minimal": "chance"}
SURPLUS, ENOUGH = "surplus", "smallest sufficient part"


def cells(layers: pd.DataFrame, by: tuple[str, ...] = ("layer", "kind")) -> pd.DataFrame:
    """One row per cell of the map, or per layer or kind, with its counts and shares.

    Columns: selected, total, share, share_if_even, density_ratio, and movement_share, iou and chance if available.
    Biases of all kinds are one column, `bias`. `share` is of all selected entries (0..1, sums to 1), `share_if_even`
    the share if they were spread evenly; `density_ratio` is the density over the density of the whole region (1 =
    average, 0 = none). `movement_share` is the region's share of the squared movement. `iou` is the share of common
    entries among those that either of two regions has, `chance` the same for the mean number that random regions with
    as many entries in each tensor have in common.
    """
    require(layers, COLUMNS, "layers")
    kind = layers["kind"].where(~layers["is_bias"].astype(bool), "bias")
    sums = layers[["selected", "total"]].assign(layer=layers["layer"], kind=kind)
    for name in MOVED:
        if name in layers:
            sums[name] = layers[name].astype(float) ** 2
    shared = [name for name in SHARED if name in layers]
    own = [name for name in ("dense",) if name in layers]  # of frames with one row per cell
    sums[shared + own] = layers[shared + own]
    grouped = sums.groupby(list(by), dropna=False, sort=True)[
        [name for name in sums if name not in ("layer", "kind")]
    ].sum().reset_index()  # fmt: skip
    grouped = grouped[grouped["total"] > 0].reset_index(drop=True)
    selected, total = int(grouped["selected"].sum()), int(grouped["total"].sum())
    grouped["share"] = grouped["selected"] / max(selected, 1)
    grouped["share_if_even"] = grouped["total"] / max(total, 1)
    grouped["density_ratio"] = grouped["selected"] / grouped["total"] * (total / max(selected, 1))
    if set(MOVED) <= set(grouped):
        grouped["movement_share"] = grouped["movement_l2_selected"] / grouped["movement_l2"].where(
            grouped["movement_l2"] > 0
        )
    if shared:
        either = grouped["only_a"] + grouped["both"] + grouped["only_b"]
        by_chance = either + grouped["both"] - grouped["expected"]
        grouped["iou"] = grouped["both"] / either.where(either > 0)
        grouped["chance"] = grouped["expected"] / by_chance.where(by_chance > 0)
    return grouped.drop(columns=[name for name in MOVED if name in grouped])


def kinds_of(table: pd.DataFrame) -> list[str]:
    """Return the kinds that occur, in the order of the columns."""
    return ordered(table["kind"], MODULE_KINDS)


def layer_names(table: pd.DataFrame) -> list[str]:
    """Return the layers in order, as words; entries outside any layer are last as `none`."""
    numbers = sorted({int(x) for x in table["layer"].dropna()})
    return [str(n) for n in numbers] + (["none"] if table["layer"].isna().any() else [])


def layer_name(layer: float | None) -> str:
    """`3`, or `none` if the entries are in no layer."""
    return "none" if layer is None or pd.isna(layer) or layer < 0 else str(int(layer))


def stack_starts(layers: pd.DataFrame) -> dict[str, str]:
    """Return the name of each stack by its first layer, as a word; empty if the model has one stack."""
    if "stack" not in layers:
        return {}
    first = layers.dropna(subset=["stack", "layer"]).groupby("stack")["layer"].min()
    return {layer_name(layer): str(stack) for stack, layer in first.items()}


def region_map(
    layers: pd.DataFrame,
    *,
    view: str = "density",
    chosen: tuple[int | None, str] | None = None,
    names: tuple[str, str] = ("A", "B"),
    sides: bool = True,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """Layer by module kind, the value of each cell in it, and with `sides` bars by layer and by kind at its sides.

    `view` is one of VIEWS. Densities have a scale of doublings around 1 x with fixed ends, 1/8 and 8: a cell beyond has
    the end's color and its own number, and the scale's end gives the range of the cells. For two regions, called
    `names`, a bar in each cell is divided into the entries of the first alone, of both, and of the second alone. Marks
    on the bars at the sides show the values expected by chance. Cells are selected by invisible squares with
    `customdata = [layer, kind]` (layer -1 outside of layers; kind `bias` for the biases); `chosen`, in the same form,
    has a frame.
    """
    if view not in VIEWS:
        raise ValueError(f"view={view!r} is not known; it is one of {', '.join(VIEWS)}")
    require(layers, (*COLUMNS, *VIEWS[view].columns), "layers")
    table, words = cells(layers), VIEWS[view]
    x = f"{MODULE} · bars: {words.bars}<br>marks: {words.marks}" if sides else MODULE
    if table.empty:
        return blank(NOTHING, theme, height or 320, x, LAYER)
    rows, kinds = layer_names(table), kinds_of(table)
    least, most = CELL_HEIGHTS
    cell = min(most, max(least, (TALLEST - SIDE - AROUND) // len(rows)))
    tall = SIDE + AROUND + cell * len(rows)
    figure = canvas(theme, height or tall, x, LAYER)
    table = table.assign(
        x=[kinds.index(k) for k in table["kind"]], y=[rows.index(layer_name(v)) for v in table["layer"]]
    )
    letters = 12 if cell > 24 and len(kinds) <= CROWDED else 10
    _cells(figure, table, view, (len(rows), len(kinds)), names, theme, letters)
    # the marks that a click selects, because a heatmap's cells cannot be selected
    figure.add_trace(
        go.Scatter(
            x=table["x"],
            y=table["y"],
            mode="markers",
            name="cells",
            showlegend=False,
            marker={"symbol": "square", "size": min(26, cell - 4), "color": "rgba(0,0,0,0)", "line": {"width": 0}},
            unselected={"marker": {"opacity": 1}},
            customdata=[[-1 if pd.isna(v) else int(v), k] for v, k in zip(table["layer"], table["kind"], strict=True)],
            hovertext=[_cell_words(row, names) for row in table.to_dict("records")],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )
    _map_axes(figure, rows, kinds, stack_starts(layers))
    if sides:
        _sides(figure, cells(layers, ("layer",)), cells(layers, ("kind",)), view, theme)
        _side_axes(figure, SIDE / (figure.layout.height - AROUND), words.side)
    if chosen is not None:
        _frame(figure, table, chosen, theme)
    return figure


def outlines(empty: pd.DataFrame, theme: str) -> go.Scatter:
    """Return the edges of the cells at x and y, which have no selected entry, as one line with gaps."""
    across, down = np.array([-0.45, 0.45, 0.45, -0.45, -0.45, np.nan]), np.array([-0.4, -0.4, 0.4, 0.4, -0.4, np.nan])
    return go.Scatter(
        x=(empty["x"].to_numpy(float)[:, None] + across).ravel(),
        y=(empty["y"].to_numpy(float)[:, None] + down).ravel(),
        mode="lines",
        line={"color": SOFT_INK[theme], "width": 1},
        hoverinfo="skip",
        showlegend=False,
        name="no selected entry",
    )


def _cells(
    figure: go.Figure, table: pd.DataFrame, view: str, shape: tuple[int, int], names: tuple[str, str], theme: str,
    size: int,
) -> None:  # fmt: skip
    """Add colors, or the bars of two regions, and the numbers on them."""
    values = _VALUES[view]
    value = np.full(shape, np.nan)
    value[table["y"], table["x"]] = table[values].to_numpy(float)
    texts = [[_ratio(v, shape[1] > CROWDED) if view == "density" else _percent(v) for v in row] for row in value]
    if view in ("overlap", "minimal"):
        _divided(figure, table, names, theme, view)
        places = [row - 0.16 for row in range(shape[0])]
        figure.add_trace(numbers(np.full(shape, np.nan), texts, shades(theme), (0, 1), theme, rows=places, size=size))
        return
    z, scale, ends = _coloured(value, view, theme)
    figure.add_trace(go.Heatmap(z=z, coloraxis="coloraxis", xgap=2, ygap=2, hoverinfo="skip", name=view))
    figure.add_trace(outlines(table[table[values].fillna(0) == 0], theme))
    bar = colour_bar(figure, VIEWS[view].title) | {"len": CELL_FRACTION} | _ticks(value, view, ends)
    colours = {"colorscale": [list(stop) for stop in scale], "cmin": ends[0], "cmax": ends[1], "colorbar": bar}
    figure.update_layout(coloraxis=colours)
    figure.add_trace(numbers(z, texts, scale, ends, theme, size=size))


def _coloured(value: np.ndarray, view: str, theme: str) -> tuple[np.ndarray, Scale, tuple[float, float]]:
    """Return the colored values, NaN for a cell of zero, their scale, and the scale's ends."""
    z = np.where(value > 0, value, np.nan)
    if view == "density":
        return np.log2(z), diverging(theme), (-ENDS, ENDS)
    most = 1.0 if view == "stability" or np.isnan(z).all() else float(np.nanmax(z))
    return z, shades(theme), (0.0, most)


def _ticks(value: np.ndarray, view: str, ends: tuple[float, float]) -> dict:
    if view != "density":
        return {"tickvals": [0, ends[1] / 2, ends[1]], "ticktext": [_percent(v) for v in (0, ends[1] / 2, ends[1])]}
    known = value[value > 0]
    low, high = f"1/{2**ENDS}", f"{2**ENDS}"
    if len(known) and known.min() < 2.0**-ENDS:
        low = f"{_ratio(known.min())}{formats.TO}{low}"
    if len(known) and known.max() > 2.0**ENDS:
        high = f"{high}{formats.TO}{_ratio(known.max())}"
    return {"tickvals": [-ENDS, -1, 0, 1, ENDS], "ticktext": [f"{low}×", "1/2×", "1×", "2×", f"{high}×"]}


def _divided(figure: go.Figure, table: pd.DataFrame, names: tuple[str, str], theme: str, view: str) -> None:
    """Draw in each cell a bar of the entries of either region: of the first alone, of both, of the second alone.

    For a region and the part of it that suffices: this part in the text color, then the surplus in gray.
    """
    either = (table["only_a"] + table["both"] + table["only_b"]).to_numpy(float)
    start = table["x"].to_numpy(float) - 0.42
    parts = {"only_a": f"only {names[0]}", "both": "both", "only_b": f"only {names[1]}"}
    colours: tuple[str, ...] = (AGAINST[theme], INK[theme], FOR[theme])
    if view == "minimal":
        parts, colours = {"both": ENOUGH, "only_a": SURPLUS}, (INK[theme], MUTED[theme])
    for (column, name), colour in zip(parts.items(), colours, strict=True):
        shape = {"shape": "/", "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 4, "solidity": 0.5}
        pattern = shape if column == "only_b" else {}
        length = np.divide(0.84 * table[column].to_numpy(float), either, out=np.zeros(len(table)), where=either > 0)
        figure.add_trace(
            go.Bar(
                x=length,
                y=table["y"] + 0.24,
                base=start,
                width=0.3,
                orientation="h",
                name=name,
                marker={"color": colour, "line": {"width": 0}, "pattern": pattern},
                hoverinfo="skip",
            )  # fmt: skip
        )
        start = start + length
    figure.update_layout(barmode="overlay", margin_t=40)
    figure.add_trace(outlines(table, theme))


def _sides(figure: go.Figure, layers: pd.DataFrame, kinds: pd.DataFrame, view: str, theme: str) -> None:
    """Add the bars by kind, above, and by layer, on the right, with a mark on each for the value expected by chance."""
    names = [layer_name(v) for v in layers["layer"]]
    order = layer_names(layers)
    columns = kinds_of(kinds)
    for table, places, is_above in (
        (kinds, [columns.index(k) for k in kinds["kind"]], True), (layers, [order.index(n) for n in names], False),
    ):  # fmt: skip
        whole = table["selected"].sum() / max(table["total"].sum(), 1)
        by_chance = {"movement": np.full(len(table), whole)}.get(view, table[_MARKS.get(view, "share_if_even")])
        value = 100 * table[_VALUES["share" if view == "density" else view]]
        even = 100 * by_chance
        labels = [kind_style(k).title for k in table["kind"]] if is_above else [f"layer {n}" for n in names]
        hover = [
            f"<b>{label}</b><br>{VIEWS[view].bars[:-3]}: {v:.1f}%<br>{VIEWS[view].marks}: {e:.1f}%"
            for label, v, e in zip(labels, value, even, strict=True)
        ]
        axes = {"xaxis": "x", "yaxis": "y2"} if is_above else {"xaxis": "x2", "yaxis": "y"}
        figure.add_trace(
            go.Bar(
                x=places if is_above else value, y=value if is_above else places,
                orientation="v" if is_above else "h", marker={"color": BAR, "line": {"width": 0}}, width=0.7,
                hovertext=hover, hovertemplate="%{hovertext}<extra></extra>", showlegend=False,
                name="by module" if is_above else "by layer", **axes,
            )
        )  # fmt: skip
        figure.add_trace(
            go.Scatter(
                x=places if is_above else even, y=even if is_above else places, mode="markers", hoverinfo="skip",
                marker={"symbol": "line-ew" if is_above else "line-ns", "size": 16 if is_above else 14,
                        "line": {"width": 2, "color": INK[theme]}},
                showlegend=False, name=VIEWS[view].marks, **axes,
            )
        )  # fmt: skip


def _cell_words(row: dict, names: tuple[str, str]) -> str:
    lines = [
        f"<b>layer {layer_name(row['layer'])}, {kind_style(row['kind']).title}</b>",
        f"{row['selected']:,} of {row['total']:,} entries",
        f"{_ratio(row['density_ratio'])}× the average density",
        f"{100 * row['share']:.1f}% of the region",
    ]
    if not pd.isna(row.get("movement_share")):
        lines.append(f"holds {100 * row['movement_share']:.1f}% of the squared movement")
    if not pd.isna(row.get("iou")):
        words = [("only_a", f"only {names[0]}"), ("both", "both"), ("only_b", f"only {names[1]}")]
        if names[0] == SURPLUS:
            words = [("both", "suffice"), ("only_a", SURPLUS)]
        lines.append(", ".join(f"{formats.number(row[name], 0)} {word}" for name, word in words))
        if names[0] != SURPLUS:
            lines.append(f"IoU {_percent(row['iou'])}% ({_percent(row['chance'])}% by chance)")
    if not pd.isna(row.get("dense")):
        lines.append(f"{_percent(row['dense'])}% of the regions are denser here than on average")
    return "<br>".join(lines)


def _ratio(value: float, is_crowded: bool = False) -> str:
    """`0.31`, `2.4` or `12`: a ratio in as few characters as a cell has room for; empty if it is NaN.

    Between many columns `0.3` and `.03`.
    """
    if np.isnan(value):
        return ""
    if is_crowded and 0.005 <= value < 0.95:
        return f"{value:.1f}" if value >= 0.095 else f"{value:.2f}".removeprefix("0")
    if 0 < value < 0.005:
        return "<0.01"
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def _percent(share: float) -> str:
    """`0.3`, `12` or `<0.1`: a share in percent, in as few characters."""
    if np.isnan(share):
        return ""
    value = 100 * share
    return "0" if value == 0 else "<0.1" if value < 0.05 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _map_axes(figure: go.Figure, names: list[str], kinds: list[str], starts: Mapping[str, str]) -> None:
    """Set the map's own axes; it fills the figure. The first layer of a stack has its name."""
    step = 1 if len(names) <= 16 else 2 if len(names) <= 32 else 4
    rows = [row for row, name in enumerate(names) if row % step == 0 or name in starts]
    name_columns(figure, [SHORT.get(k, k) for k in kinds], fixedrange=True)
    figure.update_yaxes(
        tickvals=rows,
        ticktext=[f"{starts[names[row]]} {names[row]}" if names[row] in starts else names[row] for row in rows],
        range=[len(names) - 0.5, -0.5],
        fixedrange=True,
        showgrid=False,
    )
    figure.update_layout(hoverdistance=-1)  # a click anywhere in a wide cell finds its mark


def _side_axes(figure: go.Figure, above: float, title: str) -> None:
    """Set the axes of the bars above the map and on its right; `above` is the part of the height for the upper bars."""
    side = {
        "title": {"text": title, "font": {"size": 11}},
        "nticks": 3,
        "rangemode": "tozero",
        "showline": False,
        "fixedrange": True,
    }
    figure.update_layout(
        xaxis_domain=[0, CELL_FRACTION],
        yaxis_domain=[0, 1 - above],
        xaxis2=side | {"domain": [CELL_FRACTION + 0.02, 1], "anchor": "y", "showgrid": True},
        yaxis2=side | {"domain": [1 - above + 0.02, 1], "anchor": "x", "showgrid": True},
    )


def _frame(figure: go.Figure, table: pd.DataFrame, chosen: tuple[int | None, str], theme: str) -> None:
    layer, kind = chosen
    same_layer = np.array([layer_name(v) == layer_name(layer) for v in table["layer"]])
    hit = table[(table["kind"] == kind).to_numpy() & same_layer]
    for x, y in zip(hit["x"], hit["y"], strict=True):
        edges = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
        for color, width in ((GROUND[theme], 5), (INK[theme], 2.5)):
            figure.add_shape(type="rect", **edges, line={"color": color, "width": width})


def _check(entries: pd.DataFrame, rows: int, cols: int) -> None:
    require(entries, ("row", "col"), "entries")
    outside = (entries["row"] < 0) | (entries["row"] >= rows) | (entries["col"] < 0) | (entries["col"] >= cols)
    if outside.any():
        raise ValueError(f"entries: {int(outside.sum())} lie outside the tensor of {rows} x {cols}")


def tensor_map(entries: pd.DataFrame, rows: int, cols: int, *, theme: str = "light", height: int = 380) -> go.Figure:
    """The tensor's selected entries: a dot each, or, if there are many, exact counts by block.

    Blocks are at most 96 along each side and have whole numbers of rows and columns; their counts sum to the number of
    entries. Row 0 is at the top.
    """
    _check(entries, rows, cols)
    x, y = f"column, index (of {cols:,})", f"row, index (of {rows:,})"
    height = 170 if rows == 1 else height
    if entries.empty:
        return blank(NOTHING_HERE, theme, height, x, y)
    figure = canvas(theme, height, x, y)
    if len(entries) <= MOST_DOTS:
        figure.add_trace(_dots(entries, theme, rows == 1))
    else:
        counts, tall, wide = block_counts(entries, rows, cols)
        bar = colour_bar(figure, f"entries in a block of {tall} × {wide}, count")
        figure.add_trace(_blocks(counts, tall, wide, theme, bar))
    figure.update_xaxes(range=[-0.5, cols - 0.5], showline=True, mirror=True, tickformat=",d")
    figure.update_yaxes(range=[rows - 0.5, -0.5], showline=True, mirror=True, showgrid=False, tickformat=",d")
    if rows == 1:
        figure.update_yaxes(tickvals=[0])
    return figure


def block_counts(entries: pd.DataFrame, rows: int, cols: int, most: int = MOST_BLOCKS) -> tuple[np.ndarray, int, int]:
    """Return counts of entries by block, and the block's height and width in rows and columns (the last may be cut)."""
    tall, wide = -(-rows // most), -(-cols // most)
    down, across = -(-rows // tall), -(-cols // wide)
    block = (entries["row"].to_numpy() // tall) * across + entries["col"].to_numpy() // wide
    return np.bincount(block, minlength=down * across).reshape(down, across), tall, wide


def _dots(entries: pd.DataFrame, theme: str, vector: bool) -> go.Scatter:
    mark = {"symbol": "line-ns", "size": 26, "line": {"width": 1.5, "color": INK[theme]}}
    dot = {"symbol": "square", "size": 4, "color": INK[theme]}
    return go.Scatter(
        x=entries["col"],
        y=entries["row"],
        mode="markers",
        name="selected entries",
        showlegend=False,
        marker=mark if vector else dot,
        hovertemplate="row %{y:,}, column %{x:,}<extra></extra>",
    )


def _blocks(counts: np.ndarray, tall: int, wide: int, theme: str, bar: dict) -> go.Heatmap:
    # The end of the scale that resembles the background is left out, because an empty block shows the background
    # itself.
    ends = (0.0, 0.85) if theme == "light" else (0.3, 1.0)
    return go.Heatmap(
        z=np.where(counts > 0, counts.astype(float), np.nan),
        colorscale=sample_colorscale(DENSITY, list(np.linspace(*ends, 9))),
        colorbar=bar,
        zmin=0,
        x0=(wide - 1) / 2,
        dx=wide,
        y0=(tall - 1) / 2,
        dy=tall,
        name="selected entries",
        hovertemplate="%{z:,} entries<br>around row %{y:,.0f}, column %{x:,.0f}<extra></extra>",
    )


def top_lines(
    entries: pd.DataFrame,
    rows: int,
    cols: int,
    *,
    axis: str = "row",
    top: int = 10,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """The rows (or columns) with the most selected entries, as bars, most first; ties by index.

    The line marks the mean over all rows (or columns) of the tensor.
    """
    _check(entries, rows, cols)
    if axis not in ("row", "column"):
        raise ValueError(f"axis={axis!r} is not known; it is 'row' or 'column'")
    length, name = (rows, "row") if axis == "row" else (cols, "col")
    x = "selected entries, count"
    if entries.empty:
        return blank(NOTHING_HERE, theme, height or 240, x, f"{axis}, index")
    counts = np.bincount(entries[name].to_numpy(), minlength=length)
    best = np.lexsort((np.arange(length), -counts))[:top]
    best = best[counts[best] > 0]
    return _bars([f"{i:,}" for i in best], counts[best], len(entries) / length, f"{axis}, index", theme, height)


def head_map(
    heads: pd.DataFrame, *, chosen: int | None = None, theme: str = "light", height: int | None = None
) -> go.Figure:
    """Selected entries by layer and attention head, the count in every cell with room; `chosen` layer framed.

    `heads`: layer, head (int, from 0), selected; one row each.
    """
    require(heads, ("layer", "head", "selected"), "heads")
    x, y = "head (first = 0)", "layer (first = 0)"
    if heads.empty or not heads["selected"].any():
        return blank(NOTHING_HERE, theme, height or 240, x, y)
    layers, columns = sorted(heads["layer"].unique()), sorted(heads["head"].unique())
    figure = canvas(theme, height or 110 + 24 * len(layers), x, y)
    z = (
        heads.pivot(index="layer", columns="head", values="selected")
        .reindex(index=layers, columns=columns)
        .to_numpy(float)
    )
    most = float(np.nanmax(z))
    is_roomy = len(columns) <= 12 and most < 1000
    words = [[f"{v:.0f}" if is_roomy and not np.isnan(v) else "" for v in row] for row in z]
    hover = [
        [
            f"layer {layer}, head {head}: {0 if np.isnan(v) else v:,.0f} entries"
            for head, v in zip(columns, row, strict=True)
        ]
        for layer, row in zip(layers, z, strict=True)
    ]
    printed(figure, z, words, shades(theme), 0.0, most, size=9, hover=hover)
    figure.update_xaxes(tickvals=list(range(len(columns))), ticktext=[str(c) for c in columns], showline=False)
    figure.update_yaxes(
        tickvals=list(range(len(layers))),
        ticktext=[str(n) for n in layers],
        range=[len(layers) - 0.5, -0.5],
        showgrid=False,
    )
    if chosen in layers:
        place = layers.index(chosen)
        edges = {"x0": -0.5, "x1": len(columns) - 0.5, "y0": place - 0.5, "y1": place + 0.5}
        figure.add_shape(type="rect", **edges, line={"color": INK[theme], "width": 2})
    return figure


def _bars(names: list[str], counts: np.ndarray, mean: float, y: str, theme: str, height: int | None) -> go.Figure:
    figure = canvas(theme, height or 120 + 22 * len(names), "selected entries, count", y)
    figure.add_trace(
        go.Bar(
            x=counts,
            y=names,
            orientation="h",
            showlegend=False,
            name="selected entries",
            marker={"color": BAR, "line": {"width": 0}},
            hovertemplate="<b>%{y}</b>: %{x:,} entries<extra></extra>",
        )
    )
    line = {"color": INK[theme], "width": 2, "dash": "5px,3px"}
    figure.add_trace(go.Scatter(x=[None], y=[None], mode="lines", line=line, name=f"mean, {mean:,.3g}"))
    figure.add_vline(x=mean, line=line)
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1], showgrid=False, dtick=1)
    figure.update_xaxes(showgrid=True, rangemode="tozero")
    return figure


def shares_by_layer(layers: pd.DataFrame, *, theme: str = "light", height: int = 360) -> go.Figure:
    """Share of the selected entries by layer (paper, Fig. 9), one line for all and one for each common kind.

    The KINDS kinds of modules with the most entries have a line. A line sums to 100% and is named at its end.
    """
    y = "share of the kind's entries, %"
    table = cells(layers)
    selected = table.groupby("kind")["selected"].sum()
    if selected.sum() == 0:
        return blank(NOTHING, theme, height, LAYER, y)
    figure, names = canvas(theme, height, LAYER, y), layer_names(table)
    everything = Style("all kinds", INK[theme], "hourglass", "solid")  # a marker that no kind of the table has
    largest = selected[selected > 0].nlargest(KINDS).index
    kinds = [kind for kind in kinds_of(table) if kind in largest]
    groups = [(everything, table), *((kind_style(k), table[table["kind"] == k]) for k in kinds)]
    for style, rows in groups:
        counts = rows["selected"].groupby([layer_name(v) for v in rows["layer"]]).sum().reindex(names, fill_value=0)
        figure.add_trace(_layer_line(style, names, counts.to_numpy(), int(counts.sum())))
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, range=[-0.4, len(names) - 0.8])
    figure.update_yaxes(range=[0, 1.06 * max(max(line.y) for line in figure.data)])
    name_category_ends(figure)
    return figure


def _layer_line(style: Style, names: list[str], counts: np.ndarray, base: int) -> go.Scatter:
    return go.Scatter(
        x=names,
        y=100 * counts / base,
        mode="lines+markers",
        name=style.title,
        line=style.line(),
        marker=style.marker(7),
        customdata=counts,
        hovertemplate=f"<b>{style.title}</b>, layer %{{x}}<br>%{{y:.1f}}%<br>%{{customdata:,}} entries<extra></extra>",
    )


def shares_by_kind(layers: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """Share of the selected entries by module kind, with the share in a uniform region (paper, Fig. 10)."""
    x, y = "share of the region, %", "module kind"
    table = cells(layers)
    if table["selected"].sum() == 0:
        return blank(NOTHING, theme, height or 320, x, y)
    kinds = kinds_of(table)
    sums = table.groupby("kind")[["selected", "total"]].sum().reindex(kinds)
    share, fair = (100 * sums[c] / sums[c].sum() for c in ("selected", "total"))
    words = [SHORT.get(k, k) for k in kinds]
    hover = [
        f"{s:,} of {t:,} entries, {a / b:.2g} × the average density"
        for s, t, a, b in zip(sums["selected"], sums["total"], share, fair, strict=True)
    ]
    figure = canvas(theme, height or 130 + 28 * len(kinds), x, y)
    figure.add_trace(
        go.Bar(
            x=share,
            y=words,
            orientation="h",
            name="share of the region",
            hovertext=hover,
            marker={"color": BAR, "line": {"width": 0}},
            hovertemplate="<b>%{y}</b><br>%{x:.1f}% of the region<br>%{hovertext}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=fair,
            y=words,
            mode="markers",
            name="if spread evenly (uniform)",
            marker={"symbol": "line-ns", "size": 20, "line": {"color": INK[theme], "width": 2.5}},
            hovertemplate="<b>%{y}</b><br>uniform: %{x:.1f}%<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", showgrid=False, tickmode="linear", dtick=1, ticklabelstandoff=5)
    figure.update_xaxes(showgrid=True, rangemode="tozero")
    return figure
