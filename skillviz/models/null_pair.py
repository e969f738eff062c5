"""A pair whose fine-tuned values are the base's plus a null movement; everything that takes a pair takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from skillviz.core.nulls import NULLS, REVERSED, SHUFFLED, drawn_signs, sources
from skillviz.errors import BadInput
from skillviz.models.lean_pair import LeanPair
from skillviz.models.pair import ModelPair
from skillviz.models.stored_vector import StoredVector


def null_pair(pair: ModelPair, kind: str, draw: int) -> ModelPair:
    """The pair with a null movement in the place of its own: the same model, base, head and readout.

    It shares the model with the pair, so one of them is used at a time. In lean mode the movement is computed part by
    part from the files. Raises BadInput for an unknown kind, and for a control's pair.
    """
    if kind not in NULLS:
        raise BadInput(f"'{kind}' is not a null; known: {', '.join(NULLS)}.")
    if pair.rest != "base" or pair.rescaled:
        raise BadInput("a control has no null: its movement is not that of fine-tuning.")
    if isinstance(pair, LeanPair):
        return replace(pair, finetuned=NullVector(pair.base, pair.finetuned, kind, draw))
    tau = pair.finetuned.float() - pair.base.float()
    moved = torch.empty_like(pair.base)
    for number, parameter in enumerate(pair.table.parameters):
        start = int(pair.table.offsets[number])
        own = slice(start, start + parameter.size)
        index = np.arange(parameter.size, dtype=np.int64)
        part = null_movement(kind, index, parameter.size, tau[own].__getitem__, draw, number)
        moved[own] = (pair.base[own].float() + part).to(pair.base.dtype)
    return replace(pair, finetuned=moved)


def null_movement(
    kind: str, index: np.ndarray, n: int, movement_at: Callable[[np.ndarray], Tensor], seed: int, tensor: int
) -> Tensor:
    """The null movement of the entries `index` of a tensor of n entries, float32.

    `movement_at` gives the fine-tuned movement at entries of that tensor, in the order asked for.
    """
    if kind == SHUFFLED:
        return movement_at(sources(index, n, seed, tensor)).float()
    own = movement_at(index).float()
    return -own if kind == REVERSED else own * torch.from_numpy(drawn_signs(index, seed, tensor)).to(own.device)


class NullVector(StoredVector):
    """The values of a base plus a null movement, float32, each computed when it is asked for."""

    def __init__(self, base: StoredVector, finetuned: StoredVector, kind: str, draw: int) -> None:
        super().__init__(base.stored, base.table)
        self.base, self.moved, self.kind, self.draw = base, finetuned, kind, draw

    @property
    def dtype(self) -> torch.dtype:
        """That of the sum."""
        return torch.float32

    def part(self, number: int, start: int, end: int) -> Tensor:
        """Entries start to end of the table's tensor of that number."""
        return self.at(number, torch.arange(start, end))

    def at(self, number: int, local: Tensor) -> Tensor:
        """The values at these entries of the table's tensor of that number."""

        def movement_at(index: np.ndarray) -> Tensor:
            entries = torch.from_numpy(index)
            return self.moved.at(number, entries).float() - self.base.at(number, entries).float()

        size = self.table.parameters[number].size
        null = null_movement(self.kind, local.numpy(), size, movement_at, self.draw, number)
        return self.base.at(number, local).float() + null
