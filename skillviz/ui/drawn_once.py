"""Figures serialized so that the browser draws them once.

Streamlit passes each figure to plotly.js twice: when the page is mounted, and as a copy right after. plotly.js redraws
the copy unless it can detect that nothing has changed. It can if arrays are plain lists (a typed array counts as
changed), the layout has a data revision, there is no template (it counts as changed too) and Streamlit has nothing to
fill in.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, Literal

import plotly.graph_objects as go
from plotly.basedatatypes import BaseFigure
from plotly.io import to_json

from skillviz.plots.as_text import as_lists

CARTESIAN = {"scatter", "scattergl", "bar", "heatmap"}
AXIS = re.compile(r"[xy]axis\d*")
By = Literal["points", "box"]
DRAG = {"points": "pan", "box": "select"}
"""Streamlit's drag mode for selecting single marks or an area."""


class Written(BaseFigure):
    """A figure as the text that the browser gets, from which Streamlit's queries are answered.

    Streamlit would first copy and encode every part of a plotly figure, at each visit of a page.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def to_dict(self) -> dict[str, Any]:
        """The figure's parts, as a new dictionary that the caller may change."""
        parts: dict[str, Any] = json.loads(self._text)
        return parts


def drawn_once(figure: go.Figure, *, by: By | None = None) -> Written:
    """The figure as plain lists, with a hash of its content as revision; `by` is the kind of selection it allows."""
    plain: dict[str, Any] = as_lists(figure.to_dict())
    layout = plain["layout"] = without_template(plain.get("layout", {}), plain["data"])
    if by is not None:
        layout.setdefault("clickmode", "event+select" if by == "points" else "event")
        layout.setdefault("hovermode", "closest")
        layout["dragmode"] = layout.get("dragmode") or DRAG[by]
    content = to_json(plain, validate=False)  # the figure was validated before
    layout["datarevision"] = hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()
    return Written(to_json(plain, validate=False))


def without_template(layout: dict[str, Any], traces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The layout with its template's values filled in; unchanged if the template has values that ours do not have."""
    template = layout.get("template", {})
    if template.keys() - {"layout"} or any(trace.get("type", "scatter") not in CARTESIAN for trace in traces):
        return layout
    ours = {name: value for name, value in layout.items() if name != "template"}
    axes = {"xaxis", "yaxis", *filter(AXIS.fullmatch, ours)}
    axes |= {f"{letter}axis{trace.get(f'{letter}axis', letter)[1:]}" for trace in traces for letter in "xy"}
    defaults = dict(template.get("layout", {}))
    of_axes = {letter: defaults.pop(f"{letter}axis", {}) for letter in "xy"}
    return _merged({**defaults, **{axis: of_axes[axis[0]] for axis in sorted(axes)}}, ours)


def _merged(defaults: Any, own: Any) -> Any:
    if not isinstance(defaults, dict) or not isinstance(own, dict):
        return own
    return {**defaults, **{name: _merged(defaults.get(name), value) for name, value in own.items()}}
