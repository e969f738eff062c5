"""Slow twin of recipes: every entry of every parameter asked on its own, sets for the algebra."""

from __future__ import annotations

from itertools import product

import numpy as np


def entries(recipe, table, runs):
    """The recipe's entries as a set of (name, place); `runs` maps an id to its ranked entries and main size."""
    if "run" in recipe:
        order, size = runs[recipe["run"]]
        return set(order[: recipe.get("size", size)])
    for name in ("union", "intersection", "difference"):
        if name in recipe:
            first, *others = [entries(part, table, runs) for part in recipe[name]]
            for other in others:
                first = {"union": first | other, "intersection": first & other, "difference": first - other}[name]
            return first
    return {(p.name, i) for p in table.parameters for i, place in enumerate(product(*map(range, p.shape)))
            if meets(recipe, p, place)}  # fmt: skip


def meets(recipe, parameter, place):
    """Whether the entry at `place` (one number an axis) meets every condition."""
    row = place[0] if len(place) > 1 else 0
    wanted = {r for value in recipe.get("rows", []) for r in spread(value)}
    return (
        ("layers" not in recipe or parameter.layer in recipe["layers"])
        and ("kinds" not in recipe or kind_of(parameter, place) in recipe["kinds"])
        and ("parameters" not in recipe or parameter.name in recipe["parameters"])
        and ("biases" not in recipe or parameter.is_bias == recipe["biases"])
        and ("rows" not in recipe or row in wanted)
    )


def spread(value):
    """The rows that a number or [first, last] stands for."""
    return range(value[0], value[1] + 1) if isinstance(value, list) else [value]


def kind_of(parameter, place):
    """The kind of one entry; query, key and value lie in thirds of each group along the fused axis."""
    if parameter.fused is None:
        return parameter.kind
    length = parameter.shape[parameter.fused.axis]
    blocks = np.split(np.arange(length), 3 * parameter.fused.groups)
    number = next(i for i, block in enumerate(blocks) if place[parameter.fused.axis] in block)
    return ("query", "key", "value")[number % 3]
