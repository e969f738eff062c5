"""Training a region alone: every other entry stays where it was, bit for bit, and that is checked."""

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
        """What finetune.json says of it: its size among d, a hash of its entries, and the run."""
        fields = {"size": self.region.size, "d": self.region.d, "sha256": self.region.sha256()}
        return fields if self.run is None else {**fields, "run": self.run}


class MovedOutside(AssertionError):
    """An entry moved that was to stay: a fault of the program, never of the input."""


class RegionLock:
    """Lets only a region's entries move. `inside` are its masks by name; a tensor without one stays whole.

    Gradients outside are zero before the optimizer sees them, and decay is applied by hand, inside alone: a plain
    step then subtracts exact zeros outside. (torch's own weight decay would move every entry of a tensor.)
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
        """Entries that may move."""
        return sum(int(mask.sum()) for mask in self.inside.values())

    def mask(self) -> None:
        """Makes the gradient zero outside the region."""
        for name, outside in self.outside.items():
            gradient = self.parameters[name].grad
            if gradient is not None:
                gradient.masked_fill_(outside, 0.0)

    @torch.no_grad()
    def decay(self, amount: float) -> None:
        """Moves the region's entries of matrices towards zero by this share of their value."""
        for name, outside in self.outside.items():
            parameter = self.parameters[name]
            if amount and parameter.ndim > 1:
                parameter.sub_(parameter.masked_fill(outside, 0.0), alpha=amount)

    def moved(self) -> int:
        """Entries outside the region whose bits differ from what they were at the start."""
        counts = []
        for name, parameter in self.parameters.items():
            differs = parameter.detach().view(torch.int32) != self.start[name].view(torch.int32)
            counts.append((differs & self.outside[name] if name in self.outside else differs).sum())
        return int(torch.stack(counts).sum()) if counts else 0

    def check(self, when: str = "") -> None:
        """Raises MovedOutside where anything outside the region moved."""
        if count := self.moved():
            raise MovedOutside(f"{count:,} entries outside the region moved{when}; they must not change.")


def check_region(table: ParameterTable, region: Region) -> None:
    """Raises BadInput where the region is of other parameters, or has no entry to train."""
    if dict(region.shapes) != table.shapes:
        raise BadInput("the region was made for another architecture: its parameters are not this base's.")
    if not region.size:
        raise BadInput("the region is empty, so there is nothing to train; give one with at least one entry.")


def union(regions: Iterable[Region]) -> Region:
    """The entries of any of the regions (one at least)."""
    return reduce(or_, regions)
