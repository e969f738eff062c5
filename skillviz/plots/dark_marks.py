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
