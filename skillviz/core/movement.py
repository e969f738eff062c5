"""The movement of each entry in fine-tuning: zero if the two differ only by the rounding of the fine-tuned file.

A model that is stored in 16 bits differs from its float32 base in nearly every entry, trained or not. So the base is
compared as it would be stored in the fine-tuned file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skillviz.core.parameters import ParameterTable

NARROW = (torch.bfloat16, torch.float16)
PART = 2**18
"""Entries that are read together if not all are in memory."""


@dataclass(frozen=True)
class Counts:
    """Counts of entries that `moved`, that are only `rounded`, and that are `unclear`.

    `rounded` ones differ only by the fine-tuned file's dtype. `unclear` ones are among those that moved: the base is
    stored in 16 bits, which cannot separate the two values. `narrow` is the dtype of the rounded file, '' if neither is
    rounded.
    """

    moved: int
    rounded: int
    unclear: int
    narrow: str


class Movement:
    """Fine-tuned minus base of the entries of a table, 0 if the base rounded to the fine-tuned dtype is the same.

    Each model is a vector [d], in memory or read on demand (core.lean). The fine-tuned dtype of a tensor is the 16-bit
    one that represents all its values, in any dtype that they have now, and may be either one if both do: float16
    rounds the smallest values of a bfloat16 base.
    """

    def __init__(self, base: Any, finetuned: Any, table: ParameterTable) -> None:
        self.base, self.finetuned, self.table = base, finetuned, table
        self._narrow: dict[int, tuple[torch.dtype, ...]] = {}

    def narrow(self, number: int) -> tuple[torch.dtype, ...]:
        """Return the 16-bit dtypes that represent every fine-tuned value of the tensor of that number."""
        if number not in self._narrow:
            self._narrow[number] = self._holding(self.finetuned, number)
        return self._narrow[number]

    def of(self, number: int, base: Tensor, finetuned: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the movement between values of that tensor, in a dtype."""
        change = finetuned.to(dtype) - base.to(dtype)
        if narrow := self.narrow(number):
            change.masked_fill_(_rounded_alike(base, finetuned, narrow), 0)
        return change

    def whole(self) -> Tensor:
        """Return the movement of all entries, float32 [d]."""
        change = self.finetuned.float() - self.base.float()
        for number, start, end in self._spans():
            if narrow := self.narrow(number):
                same = _rounded_alike(self.base[start:end], self.finetuned[start:end], narrow)
                change[start:end].masked_fill_(same, 0)
        return change

    def counts(self) -> Counts:
        """Count the entries that differ, by kind."""
        moved = rounded = unclear = 0
        named = ""
        for number, first, last in self._spans():
            narrow = self.narrow(number)
            before = () if narrow else self._holding(self.base, number)
            for start in range(first, last, PART):
                base, tuned = (v[start : min(start + PART, last)].float() for v in (self.base, self.finetuned))
                differ = base != tuned
                stored = narrow or before
                same = differ & _rounded_alike(base, tuned, stored)
                count = int(same.sum())
                rounded += count if narrow else 0
                unclear += count if before else 0
                moved += int(differ.sum()) - (count if narrow else 0)
                if count:
                    alike = [int((differ & _rounded_alike(base, tuned, (dtype,))).sum()) for dtype in stored]
                    named = str(stored[alike.index(max(alike))]).removeprefix("torch.")
        return Counts(moved, rounded, unclear, named)

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        ends = zip(self.table.offsets[:-1], self.table.offsets[1:], strict=True)
        return ((number, int(start), int(end)) for number, (start, end) in enumerate(ends))

    def _holding(self, vector: Any, number: int) -> tuple[torch.dtype, ...]:
        """Return the 16-bit dtypes that represent a tensor's values exactly."""
        first, last = int(self.table.offsets[number]), int(self.table.offsets[number + 1])
        if (own := vector[first : first + 1].dtype) in NARROW:
            return (own,)
        found = []
        for dtype in NARROW:
            parts = (vector[start : min(start + PART, last)] for start in range(first, last, PART))
            if all(torch.equal(part.to(dtype).to(part.dtype), part) for part in parts):
                found.append(dtype)
        return tuple(found)


def _rounded_alike(base: Tensor, finetuned: Tensor, dtypes: tuple[torch.dtype, ...]) -> Tensor:
    """The mask of entries that are equal when both values are rounded to one of these dtypes."""
    same = torch.zeros(base.shape, dtype=torch.bool, device=base.device)
    for dtype in dtypes:
        same |= base.to(dtype) == finetuned.to(dtype)
    return same
