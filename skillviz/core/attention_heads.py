"""The assignment of a tensor's entries to attention heads."""

from __future__ import annotations

import numpy as np

from skillviz.core.architectures import ATTENTION_OUTPUT, CROSS_OUTPUT, ROW
from skillviz.core.parameters import Parameter, ParameterTable


def head_count(table: ParameterTable, length: int) -> int:
    """The number of heads along an axis: with grouped queries, key and value have fewer than the query.

    0 if the table does not say, or the heads do not divide the axis.
    """
    if not table.head_axes:
        return 0
    width = table.head_width or length // (table.heads or 1)
    return length // width if width and length % width == 0 else 0


def heads_of_kind(table: ParameterTable, parameter: Parameter, kind: str) -> int:
    """Return how many heads the parameter's part of this kind holds; 0 if it is not divided into heads."""
    axis = table.head_axes.get(kind)
    if axis is None or (parameter.is_bias and kind in (ATTENTION_OUTPUT, CROSS_OUTPUT)):  # heads share its bias
        return 0
    count = head_count(table, _length(parameter, kind, axis))
    # The output reads every head; if the counts differ, its columns belong to a group of a convolution.
    return 0 if kind in (ATTENTION_OUTPUT, CROSS_OUTPUT) and count != table.heads else count


def head_numbers(table: ParameterTable, parameter: Parameter, flat: np.ndarray) -> np.ndarray:
    """The head of each entry, from 0, for flat indices into the tensor: int64 [n]; -1 for an entry without a head.

    Key and value heads have their own numbers: with grouped queries several query heads share one.
    """
    numbers = np.full(len(flat), -1, dtype=np.int64)
    parts = parameter.kind_numbers(flat)
    for part, kind in enumerate(parameter.kinds):
        if heads := heads_of_kind(table, parameter, kind):
            inside = parts == part
            length = _length(parameter, kind, table.head_axes[kind])
            numbers[inside] = _along(table, parameter, flat[inside], part) // (length // heads)
    return numbers


def _length(parameter: Parameter, kind: str, axis: str) -> int:
    """Return the length of the kind's part along the axis of its heads."""
    shape = parameter.part_shape(parameter.kinds.index(kind))
    rows = shape[0] if len(shape) > 1 else 1
    is_row = axis == ROW and not parameter.is_bias
    return rows if is_row else int(np.prod(shape)) // rows


def _along(table: ParameterTable, parameter: Parameter, flat: np.ndarray, part: int) -> np.ndarray:
    """Return the position of each entry of a part along the axis of its heads, counted inside the part."""
    if parameter.fused is not None:
        kinds = parameter.fused.kind_numbers(parameter.shape)
        return (np.cumsum(kinds == part) - 1)[np.unravel_index(flat, parameter.shape)[parameter.fused.axis]]
    is_row = table.head_axes[parameter.kinds[part]] == ROW and not parameter.is_bias
    return flat // parameter.cols if is_row else flat % max(parameter.cols, 1)
