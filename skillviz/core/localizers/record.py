"""What a localizer yields at each step, and what it returns at the end."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region


@dataclass(frozen=True)
class Step:
    """One step: mean loss in nats on its batch *before* the switch, the region's size after it,
    the entries switched on and off, seconds since the search began."""

    step: int
    loss: float
    size: int
    added: int
    removed: int
    seconds: float


@dataclass(frozen=True)
class Found:
    """The chosen entries as global flat indices, best first, int64 [size]; and remarks for the reader."""

    order: np.ndarray
    notes: tuple[str, ...] = ()

    def region(self, table: ParameterTable, size: int | None = None) -> Region:
        """The region of the first `size` entries (all of them by default)."""
        return Region.from_flat(self.order[:size], table.shapes)


Search = Generator[Step, None, Found]
