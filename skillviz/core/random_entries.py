"""Random draws of entries: from everything that can be grafted, or as many in each tensor as a region has there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skillviz.core.region import Region

ANYWHERE, MATCHED = "random", "random-matched"
CONTROLS = (ANYWHERE, MATCHED)


def uniform(d: int, size: int, seed: int) -> np.ndarray:
    """`size` of d entries as global flat indices, int64, in the order drawn: a smaller size begins a larger one."""
    # a whole permutation, not `choice`: only so is a smaller region the beginning of a larger one
    return np.random.default_rng(seed).permutation(np.arange(d, dtype=np.int64))[:size].copy()


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
