"""A figure as JSON, and its parts with plain lists or with arrays; plotly encodes arrays of numbers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go


def to_text(figure: go.Figure) -> str:
    """Return the figure as JSON, from which `from_text` reads an equal one."""
    return str(figure.to_json(validate=False))


def from_text(text: str) -> go.Figure:
    """Return a new figure from the text of `to_text`, with arrays where the first one had them."""
    return go.Figure(decoded(json.loads(text), lambda array: array))


def as_lists(value: Any) -> Any:
    """Return the value with every array in it as a list, including arrays that plotly has encoded."""
    return decoded(value, np.ndarray.tolist)


def decoded(value: Any, of: Callable[[np.ndarray], Any]) -> Any:
    """Return the value with `of` applied to every array in it, including arrays that plotly has encoded."""
    if isinstance(value, np.ndarray):
        return of(value)
    if isinstance(value, dict):
        if value.keys() >= {"dtype", "bdata"}:
            array = np.frombuffer(base64.b64decode(value["bdata"]), dtype=np.dtype(value["dtype"]))
            shape = value.get("shape", len(array))
            return of(array.reshape([int(length) for length in str(shape).split(",")]))
        return {key: decoded(part, of) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [decoded(part, of) for part in value]
    return value
