"""Slow twins of expressions and of parts: every entry is checked by itself; the algebra uses sets."""

from functools import reduce
from itertools import product

import numpy as np


def entries(expression, table, runs):
    """The expression's entries as a set of (name, position); `runs` maps an id to its ranked entries and main size."""
    if "run" in expression:
        order, size = runs[expression["run"]]
        return set(order[: expression.get("size", size)])
    for name in ("union", "intersection", "difference"):
        if name in expression:
            return reduce(getattr(set, name), (entries(part, table, runs) for part in expression[name]))
    return {(p.name, i) for p in table.parameters for i, place in enumerate(product(*map(range, p.shape)))
            if meets(expression, p, place)}  # fmt: skip


def meets(expression, parameter, place):
    """True if the entry at `place` (one number per axis) meets every condition."""
    wanted = {
        row
        for value in expression.get("rows", [])
        for row in (range(value[0], value[1] + 1) if isinstance(value, list) else [value])
    }
    return (
        ("layers" not in expression or parameter.layer in expression["layers"])
        and (
            "kinds" not in expression
            or kind_and_place(parameter, np.ravel_multi_index(place, parameter.shape))[0] in expression["kinds"]
        )
        and ("parameters" not in expression or parameter.name in expression["parameters"])
        and ("biases" not in expression or parameter.is_bias == expression["biases"])
        and ("rows" not in expression or (place[0] if len(place) > 1 else 0) in wanted)
    )


ATTENTION = ("query", "key", "value", "attention output")


def cell_of(parameter, flat: int) -> tuple[int | None, str, None]:
    """Layer and column of the map of one entry."""
    return parameter.layer, "bias" if parameter.is_bias else kind_and_place(parameter, flat)[0], None


def kind_and_place(parameter, flat: int) -> tuple[str, int, int]:
    """Kind of one entry, its position along the axis of the heads inside that kind's part, and that axis' length."""
    if parameter.fused is None:
        return parameter.kind, -1, -1
    axis = parameter.fused.axis
    length = parameter.shape[axis]
    width = length // (3 * parameter.fused.groups)
    block, inside = divmod(int(np.unravel_index(flat, parameter.shape)[axis]), width)
    return ("query", "key", "value")[block % 3], block // 3 * width + inside, length // 3


def row_of(parameter, flat: int) -> list[tuple[int | None, str, int]]:
    """Layer, kind and row of one entry of a matrix; none for a vector."""
    is_matrix = len(parameter.shape) == 2
    return [(parameter.layer, kind_and_place(parameter, flat)[0], flat // parameter.shape[1])] if is_matrix else []


def heads_of(parameter, flat: int, model_type: str, heads: int, width: int) -> list[int]:
    """The attention heads that use one entry; `width` is the width of a head."""
    kind, along, _ = kind_and_place(parameter, flat)
    if kind not in ATTENTION or (kind == "attention output" and parameter.is_bias):
        return []
    if along < 0:
        axis = 0 if parameter.is_bias or (kind != "attention output") == (model_type != "gpt2") else 1
        along, size = int(np.unravel_index(flat, parameter.shape)[axis]), parameter.shape[axis]
    else:
        size = parameter.shape[parameter.fused.axis] // 3
    share = heads // (size // width)  # query heads that share one key or value head
    return [along // width * share + k for k in range(share)]
