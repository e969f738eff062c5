"""Measures of how well a region finds a skill at a known place, where it was planted (skillviz.planted)."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from skillviz.core.region import Region
from skillviz.errors import BadInput


class Recovery(NamedTuple):
    """The overlap of a region with the true one; source: ours.

    `precision` is the share of its moved entries that are true, `chance` that share among all moved entries, `recall`
    its share of the true region's squared movement. `tensor` is the rank of the true tensor, the one with most of the
    true movement, when tensors are ordered by the share of their entries in the region; 1 is the densest, and ties
    share the mean of their ranks.
    """

    precision: float
    chance: float
    recall: float
    tensor: float


def recovery(region: Region, true: Region, movement: np.ndarray) -> Recovery:
    """Return the recovery of `true` by `region` in a fine-tuned model of this movement [d].

    The precision is NaN if none of the region's entries moved. Raises BadInput for regions of other parameters, or a
    true region that did not move.
    """
    if dict(region.shapes) != dict(true.shapes) or len(movement) != true.d:
        raise BadInput("the regions and the movement must be of the same parameters.")
    region = region.like(true.shapes)
    squares = movement.astype(np.float64) ** 2
    of_true, of_region, both = (squares[one.flat()] for one in (true, region, true & region))
    if not of_true.any():
        raise BadInput("the true region did not move, so there is no skill to find.")
    moved = np.count_nonzero(of_region)
    return Recovery(
        precision=np.count_nonzero(both) / moved if moved else float("nan"),
        chance=np.count_nonzero(of_true) / np.count_nonzero(squares),
        recall=float(both.sum() / of_true.sum()),
        tensor=_rank(region, true, squares),
    )


def _rank(region: Region, true: Region, squares: np.ndarray) -> float:
    """Return the rank of the true tensor by density of the region; ties share the mean of their ranks."""
    sizes = [prod(shape) for shape in region.shapes.values()]
    starts = np.cumsum([0, *sizes[:-1]])
    of_true = np.zeros_like(squares)
    of_true[true.flat()] = squares[true.flat()]
    right = int(np.argmax(np.add.reduceat(of_true, starts)))
    density = np.array([len(region.indices.get(name, ())) for name in region.shapes]) / sizes
    above, level = (density > density[right]).sum(), (density == density[right]).sum()
    return float(above + (level + 1) / 2)
