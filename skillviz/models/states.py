"""The four states of a pair, on one model: set by copying, left by copying back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from skillviz.core.region import Region
from skillviz.errors import BadInput

if TYPE_CHECKING:
    from skillviz.models.pair import ModelPair

STATES = ("pretrained", "finetuned", "grafted", "complement")
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@contextmanager
def at(pair: ModelPair, state: str, region: Region | None = None) -> Iterator[ModelPair]:
    """The pair's model in a state; whatever happens inside, it is then as it was before, bit for bit.

    pretrained: base everywhere (its head the fine-tuned one). finetuned: fine-tuned everywhere, what is
    not graftable too. grafted: base with the region's entries fine-tuned. complement: fine-tuned with
    the region's entries at base. The last two need a region of this pair.
    """
    indices = _check(pair, state, region)
    theta = pair.flat.theta
    before = None if _same_bits(theta, pair.base) else theta.clone()
    outside = {name: parameter.detach().clone() for name, parameter in _outside(pair)}
    try:
        _set(pair, state, indices)
        yield pair
    finally:
        theta.copy_(pair.base if before is None else before)
        for name, parameter in _outside(pair):
            parameter.copy_(outside[name])


def _check(pair: ModelPair, state: str, region: Region | None) -> Tensor | None:
    if state not in STATES:
        raise BadInput(f"'{state}' is not a state of a pair; known: {', '.join(STATES)}.")
    if state in ("pretrained", "finetuned"):
        return None
    if region is None:
        raise BadInput(f"the state '{state}' needs a region.")
    if dict(region.shapes) != pair.table.shapes:
        raise BadInput("the region was made for another architecture: its parameters are not this pair's.")
    return torch.from_numpy(region.flat()).to(pair.flat.device)


def _set(pair: ModelPair, state: str, indices: Tensor | None) -> None:
    from_base = state in ("pretrained", "grafted")
    theta = pair.flat.theta
    theta.copy_(pair.base if from_base else pair.finetuned)
    if indices is not None:
        theta[indices] = (pair.finetuned if from_base else pair.base)[indices]
    for name, parameter in _outside(pair):
        parameter.copy_(pair.outside[name][0 if from_base else 1])


def _outside(pair: ModelPair) -> Iterator[tuple[str, Tensor]]:
    for name in pair.outside:
        yield name, pair.flat.model.get_parameter(name).data


def _same_bits(one: Tensor, other: Tensor) -> bool:
    # as integers: 0.0 and -0.0 are equal as numbers, and NaN is not equal to itself
    kind = BITS[one.element_size()]
    return torch.equal(one.view(kind), other.view(kind))
