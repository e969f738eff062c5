"""Slow twin of expressions: every entry of every parameter is checked separately; the algebra uses sets."""

from __future__ import annotations

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
    row = place[0] if len(place) > 1 else 0
    wanted = {r for value in expression.get("rows", []) for r in spread(value)}
    return (
        ("layers" not in expression or parameter.layer in expression["layers"])
        and ("kinds" not in expression or kind_of(parameter, place) in expression["kinds"])
        and ("parameters" not in expression or parameter.name in expression["parameters"])
        and ("biases" not in expression or parameter.is_bias == expression["biases"])
        and ("rows" not in expression or row in wanted)
    )


def spread(value):
    """The rows given by a number or [first, last]."""
    return range(value[0], value[1] + 1) if isinstance(value, list) else [value]


def kind_of(parameter, place):
    """The kind of one entry; query, key and value are thirds of each group along the fused axis."""
    if parameter.fused is None:
        return parameter.kind
    length = parameter.shape[parameter.fused.axis]
    blocks = np.split(np.arange(length), 3 * parameter.fused.groups)
    number = next(i for i, block in enumerate(blocks) if place[parameter.fused.axis] in block)
    return ("query", "key", "value")[number % 3]
