"""Random draws of entries: from everything that can be grafted, or as many in each tensor as a region has there."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryFile

import numpy as np

from skillviz.core.region import BLOCK, Region

ANYWHERE, MATCHED = "random", "random-matched"
CONTROLS = (ANYWHERE, MATCHED)


def uniform(d: int, size: int, seed: int, in_file: bool = False) -> np.ndarray:
    """`size` of d entries as global flat indices, int64, in the order drawn: a smaller size begins a larger one.

    With `in_file` the order of all d is in a temporary file, whose pages the system may write out, not in memory.
    """
    # a whole permutation, not `choice`: only so is a smaller region the beginning of a larger one
    if not in_file:
        return np.random.default_rng(seed).permutation(np.arange(d, dtype=np.int64))[:size].copy()
    with TemporaryFile() as file:
        order = np.memmap(file, dtype=np.uint32 if d <= 2**32 else np.int64, mode="w+", shape=(d,)).view(np.ndarray)
        for start in range(0, d, BLOCK):
            order[start : start + BLOCK] = np.arange(start, min(start + BLOCK, d))
        np.random.default_rng(seed).shuffle(order)  # the draws do not depend on the type of the entries
        return order[:size].astype(np.int64)


def matched(reference: np.ndarray, offsets: Sequence[int] | np.ndarray, seed: int) -> np.ndarray:
    """As many entries in each tensor as `reference` has there, in its order; both are global flat indices, int64.

    `offsets` are those of `ParameterTable`. The draw may hold entries of the reference, as any draw from these tensors
    may.
    """
    offsets = np.asarray(offsets)
    tensors = np.searchsorted(offsets, reference, side="right") - 1
    order = np.empty(len(reference), dtype=np.int64)
    for tensor in np.unique(tensors):
        places = np.flatnonzero(tensors == tensor)
        # a stream for each tensor and a whole permutation: only so is a smaller region the beginning of a larger one
        entries = np.random.default_rng((seed, int(tensor))).permutation(offsets[tensor + 1] - offsets[tensor])
        order[places] = offsets[tensor] + entries[: len(places)]
    return order


def control_of(region: Region, kind: str, offsets: Sequence[int] | np.ndarray, seed: int = 0) -> Region:
    """A random region of the region's size; `kind` is one of CONTROLS: drawn ANYWHERE, or MATCHED tensor by tensor."""
    if kind == ANYWHERE:
        entries = uniform(region.d, region.size, seed)
    elif kind == MATCHED:
        entries = matched(region.flat(), offsets, seed)
    else:
        raise ValueError(f"{kind!r} is not a control; known: {', '.join(CONTROLS)}")
    return Region.from_flat(np.sort(entries), region.shapes)
