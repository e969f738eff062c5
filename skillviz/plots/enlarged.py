"""A figure for projection in a room: the same figure, with type, marks, lines and height a little larger."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

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
