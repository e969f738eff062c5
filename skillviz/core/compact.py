"""Sorted indices in few bytes: as the gaps between them, or as one bit an entry, whichever is smallest."""

from __future__ import annotations

import numpy as np

from skillviz.errors import BadInput

INT32_LIMIT = 2**31


def index_dtype(count: int) -> type[np.int32] | type[np.int64]:
    """The narrowest type in which the indices of `count` entries are stored."""
    return np.int32 if count <= INT32_LIMIT else np.int64


def packed(indices: np.ndarray, count: int) -> np.ndarray:
    """The smallest of three forms of sorted, distinct indices in 0..count - 1; its dtype tells which.

    int32 or int64: the indices themselves. uint8 or uint16: the gaps, how many entries lie before each one and after
    the one before it; the type's largest value means that as many are passed over and the gap goes on in the next
    value. int8 [ceil(count / 8)]: one bit an entry, the first in the highest bit of the first.
    """
    best = np.ascontiguousarray(indices, dtype=index_dtype(count))
    gaps = np.diff(indices.astype(np.int64), prepend=-1) - 1
    for dtype in (np.uint8, np.uint16):
        most = int(np.iinfo(dtype).max)
        if (len(gaps) + int((gaps // most).sum())) * np.dtype(dtype).itemsize < best.nbytes:
            best = _escaped(gaps, most).astype(dtype)
    if (count + 7) // 8 < best.nbytes:
        mask = np.zeros(count, dtype=bool)
        mask[indices] = True
        best = np.packbits(mask).view(np.int8)
    return best


def unpacked(stored: np.ndarray, count: int) -> np.ndarray:
    """The indices, int64, of a form that `packed` gave; raises BadInput for what is none of `count` entries."""
    if stored.dtype in (np.int32, np.int64):
        return stored.astype(np.int64)
    if stored.dtype in (np.uint8, np.uint16):
        passed = np.cumsum(stored.astype(np.int64))[stored < np.iinfo(stored.dtype).max]
        return passed + np.arange(len(passed))
    if stored.dtype == np.int8 and len(stored) == (count + 7) // 8:
        return np.flatnonzero(np.unpackbits(stored.view(np.uint8), count=count))
    raise BadInput(f"{len(stored):,} values of {stored.dtype} do not hold indices of {count:,} entries")


def _escaped(gaps: np.ndarray, most: int) -> np.ndarray:
    """The gaps with every whole `most` of one written out before what is left of it."""
    whole, rest = np.divmod(gaps, most)
    values = np.full(len(gaps) + int(whole.sum()), most, dtype=np.int64)
    values[np.arange(len(gaps)) + np.cumsum(whole)] = rest
    return values
