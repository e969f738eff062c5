"""A region built by hand, counted without a model: its layers, its size, and its overlap with a run's region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.composition import composition_of_parts
from skillviz.core.overlap import Chance, overlap_by_chance
from skillviz.core.parameters import Parameter, ParameterTable
from skillviz.core.region import Region
from skillviz.core.region_expression import parts
from skillviz.plots.theme import localizer_style
from skillviz.runs.run import Run, parameter_table
from skillviz.show import measures
from skillviz.show.entries import Entry
from skillviz.ui import cache


@dataclass(frozen=True)
class HandRegion:
    """The region of an expression, with its counts.

    `layers` has the columns of layers.parquet. `shared` is the number of the run's own `run_size` entries that it
    contains. `chance` is the `overlap` of a random region with as many entries in each tensor."""

    expression: Mapping[str, Any]
    layers: pd.DataFrame
    size: int
    d: int
    run_size: int
    shared: int
    chance: Chance

    @property
    def share(self) -> float:
        """The region's fraction of all entries, size / d."""
        return self.size / self.d

    @property
    def is_run_region(self) -> bool:
        """True if it equals the run's own region, entry by entry."""
        return self.size == self.run_size == self.shared

    @property
    def overlap(self) -> float:
        """The share of the run's region that it contains."""
        return self.shared / self.run_size if self.run_size else float("nan")


def table_of(run: Run) -> ParameterTable:
    """The graftable parameters of a run's pair, reconstructed from its region."""
    return parameter_table(run.record, cache.region(run))


def hand_region_of(run: Run, expression: Mapping[str, Any], table: ParameterTable) -> HandRegion:
    """The expression's region among the parameters of the run; raises BadInput or a StoreError."""
    run_region, counts = cache.region(run), list[tuple[int, int, int]]()

    def counted() -> Iterator[tuple[Parameter, np.ndarray]]:
        for parameter, entries in parts(expression, table, stored):
            counts.append((len(entries), len(run_region.indices.get(parameter.name, ())), parameter.size))
            yield parameter, entries

    layers = composition_of_parts(counted())
    both = {"intersection": [expression, {"run": run.id}]}
    shared = sum(len(entries) for _, entries in parts(both, table, stored))
    chance = overlap_by_chance(np.array(counts, dtype=np.int64), run_region.size)
    return HandRegion(expression, layers, int(layers["selected"].sum()), table.d, run_region.size, shared, chance)


def stored(run_id: str, size: int | None) -> Region:
    """A stored region: the main one, or the first `size` entries of its ranking."""
    run = cache.run(run_id)
    return cache.region(run) if size is None else run.cut(size)


def names(entries: Sequence[Entry]) -> dict[str, str]:
    """A short name of each run by its id, such as `stagewise, 0.1%, seed 0`, with settings that are not the default.

    Equal names are numbered."""
    by_id: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for entry, settings in zip(entries, measures.nondefault_settings(entries), strict=True):
        parts = [localizer_style(entry.localizer).title, formats.share(entry.share), f"seed {entry.seed}", settings]
        name = ", ".join(part for part in parts if part)
        seen[name] += 1
        by_id[entry.id] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return by_id
