"""The map of a region's parts, colored by the effect of each on a metric."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.cells import diverging, name_columns, printed
from skillviz.plots.figure import BAR_ROOM, blank, canvas, colour_bar, ordered, require
from skillviz.plots.region import LAYER, SHORT, layer_name, layer_names, outlines
from skillviz.plots.theme import MODULE_KINDS, kind_style

COLUMNS = ("layer", "kind", "head", "size", "value", "low", "high", "holds")
CELL, LEAST = 34, 120  # pixels of a row, and of axes
BAR = 0.95  # share of the width: the last number of a longer color bar is cut off


def effect_map(effects: pd.DataFrame, metric: str, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """Layer by module kind, head or expert: each part's change of the metric, in print and in color.

    Ochre is better and blue worse, on one scale around zero. A number in bold holds among all of them (the column
    `holds`); one whose interval excludes zero is never written as zero. Parts without entries in the region are empty.
    """
    require(effects, COLUMNS, "effects")
    words = metric_row(metric)
    is_numbered = effects["head"].notna().any()
    if effects.empty:
        return blank("No part of this region has been scored yet.", theme, height or 320, "module kind", LAYER)
    layers = layer_names(effects)
    columns = (
        [str(head) for head in range(int(effects["head"].max()) + 1)]
        if is_numbered
        else ordered(effects["kind"], MODULE_KINDS)
    )
    z = np.full((len(layers), len(columns)), np.nan)
    texts = np.full(z.shape, "", dtype=object)
    hover = np.full(z.shape, "", dtype=object)
    for row in effects.to_dict("records"):
        name = str(int(row["head"])) if is_numbered else str(row["kind"])
        place = layers.index(layer_name(row["layer"])), columns.index(name)
        value = words.scale * row["value"]
        exact = words.precise(row["low"], row["high"])
        text = _number(value, words.digits, exact.digits)
        z[place], texts[place] = words.sign * value, f"<b>{text}</b>" if row["holds"] else text
        hover[place] = (
            f"<b>layer {layer_name(row['layer'])}, {_title(row)}</b><br>{exact.change(row['value'])}<br>"
            f"{words.interval_text(row['low'], row['high'])}<br>{row['size']:,} entries"
        )
    limit = float(np.nanmax(np.abs(z))) or 1.0
    tall = height or LEAST + BAR_ROOM + (CELL if len(layers) <= 12 else 24) * len(layers)
    across = f"{effects['kind'].iloc[0] or 'head'} (first = 0)" if is_numbered else "module kind"
    figure = canvas(theme, tall, across, LAYER)
    printed(
        figure,
        z,
        texts.tolist(),
        diverging(theme),
        -limit,
        limit,
        size=12 if words.digits < 3 else 10,
        hover=hover.tolist(),
        gap=2,
    )
    bar = colour_bar(figure, words.difference_axis(f"change in {words.title}"))
    ends = [_number(words.sign * end, words.digits, words.digits) for end in (-limit, limit)]
    bar |= {
        "len": BAR,
        "tickvals": [-limit, -limit / 2, 0, limit / 2, limit],
        "ticktext": [ends[0], "worse", "0", "better", ends[1]],
    }
    figure.update_traces(selector={"name": "cells"}, showscale=True, colorbar=bar)
    empty_rows, empty_columns = np.nonzero(np.isnan(z))
    figure.add_trace(outlines(pd.DataFrame({"x": empty_columns, "y": empty_rows}), theme))
    name_columns(figure, columns if is_numbered else [SHORT.get(name, name) for name in columns])
    figure.update_yaxes(
        tickvals=list(range(len(layers))), ticktext=layers, range=[len(layers) - 0.5, -0.5], showgrid=False
    )
    figure.update_layout(showlegend=False)
    return figure


def _number(value: float, digits: int, exact: int) -> str:
    """`+2.1`, `−0.3`, `0.0`; if the value needs `exact` digits to differ from zero, `+4e−4`, which fits a cell."""
    text = f"{abs(value):.{digits}f}"
    if not float(text) and exact > digits and value:
        text = f"{abs(value):.0e}".replace("e-0", "e-").replace("-", formats.MINUS)
    return f"{'+' if value > 0 else formats.MINUS}{text}" if float(text.replace(formats.MINUS, "-")) else text


def _title(row: dict) -> str:
    return kind_style(row["kind"]).title if pd.isna(row["head"]) else f"{row['kind'] or 'head'} {int(row['head'])}"
