"""The region of a search under way: its map, written beside the run now and then for pages that watch it grow."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillviz.atomic import write_text
from skillviz.core.composition import composition
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.errors import DiskFull
from skillviz.runs.folder import GROWING
from skillviz.runs.search import SearchStep

EVERY = 2.0  # seconds between two maps
SHARE = 0.02
"""The share of the search's time that maps may take."""


@dataclass
class Growing:
    """Writes the map of a search's region to the run's folder `work`, at most every EVERY seconds."""

    work: Path
    table: ParameterTable
    due: float = 0.0

    def tell(self, searching: SearchStep) -> None:
        """Write the map after this step if it is due and the search has a region before its end."""
        step, start = searching.step, time.monotonic()
        if step.region is None or start < self.due:
            return
        counts = composition(Region.from_flat(step.region(), self.table.shapes), self.table)
        drawn = {"step": step.step, "total": step.total, "target": searching.target, "loss": step.finite_loss}
        with suppress(DiskFull):  # the search itself needs no map
            write_text(self.work / GROWING, json.dumps({**drawn, "layers": counts.to_dict("list")}, default=_none))
        spent = time.monotonic() - start
        self.due = start + max(EVERY, spent / SHARE)


def _none(value: object) -> None:
    """Return None for a parameter outside the layers, whose layer pandas calls NA."""
