"""A figure as plain lists, so that it can be written as JSON, stored, and read again without loss."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.utils import PlotlyJSONEncoder


def to_text(figure: go.Figure) -> str:
    """Return the figure as JSON without encoded arrays."""
    return json.dumps(as_lists(figure.to_dict()), cls=PlotlyJSONEncoder)


def from_text(text: str) -> go.Figure:
    """Return a new figure from the text of `to_text`; its arrays are tuples."""
    return go.Figure(json.loads(text))


def as_lists(value: Any) -> Any:
    """Return the value with every array in it as a list, including arrays that plotly has encoded."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        if value.keys() >= {"dtype", "bdata"}:
            return _decoded(value).tolist()
        return {key: as_lists(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_lists(part) for part in value]
    return value


def _decoded(encoded: dict[str, Any]) -> np.ndarray:
    array = np.frombuffer(base64.b64decode(encoded["bdata"]), dtype=np.dtype(encoded["dtype"]))
    shape = encoded.get("shape")
    return array if shape is None else array.reshape([int(length) for length in str(shape).split(",")])
