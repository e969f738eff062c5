"""Pairs made from a pair: with a null movement in place of the fine-tuned one; and other models' summed movements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from skillviz.core.flat import split
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, REVERSED, SHUFFLED, drawn_signs, sources
from skillviz.core.region import Region
from skillviz.errors import BadInput, PairMismatch
from skillviz.models.lean_pair import LeanPair
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.stored_vector import StoredVector


def null_pair(pair: ModelPair, kind: str, draw: int) -> ModelPair:
    """Return the pair with a null movement in place of its own: the same model, base, head and readout.

    It shares the model with the given pair, so only one of them can be used at a time. In lean mode the movement is
    computed in parts from the files. If signs are learned, every entry moves up until `with_signs` sets the search's
    signs. Raises BadInput for an unknown kind, and for a control's pair.
    """
    if kind not in NULLS:
        raise BadInput(f"'{kind}' is not a null; known: {', '.join(NULLS)}.")
    if pair.rest != "base" or pair.rescaled:
        raise BadInput("a control has no null: its movement is not that of fine-tuning.")
    pair = replace(pair, null=(kind, draw))
    if isinstance(pair, LeanPair):
        return replace(pair, finetuned=NullVector(pair.base, pair.finetuned, kind, draw, pair.flat.dtype))
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
    """Return the null movement of the entries `index` of a tensor of n entries, float32.

    `movement_at` returns the fine-tuned movement at entries of that tensor, in the given order.
    """
    if kind == SHUFFLED:
        return movement_at(sources(index, n, seed, tensor)).float()
    own = movement_at(index).float()
    if kind == LEARNED_SIGNS:
        return own.abs()
    return -own if kind == REVERSED else own * torch.from_numpy(drawn_signs(index, seed, tensor)).to(own.device)


def with_signs(pair: ModelPair, order: np.ndarray, signs: np.ndarray) -> ModelPair:
    """Return the pair in which the entries `order` [k], global flat indices, move by movement times `signs` [k]."""
    index, by = torch.from_numpy(np.sort(order)), torch.from_numpy(signs[np.argsort(order)])
    base = pair.base[index].float()
    return _moved_to(pair, index, (base + by.to(base) * (pair.finetuned[index].float() - base)))


def kept_out(pair: ModelPair, region: Region) -> ModelPair:
    """Return the pair in which the entries of a region did not move, so that no search by movement chooses them.

    Its tensors are in the order of the pair's. The region's entries have the base's values, rounded as in the
    fine-tuned file; all other movements are the pair's own.
    """
    index, movement = torch.from_numpy(region.flat()), pair.movement
    values = pair.base[index]
    for number, _, a, b in split(index, pair.table):
        for dtype in movement.narrow(number)[:1]:
            values[a:b] = values[a:b].to(dtype).to(values.dtype)
    return _moved_to(pair, index, values)


def _moved_to(pair: ModelPair, index: Tensor, values: Tensor) -> ModelPair:
    """Return the pair with fine-tuned `values` [k] at the entries `index` [k], ascending global flat indices."""
    values = values.to(pair.finetuned.dtype)
    if isinstance(pair, LeanPair):
        return replace(pair, finetuned=SignedVector(pair.finetuned, index, values))
    finetuned = pair.finetuned.clone()
    finetuned[index] = values
    return replace(pair, finetuned=finetuned)


class ComputedVector(StoredVector):
    """A vector whose values are computed on access, by `at`."""

    def part(self, number: int, start: int, end: int) -> Tensor:
        """Return entries start to end of the tensor with this number in the table."""
        return self.at(number, torch.arange(start, end))


class NullVector(ComputedVector):
    """The values of a base plus a null movement, rounded to the model's dtype, each computed on access."""

    def __init__(self, base: StoredVector, finetuned: StoredVector, kind: str, draw: int, dtype: torch.dtype) -> None:
        super().__init__(base.stored, base.table)
        self.base, self.moved, self.kind, self.draw, self.rounded_to = base, finetuned, kind, draw, dtype

    @property
    def dtype(self) -> torch.dtype:
        """The model's dtype, to which the ordinary mode also rounds the sum."""
        return self.rounded_to

    def at(self, number: int, local: Tensor) -> Tensor:
        """Return the values at these entries of the tensor with this number in the table."""

        def movement_at(index: np.ndarray) -> Tensor:
            entries = torch.from_numpy(index)
            return self.moved.at(number, entries).float() - self.base.at(number, entries).float()

        size = self.table.parameters[number].size
        null = null_movement(self.kind, local.numpy(), size, movement_at, self.draw, number)
        return (self.base.at(number, local).float() + null).to(self.dtype)


class SignedVector(ComputedVector):
    """The values of another vector, with `values` [k] at the entries `index` [k], ascending global flat indices."""

    def __init__(self, other: StoredVector, index: Tensor, values: Tensor) -> None:
        super().__init__(other.stored, other.table)
        self.other, self.index, self.values = other, index, values

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the other vector."""
        return self.other.dtype

    def at(self, number: int, local: Tensor) -> Tensor:
        """Return the values at these entries of the tensor with this number in the table."""
        entries = local + int(self.table.offsets[number])
        places = torch.searchsorted(self.index, entries).clamp_(max=len(self.index) - 1)
        return torch.where(self.index[places] == entries, self.values[places], self.other.at(number, local))


def summed_movements(pair: ModelPair, base: str, others: Sequence[str], what: str) -> tuple[Tensor, str]:
    """Return sums over other models of their fine-tuned minus base values, and a sentence that names the models.

    `what` the others are of: with "tasks", float32 [1, d], with "seeds" [2, d], the second the sum of squares. Models
    of other seeds have the pair's null movement, if it has one, as the same search is made on them. `base` is the
    pair's base as given by the user. Besides the pair, only one model is in memory at a time. Raises PairMismatch for a
    model of another architecture and for the pair's own fine-tuned model, and the errors of `load_pair`.
    """
    of_seeds = what == "seeds"
    total, names = torch.zeros(1 + of_seeds, pair.d), []
    for name in others:
        other = load_pair(base, name, device="cpu")
        if other.table.shapes != pair.table.shapes:
            raise PairMismatch(f"'{name}' has other graftable parameters than this pair; name models of the same base.")
        if other.finetuned_info.fingerprint == pair.finetuned_info.fingerprint:
            raise PairMismatch(f"'{name}' is the fine-tuned model itself; name models of other {what}.")
        moved = (null_pair(other, *pair.null) if of_seeds and pair.null else other).movement.whole()
        total += torch.stack([moved, moved.square()][: len(total)])
        names.append(f"{other.finetuned_info.id} ({other.finetuned_info.fingerprint[:12]})")
    return total.to(pair.device), f"The other {what}' vectors are of {', '.join(names)}."
