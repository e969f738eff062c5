"""Where the region lies: its density by layer and module kind, as a map whose cells can be selected.

The frame is that of layers.parquet, one row a parameter and kind: layer (number from 0, or missing outside
the blocks), kind, is_bias, selected, total.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas, colour_bar, ordered, require
from skillviz.plots.theme import DENSITY, GROUND, INK, MODULE_KINDS, SOFT_INK, kind_style

COLUMNS = ("layer", "kind", "is_bias", "selected", "total")
LAYER = "layer (first = 0)"
SHORT = {"attention output": "attn out", "bias": "biases"}
NOTHING = "This region has no entries yet."


def cells(layers: pd.DataFrame) -> pd.DataFrame:
    """One row a layer and column of the map: layer, kind, selected, total, share, enrichment.

    Biases of all kinds are one column, `bias`. `share` is of all selected entries (0..1, sums to 1);
    `enrichment` is the cell's density over the density of the whole region (1 = its fair share, 0 = none).
    """
    require(layers, COLUMNS, "layers")
    kind = layers["kind"].where(~layers["is_bias"].astype(bool), "bias")
    keyed = layers[["layer", "selected", "total"]].assign(kind=kind)
    grouped = keyed.groupby(["layer", "kind"], dropna=False, sort=True)[["selected", "total"]].sum().reset_index()
    grouped = grouped[grouped["total"] > 0].reset_index(drop=True)
    selected, total = int(grouped["selected"].sum()), int(grouped["total"].sum())
    grouped["share"] = grouped["selected"] / max(selected, 1)
    grouped["enrichment"] = grouped["selected"] / grouped["total"] * (total / max(selected, 1))
    return grouped


def kinds_of(table: pd.DataFrame) -> list[str]:
    """The kinds that occur, in the order of the columns."""
    return ordered(table["kind"], MODULE_KINDS)


def layer_names(table: pd.DataFrame) -> list[str]:
    """Layers in order, as words; entries outside any layer come last as `none`."""
    numbers = sorted({int(x) for x in table["layer"].dropna()})
    return [str(n) for n in numbers] + (["none"] if table["layer"].isna().any() else [])


def layer_name(layer: float | None) -> str:
    """`3`, or `none` where the entries lie in no layer."""
    return "none" if layer is None or pd.isna(layer) or layer < 0 else str(int(layer))


def density_map(
    layers: pd.DataFrame,
    *,
    chosen: tuple[int | None, str] | None = None,
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """Layer by module kind, coloured by log2 enrichment ("x its fair share"); cells can be selected.

    A heatmap fills the cells at any width; the square markers on it are what a click selects, each with
    `customdata = [layer, kind]` (layer -1 where there is none; kind `bias` for the biases). Cells without a
    selected entry are empty outlines. `chosen`, in the words of customdata, draws a frame around it.
    """
    table = cells(layers)
    if table.empty:
        return blank(NOTHING, theme, height or 320, "module kind", LAYER)
    names, kinds = layer_names(table), kinds_of(table)
    cell = 34 if len(names) <= 8 else 26 if len(names) <= 16 else 18
    figure = canvas(theme, height or 150 + cell * len(names), "module kind", LAYER)
    table = table.assign(
        x=[kinds.index(k) for k in table["kind"]], y=[names.index(layer_name(v)) for v in table["layer"]]
    )
    filled, empty = table[table["selected"] > 0], table[table["selected"] == 0]
    density = np.full((len(names), len(kinds)), np.nan)
    density[filled["y"], filled["x"]] = np.log2(filled["enrichment"])
    figure.add_trace(go.Heatmap(z=density, coloraxis="coloraxis", xgap=2, ygap=2, hoverinfo="skip", name="density"))
    size = min(22, cell - 6)
    coloured = {"symbol": "square", "size": size, "color": np.log2(filled["enrichment"]), "coloraxis": "coloraxis"}
    unseen = {"symbol": "square", "size": size, "color": "rgba(0,0,0,0)"}
    figure.add_trace(_squares(filled, "cells with selected entries", coloured, theme))
    figure.add_trace(_squares(empty, "cells without", unseen, theme))
    figure.add_trace(outlines(empty, theme))
    _map_axes(figure, names, kinds)
    _colour_scale(figure, filled)
    if chosen is not None:
        _frame(figure, table, chosen, theme)
    return figure


def outlines(empty: pd.DataFrame, theme: str) -> go.Scatter:
    """The edges of the cells at x and y, which hold no selected entry, as one broken line."""
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


def _squares(rows: pd.DataFrame, name: str, marker: dict, theme: str) -> go.Scatter:
    """The marks that a click selects. An unselected one keeps its look, so that the map stays a map."""
    return go.Scatter(
        x=rows["x"],
        y=rows["y"],
        mode="markers",
        name=name,
        showlegend=False,
        marker=marker,
        selected={"marker": {"color": INK[theme]}},
        unselected={"marker": {"opacity": 1}},
        customdata=[[-1 if pd.isna(v) else int(v), k] for v, k in zip(rows["layer"], rows["kind"], strict=True)],
        hovertext=[_cell_words(row) for row in rows.to_dict("records")],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _cell_words(row: dict) -> str:
    return (
        f"<b>layer {layer_name(row['layer'])}, {kind_style(row['kind']).title}</b><br>"
        f"{row['selected']:,} of {row['total']:,} entries<br>{row['enrichment']:.2g} × its fair share<br>"
        f"{100 * row['share']:.1f} % of the region"
    )


def _map_axes(figure: go.Figure, names: list[str], kinds: list[str]) -> None:
    words = [SHORT.get(k, k) for k in kinds]
    step = 1 if len(names) <= 16 else 2 if len(names) <= 32 else 4
    figure.update_xaxes(
        tickvals=list(range(len(kinds))),
        ticktext=words,
        range=[-0.5, len(kinds) - 0.5],
        showline=False,
        autotickangles=[0, 60, 90],
    )
    figure.update_yaxes(
        tickvals=list(range(0, len(names), step)),
        ticktext=names[::step],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
    )
    figure.update_layout(hoverdistance=-1)  # a click anywhere in a wide cell finds its mark


def _colour_scale(figure: go.Figure, filled: pd.DataFrame) -> None:
    """Cividis from the rarest to the densest cell, in whole doublings, with 1 x always on the scale."""
    logs = np.log2(filled["enrichment"].to_numpy(float)) if len(filled) else np.zeros(1)
    low, high = min(-1, int(np.floor(logs.min()))), max(1, int(np.ceil(logs.max())))
    step = 1 if high - low <= 6 else 2 if high - low <= 12 else 4
    ticks = [t for t in range(low, high + 1) if t % step == 0]
    bar = colour_bar(figure, "density, × its fair share") | {"tickvals": ticks, "ticktext": [_times(t) for t in ticks]}
    figure.update_layout(coloraxis={"colorscale": DENSITY, "cmin": low, "cmax": high, "colorbar": bar})


def _times(doublings: int) -> str:
    return f"{2**doublings:,}×" if doublings >= 0 else f"1/{2**-doublings:,}×"


def _frame(figure: go.Figure, table: pd.DataFrame, chosen: tuple[int | None, str], theme: str) -> None:
    layer, kind = chosen
    same_layer = np.array([layer_name(v) == layer_name(layer) for v in table["layer"]])
    hit = table[(table["kind"] == kind).to_numpy() & same_layer]
    for x, y in zip(hit["x"], hit["y"], strict=True):
        edges = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
        for color, width in ((GROUND[theme], 5), (INK[theme], 2.5)):
            figure.add_shape(type="rect", **edges, line={"color": color, "width": width})
