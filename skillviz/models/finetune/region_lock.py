"""Train only a region: every other entry stays unchanged, bit for bit, and that is checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.errors import BadInput


class TrainedRegion(NamedTuple):
    """A region that may move, and the id of the run that found it (None for a file)."""

    region: Region
    run: str | None = None

    def record(self) -> dict[str, Any]:
        """Return its record for finetune.json: its size among d, a hash of its entries, and the run."""
        fields = {"size": self.region.size, "d": self.region.d, "sha256": self.region.sha256()}
        return fields if self.run is None else {**fields, "run": self.run}


class MovedOutside(AssertionError):
    """An entry moved that must not change. This is a bug, never a fault of the input."""


class RegionLock:
    """Allows only a region's entries to move. `inside` are its masks by name; a tensor without a mask must not move.

    Gradients outside the region are set to zero before the optimizer step. Weight decay is applied by hand, only
    inside. So a plain step subtracts exact zeros outside. (torch's own weight decay would move every entry of a
    tensor.)
    """

    def __init__(self, parameters: Mapping[str, Tensor], table: ParameterTable, region: Region) -> None:
        self.parameters = {name: parameters[name] for name in table.names}
        self.inside = {
            name: torch.from_numpy(region.mask(name)).to(self.parameters[name].device) for name in region.indices
        }
        self.outside = {name: ~mask for name, mask in self.inside.items()}
        self.start = {name: p.detach().clone() for name, p in self.parameters.items()}
        self.partly_trained = {id(self.parameters[name]) for name in self.inside}

    @property
    def size(self) -> int:
        """The number of entries that may move."""
        return sum(int(mask.sum()) for mask in self.inside.values())

    def mask(self) -> None:
        """Set the gradient outside the region to zero."""
        for name, outside in self.outside.items():
            gradient = self.parameters[name].grad
            if gradient is not None:
                gradient.masked_fill_(outside, 0.0)

    @torch.no_grad()
    def decay(self, amount: float) -> None:
        """Shrink the region's entries of matrices by this share of their value."""
        for name, outside in self.outside.items():
            parameter = self.parameters[name]
            if amount and parameter.ndim > 1:
                parameter.sub_(parameter.masked_fill(outside, 0.0), alpha=amount)

    def moved(self) -> int:
        """Return the number of entries outside the region whose bits differ from the start."""
        counts = []
        for name, parameter in self.parameters.items():
            differs = parameter.detach().view(torch.int32) != self.start[name].view(torch.int32)
            counts.append((differs & self.outside[name] if name in self.outside else differs).sum())
        return int(torch.stack(counts).sum()) if counts else 0

    def check(self, when: str = "") -> None:
        """Raise MovedOutside if an entry outside the region moved."""
        if count := self.moved():
            raise MovedOutside(f"{count:,} entries outside the region moved{when}; they must not change.")


def check_region(table: ParameterTable, region: Region) -> None:
    """Raise BadInput if the region belongs to other parameters, or has no entry to train."""
    if dict(region.shapes) != table.shapes:
        raise BadInput("the region was made for another architecture: its parameters are not this base's.")
    if not region.size:
        raise BadInput("the region is empty, so there is nothing to train; give one with at least one entry.")


def union(regions: Iterable[Region]) -> Region:
    """Return the union of the regions (at least one)."""
    return reduce(or_, regions)
