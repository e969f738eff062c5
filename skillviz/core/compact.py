"""Sorted indices in few bytes: as the gaps between them, or as one bit an entry, whichever is smallest."""

from __future__ import annotations

from typing import Literal

import numpy as np

from skillviz.errors import BadInput

Encoding = Literal["indices", "gaps", "bits"]
INT32_LIMIT = 2**31


def index_dtype(count: int) -> type[np.int32] | type[np.int64]:
    """The narrowest type in which the indices of `count` entries are stored."""
    return np.int32 if count <= INT32_LIMIT else np.int64


def packed(indices: np.ndarray, count: int) -> tuple[Encoding, np.ndarray]:
    """The smallest of three forms of sorted, distinct indices in 0..count - 1: its name and its array.

    `indices` themselves; `gaps`, how many entries lie before each one and after the one before it, as uint8 or
    uint16 where the widest fits; `bits`, uint8 [ceil(count / 8)], the first entry in the highest bit of the first.
    """
    best: tuple[Encoding, np.ndarray] = ("indices", np.ascontiguousarray(indices, dtype=index_dtype(count)))
    gaps = np.diff(indices.astype(np.int64), prepend=-1) - 1
    for dtype in (np.uint8, np.uint16):
        if len(gaps) and gaps.max() <= np.iinfo(dtype).max:
            best = ("gaps", gaps.astype(dtype))
            break
    if (count + 7) // 8 < best[1].nbytes:
        mask = np.zeros(count, dtype=bool)
        mask[indices] = True
        best = ("bits", np.packbits(mask))
    return best


def unpacked(encoding: str, stored: np.ndarray, count: int) -> np.ndarray:
    """The indices, int64, of a form that `packed` gave; raises BadInput for another one, or bits of another length."""
    if encoding == "indices":
        return stored.astype(np.int64)
    if encoding == "gaps":
        return np.cumsum(stored.astype(np.int64) + 1) - 1
    if encoding == "bits" and len(stored) == (count + 7) // 8:
        return np.flatnonzero(np.unpackbits(stored, count=count))
    raise BadInput(f"'{encoding}' of {len(stored):,} values does not hold the indices of {count:,} entries")
