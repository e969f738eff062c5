"""Random draws that a seed fixes: entries of a region, and rows with the class shares of the whole.

A sample of rows is never the first rows, which may all be of one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.region import BLOCK, Region
from skillviz.errors import BadInput

LARGEST_SEED = 2**32 - 1
"""Any seed up to this one can be multiplied by the steps, stored in a table, and passed to numpy and torch."""


def stratified(labels: ArrayLike, count: int, seed: int) -> np.ndarray:
    """Return the rows of a sample of `count` examples (all, if there are no more), sorted, int64.

    A class with m of the n labels gets count * m / n rows, rounded by largest remainders (ties: the smaller label); its
    rows are drawn by the seed. Raises BadInput for a count below 0.
    """
    y = np.asarray(labels).ravel()
    if count < 0:
        raise BadInput(f"a sample of {count} examples cannot be drawn; give 0 or more.")
    if count >= len(y):
        return np.arange(len(y))
    classes, sizes = np.unique(y, return_counts=True)
    places, remainders = np.divmod(count * sizes, len(y))
    places[np.argsort(-remainders, kind="stable")[: count - places.sum()]] += 1
    order = np.random.default_rng(seed).permutation(len(y))
    rows = [order[y[order] == label][:k] for label, k in zip(classes, places, strict=True)]
    return np.sort(np.concatenate(rows))


ANYWHERE, MATCHED = "random", "random-matched"
CONTROLS = (ANYWHERE, MATCHED)


def uniform(d: int, size: int, seed: int, in_file: bool = False) -> np.ndarray:
    """Draw `size` of d entries: global flat indices, int64, as drawn, so a smaller size is a prefix of a larger one.

    With `in_file` the order of all d is in a temporary file, whose pages the system may write out, not in memory.
    """
    # A whole permutation, not `choice`, so that a smaller region is a prefix of a larger one.
    if not in_file:
        return np.random.default_rng(seed).permutation(np.arange(d, dtype=np.int64))[:size].copy()
    with TemporaryFile() as file:
        order = np.memmap(file, dtype=np.uint32 if d <= 2**32 else np.int64, mode="w+", shape=(d,)).view(np.ndarray)
        for start in range(0, d, BLOCK):
            order[start : start + BLOCK] = np.arange(start, min(start + BLOCK, d))
        np.random.default_rng(seed).shuffle(order)  # the draws do not depend on the type of the entries
        return order[:size].astype(np.int64)


def matched(reference: np.ndarray, offsets: Sequence[int] | np.ndarray, seed: int) -> np.ndarray:
    """Draw as many entries in each tensor as `reference` has, in its order; both are global flat indices, int64.

    `offsets` are the offsets of `ParameterTable`. The draw may include entries of the reference, like any draw from
    these tensors.
    """
    offsets = np.asarray(offsets)
    tensors = np.searchsorted(offsets, reference, side="right") - 1
    order = np.empty(len(reference), dtype=np.int64)
    for tensor in np.unique(tensors):
        places = np.flatnonzero(tensors == tensor)
        # A stream for each tensor and a whole permutation, so that a smaller region is a prefix of a larger one.
        entries = np.random.default_rng((seed, int(tensor))).permutation(offsets[tensor + 1] - offsets[tensor])
        order[places] = offsets[tensor] + entries[: len(places)]
    return order


def control_of(region: Region, kind: str, offsets: Sequence[int] | np.ndarray, seed: int = 0) -> Region:
    """Return a random region of the region's size; `kind` is one of CONTROLS: drawn ANYWHERE, or MATCHED by tensor."""
    if kind == ANYWHERE:
        entries = uniform(region.d, region.size, seed)
    elif kind == MATCHED:
        entries = matched(region.flat(), offsets, seed)
    else:
        raise ValueError(f"{kind!r} is not a control; known: {', '.join(CONTROLS)}")
    return Region.from_flat(np.sort(entries), region.shapes)
