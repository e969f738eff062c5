"""Which entries of a tensor belong to which attention head."""

from __future__ import annotations

import numpy as np

from skillviz.core.architectures import ATTENTION_OUTPUT, FAMILIES, KEY, QUERY, UNKNOWN, VALUE
from skillviz.core.parameters import Parameter, ParameterTable

HEADED = {QUERY: "row", KEY: "row", VALUE: "row", ATTENTION_OUTPUT: "column"}
"""Along which axis of a weight its heads lie, in equal consecutive parts."""
SWAPPED = {"row": "column", "column": "row"}


def head_axis(model_type: str, kind: str) -> str | None:
    """`row` or `column`: along which axis the heads of a module's weight lie; None for a module without heads."""
    axis = HEADED.get(kind)
    if axis and FAMILIES.get(model_type, UNKNOWN).fused_axis == 1:  # GPT-2 stores its weights transposed
        return SWAPPED[axis]
    return axis


def head_count(table: ParameterTable, length: int) -> int:
    """How many heads an axis of this length holds: with grouped queries, key and value have fewer than the query.

    0 where the table does not tell, or the heads do not divide the axis.
    """
    if not table.heads:
        return 0
    query = next((p for p in table.parameters if p.kind == QUERY and not p.is_bias), None)
    width = query.rows // table.heads if query is not None else length // table.heads
    return length // width if width and length % width == 0 else 0


def head_numbers(table: ParameterTable, parameter: Parameter, flat: np.ndarray) -> np.ndarray:
    """The head of each entry, from 0, for flat indices into the tensor: int64 [n]; -1 for an entry of no head.

    Key and value heads are numbered among themselves: with grouped queries several query heads share one.
    """
    nowhere = np.full(len(flat), -1, dtype=np.int64)
    if parameter.fused is not None:
        axis, length = parameter.fused.axis, parameter.shape[parameter.fused.axis]
        kinds = parameter.fused.kind_numbers(parameter.shape)
        inside = np.empty(length, dtype=np.int64)  # place of each position among those of its kind
        for kind in range(len(parameter.kinds)):
            inside[kinds == kind] = np.arange(int((kinds == kind).sum()))
        along, length = inside[np.unravel_index(flat, parameter.shape)[axis]], length // len(parameter.kinds)
    else:
        name = head_axis(table.model_type, parameter.kind)
        if name is None or (parameter.is_bias and parameter.kind == ATTENTION_OUTPUT):
            return nowhere
        is_row = name == "row" and not parameter.is_bias
        length = parameter.rows if is_row else parameter.cols
        along = flat // parameter.cols if is_row else flat % max(parameter.cols, 1)
    heads = head_count(table, length)
    return along // (length // heads) if heads else nowhere
