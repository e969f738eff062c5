"""Random draws of entries: from all graftable entries, or as many in each tensor as a region has there."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryFile

import numpy as np

from skillviz.core.region import BLOCK, Region

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
