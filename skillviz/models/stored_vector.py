"""The graftable values of a model, read in parts from its memory-mapped safetensors files.

A part is in memory only while it is used, because the file is mapped for that part alone. Values keep the dtype of the
file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.parameters import ParameterTable
from skillviz.models.checkpoint import BITS, HALF, Rows, Stored

DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


def read(stored: Stored, start: int = 0, end: int | None = None) -> Tensor:
    """Return entries start to end of a stored tensor, flat, in the file's dtype or, if it is read so, in float16.

    The result may be the mapped file itself: copy it, but never write to it.
    """
    width = BITS[stored.dtype] // 8
    end = prod(stored.shape) if end is None else end
    if end <= start:
        return torch.empty(0, dtype=DTYPES[stored.dtype])
    if stored.changed is not None:
        return _with_changed(stored, stored.changed, start, end)
    # copy-on-write, since torch does not accept read-only memory
    raw = np.memmap(stored.file, dtype=np.uint8, mode="c", offset=stored.start + start * width,
                    shape=((end - start) * width,))  # fmt: skip
    values = torch.from_numpy(raw.view(np.ndarray)).view(DTYPES[stored.dtype])
    return values.half() if stored.rounded and stored.dtype != HALF else values


def _with_changed(stored: Stored, changed: Rows, start: int, end: int) -> Tensor:
    """Return entries start to end of a matrix in which some rows have other values."""
    width = stored.shape[1]
    first, last = start // width, -(-end // width)
    rows = read(replace(stored, changed=None), first * width, last * width).clone().view(-1, width)
    numbers = changed.indices()
    a, b = np.searchsorted(numbers, [first, last])
    rows[torch.from_numpy(numbers[a:b] - first)] = read(changed.values, int(a) * width, int(b) * width).view(-1, width)
    return rows.view(-1)[start - first * width : end - first * width]


class StoredVector:
    """The values [d] of one model in the order of a table; `stored` are the table's tensors in its order."""

    def __init__(self, stored: Sequence[Stored], table: ParameterTable) -> None:
        self.stored, self.table = tuple(stored), table

    def __len__(self) -> int:
        return self.table.d

    @property
    def dtype(self) -> torch.dtype:
        """The narrowest dtype that holds every tensor's values."""
        return reduce(torch.promote_types, (DTYPES[one.kind] for one in self.stored))

    @property
    def device(self) -> torch.device:
        """The device of the values once read."""
        return torch.device("cpu")

    def part(self, number: int, start: int, end: int) -> Tensor:
        """Return entries start to end of the tensor with this number in the table, as returned by `read`."""
        return read(self.stored[number], start, end)

    def at(self, number: int, local: Tensor) -> Tensor:
        """Return a copy of the values at these entries of the tensor with this number in the table, in any order."""
        return read(self.stored[number])[local]

    def tensor(self, name: str) -> Tensor:
        """Return all of one tensor, a copy in its shape."""
        parameter = self.table.parameters[number := self.table.names.index(name)]
        return self.part(number, 0, parameter.size).clone().view(parameter.shape)

    def __getitem__(self, at: Any) -> Tensor:
        """Return a copy of the values in a slice, or at global flat indices in any order; on the CPU."""
        if isinstance(at, slice):
            return torch.cat([part.to(self.dtype) for part in self._parts(*at.indices(len(self))[:2])])
        index = at.cpu().numpy() if isinstance(at, Tensor) else np.asarray(at)
        order = None if bool((index[1:] >= index[:-1]).all()) else np.argsort(index, kind="stable")
        ascending = index if order is None else index[order]
        values = torch.empty(len(index), dtype=self.dtype)
        cuts = np.searchsorted(ascending, self.table.offsets)
        for number, (a, b) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            if a < b:
                local = torch.from_numpy(ascending[a:b] - self.table.offsets[number])
                values[a:b] = self.at(number, local).to(self.dtype)
        if order is None:
            return values
        back = torch.empty_like(values)
        back[torch.from_numpy(order)] = values
        return back

    def _parts(self, start: int, end: int) -> Iterator[Tensor]:
        for number, (a, b) in enumerate(zip(self.table.offsets[:-1], self.table.offsets[1:], strict=True)):
            if start < b and end > a:
                yield self.part(number, max(start - int(a), 0), min(end, int(b)) - int(a))


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of a vector by name, each read on access."""

    def __init__(self, vector: StoredVector) -> None:
        self.vector = vector

    def __getitem__(self, name: str) -> Tensor:
        return self.vector.tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.vector.table.names)

    def __len__(self) -> int:
        return len(self.vector.table.names)
