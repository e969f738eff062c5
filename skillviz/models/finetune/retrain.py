"""Training a region alone: every other entry stays where it was, bit for bit, and that is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.errors import BadInput


class MovedOutside(AssertionError):
    """An entry moved that was to stay: a fault of the program, never of what was given."""


class Hold:
    """Lets only a region's entries move. `inside` are its masks by name; a tensor without one stays whole.

    Gradients outside are zero before the optimizer sees them, and decay is applied by hand, inside alone: a plain
    step then subtracts exact zeros outside. (torch's own weight decay would move every entry of a tensor.)
    """

    def __init__(self, parameters: Mapping[str, Tensor], inside: Mapping[str, Tensor]) -> None:
        self.parameters, self.inside = dict(parameters), dict(inside)
        self.outside = {name: ~mask for name, mask in inside.items()}
        self.fixed = {name: p.detach().clone() for name, p in parameters.items()}
        self.held = {id(parameters[name]) for name in inside}

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
            differs = parameter.detach().view(torch.int32) != self.fixed[name].view(torch.int32)
            counts.append((differs & self.outside[name] if name in self.outside else differs).sum())
        return int(torch.stack(counts).sum()) if counts else 0

    def check(self, when: str = "") -> None:
        """Raises MovedOutside where anything outside the region moved."""
        if count := self.moved():
            raise MovedOutside(f"{count:,} entries outside the region moved{when}; they had to stay as they were.")


def hold(parameters: Mapping[str, Tensor], table: ParameterTable, region: Region) -> Hold:
    """The Hold that lets this region's entries of the graftable parameters move."""
    named = {name: parameters[name] for name in table.names}
    inside = {name: torch.from_numpy(region.mask(name)).to(named[name].device) for name in region.indices}
    return Hold(named, inside)


def check_region(table: ParameterTable, region: Region) -> None:
    """Raises BadInput where the region is of other parameters, or has no entry to train."""
    if dict(region.shapes) != table.shapes:
        raise BadInput("the region was made for another architecture: its parameters are not this base's.")
    if not region.size:
        raise BadInput("the region is empty, so there is nothing to train; give one with at least one entry.")


def about(region: Region, run: str | None = None) -> dict[str, Any]:
    """What finetune.json says of a region: its size among d, a hash of its entries, and the run that found it."""
    told = {"size": region.size, "d": region.d, "sha256": region.sha256()}
    return told if run is None else {**told, "run": run}


def union(regions: Sequence[Region]) -> Region:
    """The entries of any of the regions (one at least)."""
    whole = regions[0]
    for region in regions[1:]:
        whole = whole | region
    return whole
