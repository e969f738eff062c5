"""Approximations of a movement that take few bytes: one sign bit an entry, a low rank, one byte an entry.

They are rivals of a graft at equal bytes: a graft stores few entries exactly, they store all entries coarsely. Each
function takes a movement, and returns an approximate one, float32 in the same shape, and the bytes of a file that holds
it. The file's header, which names the tensors and their shapes, is not counted. Does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from skillviz.core.parameters import ParameterTable

FLOAT, PLACE = 4, 8  # bytes of a float32, and of the place of an entry in a graft file (an int64)


def signs(movement: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the signs of a tensor's entries times their mean magnitude: one bit an entry, one float32.

    Zero counts as negative. Source: BitDelta (Liu and others 2024), without its distillation of the scale; theirs
    leaves biases and norms whole.
    """
    scale = np.abs(movement).mean(dtype=np.float64).astype(np.float32)
    return np.where(movement > 0, scale, -scale), -(-movement.size // 8) + FLOAT


def low_rank(movement: np.ndarray, rank: int) -> tuple[np.ndarray, int]:
    """Return a matrix's truncated singular value decomposition: two factors of `rank` columns each, in float32.

    Vectors are whole, and so is a matrix whose factors would not be smaller. Further axes in front count matrices, such
    as those of experts.
    """
    rows, columns = movement.shape[-2:] if movement.ndim > 1 else (1, movement.size)
    if rank * (rows + columns) >= rows * columns:
        return movement, FLOAT * movement.size
    left, values, right = np.linalg.svd(movement, full_matrices=False)
    product = (left[..., :rank] * values[..., None, :rank]) @ right[..., :rank, :]
    return product, FLOAT * rank * (rows + columns) * (movement.size // (rows * columns))


def int8(movement: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a tensor's entries rounded to 255 levels up to its largest magnitude: one byte an entry, one float32."""
    step = np.abs(movement).max() / np.float32(127)  # the largest magnitude of a byte with either sign
    levels = np.divide(movement, step, out=np.zeros_like(movement), where=step > 0)
    return np.rint(levels) * step, movement.size + FLOAT


ENTRIES, SIGNS, INT8, RANK = "entries", "signs", "int8", "rank"
COMPRESSIONS: Mapping[str, Callable[[np.ndarray], tuple[np.ndarray, int]]] = MappingProxyType(
    {SIGNS: signs, **{f"{RANK} {rank}": partial(low_rank, rank=rank) for rank in (1, 2, 4, 8)}, INT8: int8}
)
"""The approximations of one tensor by name."""


def compressed(movement: np.ndarray, table: ParameterTable, name: str) -> tuple[np.ndarray, int]:
    """Return the approximation of this name of a flat movement [d], made tensor by tensor."""
    tensors = zip(table.parameters, np.split(movement, table.offsets[1:-1]), strict=True)
    parts = [COMPRESSIONS[name](tensor.reshape(parameter.shape)) for parameter, tensor in tensors]
    return np.concatenate([part.ravel() for part, _ in parts]), sum(count for _, count in parts)
