"""The movement of each entry in fine-tuning: none where the two differ only by the rounding of the fine-tuned file.

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
"""Entries that are looked at together, where not all are in memory."""


@dataclass(frozen=True)
class Counts:
    """Entries that `moved`, that differ by being `rounded` to the fine-tuned file's dtype alone, and, of those that
    moved, that are `unclear`: the base is stored in 16 bits, which cannot tell the two values apart.

    `narrow` is the dtype of whichever file is rounded, '' where none is.
    """

    moved: int
    rounded: int
    unclear: int
    narrow: str


class Movement:
    """Fine-tuned minus base of the entries of a table, 0 where the base rounded to the fine-tuned dtype is the same.

    Each member is a vector [d], in memory or read when it is asked for (core.lean). The fine-tuned dtype of a tensor is
    the 16-bit one that holds all its values, in any dtype that they are in now.
    """

    def __init__(self, base: Any, finetuned: Any, table: ParameterTable) -> None:
        self.base, self.finetuned, self.table = base, finetuned, table
        self._narrow: dict[int, torch.dtype | None] = {}

    def narrow(self, number: int) -> torch.dtype | None:
        """The 16-bit dtype that holds every fine-tuned value of the tensor of that number; None if none does."""
        if number not in self._narrow:
            self._narrow[number] = self._holding(self.finetuned, number)
        return self._narrow[number]

    def of(self, number: int, base: Tensor, finetuned: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The movement between values of that tensor, in a dtype."""
        change = finetuned.to(dtype) - base.to(dtype)
        if (narrow := self.narrow(number)) is not None:
            change.masked_fill_(base.to(narrow) == finetuned.to(narrow), 0)
        return change

    def whole(self) -> Tensor:
        """The movement of all entries, float32 [d]."""
        change = self.finetuned.float() - self.base.float()
        for number, start, end in self._spans():
            if (narrow := self.narrow(number)) is not None:
                same = self.base[start:end].to(narrow) == self.finetuned[start:end].to(narrow)
                change[start:end].masked_fill_(same, 0)
        return change

    def counts(self) -> Counts:
        """Counts of the entries that differ, by kind."""
        moved = rounded = unclear = 0
        named = ""
        for number, first, last in self._spans():
            narrow = self.narrow(number)
            before = self._holding(self.base, number) if narrow is None else None
            for start in range(first, last, PART):
                base, tuned = (v[start : min(start + PART, last)].float() for v in (self.base, self.finetuned))
                differ = base != tuned
                stored = narrow or before
                same = differ & (base.to(stored) == tuned.to(stored)) if stored else torch.zeros_like(differ)
                count = int(same.sum())
                rounded += count if narrow else 0
                unclear += count if before else 0
                moved += int(differ.sum()) - (count if narrow else 0)
                named = str(stored).removeprefix("torch.") if count else named
        return Counts(moved, rounded, unclear, named)

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        ends = zip(self.table.offsets[:-1], self.table.offsets[1:], strict=True)
        return ((number, int(start), int(end)) for number, (start, end) in enumerate(ends))

    def _holding(self, vector: Any, number: int) -> torch.dtype | None:
        """The 16-bit dtype that holds a tensor's values exactly."""
        first, last = int(self.table.offsets[number]), int(self.table.offsets[number + 1])
        for dtype in NARROW:
            if vector[first : first + 1].dtype == dtype:
                return dtype
            parts = (vector[start : min(start + PART, last)] for start in range(first, last, PART))
            if all(torch.equal(part.to(dtype).to(part.dtype), part) for part in parts):
                return dtype
        return None
