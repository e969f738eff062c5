"""Slow twin of region parts: one entry at a time, from the model's own names and shapes."""

from __future__ import annotations

import numpy as np

ATTENTION = ("query", "key", "value", "attention output")


def cell_of(parameter, flat: int) -> tuple[int | None, str, None]:
    """Layer and column of the map of one entry."""
    if parameter.is_bias:
        return parameter.layer, "bias", None
    return parameter.layer, kind_of(parameter, flat)[0], None


def kind_of(parameter, flat: int) -> tuple[str, int, int]:
    """Kind of one entry, its position along the axis of the heads inside that kind's part, and that axis' length."""
    index = np.unravel_index(flat, parameter.shape)
    if parameter.fused is None:
        return parameter.kind, -1, -1
    axis, groups = parameter.fused.axis, parameter.fused.groups
    length = parameter.shape[axis]
    width = length // (3 * groups)
    block, inside = divmod(int(index[axis]), width)
    return ("query", "key", "value")[block % 3], block // 3 * width + inside, length // 3


def row_of(parameter, flat: int) -> list[tuple[int | None, str, int]]:
    """Layer, kind and row of one entry of a matrix; none for a vector."""
    if len(parameter.shape) != 2:
        return []
    return [(parameter.layer, kind_of(parameter, flat)[0], flat // parameter.shape[1])]


def heads_of(parameter, flat: int, model_type: str, heads: int, width: int) -> list[int]:
    """The attention heads that use one entry; `width` is the width of a head."""
    kind, along, _ = kind_of(parameter, flat)
    if kind not in ATTENTION or (kind == "attention output" and parameter.is_bias):
        return []
    if along < 0:
        index = np.unravel_index(flat, parameter.shape)
        axis = 0 if parameter.is_bias or (kind != "attention output") == (model_type != "gpt2") else 1
        along, size = int(index[axis]), parameter.shape[axis]
    else:
        size = parameter.shape[parameter.fused.axis] // 3
    share = heads // (size // width)  # query heads that share one key or value head
    return [along // width * share + k for k in range(share)]
