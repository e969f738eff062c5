"""Recolor a figure for the dark theme: each mark's color becomes its lighter counterpart."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import plotly.graph_objects as go

from skillviz.plots.theme import INK, dark_mark, marks

HEX = {color: dark_mark(color) for color in marks()}
FAINT = re.compile(r"rgba\((\d+),(\d+),(\d+),")
LEFT = ("template", "colorscale", "colorbar", "customdata")
"""Parts to leave unchanged: a scale's own colors keep the contrast with the values written on them."""
TYPE = ("font", "tickfont", "textfont")
# sizes in pixels, by the name of the part that has them; "" is the layout itself
PIXELS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(TYPE, ("size",)),
    "": ("height",),
    "marker": ("size",),
    "line": ("width",),
    "margin": ("l", "r", "t", "b"),
    "annotations": ("ax", "ay", "xshift", "yshift"),
    "title": ("standoff",),
    "error_x": ("thickness", "width"),
    "error_y": ("thickness", "width"),
    "colorbar": ("thickness",),
}


def with_dark_marks(figure: go.Figure) -> go.Figure:
    """Return a recolored copy if the figure has the dark theme's text color; else the figure itself."""
    if figure.layout.template.layout.font.color != INK["dark"]:
        return figure
    parts = figure.to_dict()
    return go.Figure(data=_lit(parts["data"], ""), layout=_lit(parts["layout"], ""))


def _lit(value: Any, name: str) -> Any:
    """Return a part with its marks' colors changed; `name` is the part's own."""
    if isinstance(value, dict):
        return {key: item if key in LEFT else _lit(item, key) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        value = value.tolist()
    if isinstance(value, list | tuple) and (name.endswith("color") or any(isinstance(item, dict) for item in value)):
        return [_lit(item, name) for item in value]
    return _color(value) if isinstance(value, str) and name.endswith("color") else value


def _color(color: str) -> str:
    """Return the color's counterpart, also for a transparent one; any other color is unchanged."""
    if seen_through := FAINT.match(color):
        mark = "#" + "".join(f"{int(channel):02X}" for channel in seen_through.groups())
        if mark not in HEX:
            return color
        channels = ",".join(str(int(HEX[mark][i : i + 2], 16)) for i in (1, 3, 5))
        return f"rgba({channels},{color[seen_through.end() :]}"
    return HEX.get(color, color)


def enlarged(figure: go.Figure, factor: float, of_type: float | None = None) -> go.Figure:
    """Return a copy with sizes in pixels multiplied by `factor`, and type sizes by `of_type`.

    The figure itself and its data's values are unchanged.
    """
    parts, of_type = figure.to_dict(), factor if of_type is None else of_type
    layout = _scaled(parts["layout"], "", factor, of_type)
    traces = [_scaled(trace, "trace", factor, of_type) for trace in parts["data"]]
    return go.Figure(data=traces, layout=layout)


def _scaled(value: Any, name: str, factor: float, of_type: float) -> Any:
    """Return a part with its pixels multiplied; `name` is the part's own."""
    if isinstance(value, dict):
        px = [key for key in PIXELS.get(name, ()) if value.get(f"{key}ref", "pixel") == "pixel"]
        times = of_type if name in TYPE else factor
        return {
            key: _times(item, times) if key in px else _scaled(item, key, factor, of_type)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        return [_scaled(item, name, factor, of_type) for item in value]
    return value


def _times(value: Any, factor: float) -> Any:
    """Multiply a number, or each of several, by the factor."""
    if isinstance(value, list | tuple):
        return [_times(item, factor) for item in value]
    return value * factor if isinstance(value, int | float) else value
