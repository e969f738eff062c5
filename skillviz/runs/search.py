"""Search the regions of all requested sizes, with as few searches as the localizer allows."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.localizers.record import LocalizerStep, Selection, State
from skillviz.core.localizers.table import Localizer
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.runs.tables import empty


@dataclass
class Searched:
    """The results of the searches of a run.

    `orders` maps each size (the main one first) to its entries as global flat indices, best first; `signs` maps it to
    the sign of each entry if the search chose signs.
    """

    orders: dict[int, np.ndarray] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    signs: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The entries of the main region."""
        return next(iter(self.orders))

    def region(self, size: int, shapes: Mapping[str, tuple[int, ...]]) -> Region:
        """Return the region found for this size."""
        return Region.from_flat(self.orders[size], shapes)

    def ranking(self) -> np.ndarray:
        """Return the main region's entries in order, then the additional entries of each larger region, int64."""
        order = self.orders[self.size]
        for size in sorted(s for s in self.orders if s > self.size):
            new = self.orders[size]
            order = np.concatenate([order, new[~np.isin(new, order, assume_unique=True)]])
        return order

    def table(self) -> pd.DataFrame:
        """Return history.parquet."""
        return pd.DataFrame(self.history) if self.history else empty("history")


@dataclass(frozen=True)
class SearchStep:
    """A step of the search for `target` entries, which is number `number` of `searches` searches."""

    target: int
    number: int
    searches: int
    step: LocalizerStep


def search(
    row: Localizer,
    problem: Problem,
    sizes: Sequence[int],
    seed: int,
    options: Any,
    searched: Searched,
    state: State | None = None,
) -> Generator[SearchStep, None, None]:
    """Yield the steps of the searches for these sizes (the main one first) and fill `searched` along the way.

    Nested localizers search once, at the largest size, and smaller regions are cut from the result. Localizers without
    a budget search once and determine the size. The others search for each size separately. If `searched` already holds
    regions, as from a checkpoint, finished searches are kept, and the next one resumes from `state`, or starts over if
    there is none.
    """
    targets = [max(sizes)] if row.is_one_search else list(dict.fromkeys(sizes))
    for number, target in enumerate(targets, 1):
        if target in searched.orders or (row.is_one_search and searched.orders):
            continue
        if state is None:
            searched.history[:] = [line for line in searched.history if line["target"] != target]
        before = max((line["seconds"] for line in searched.history if line["target"] == target), default=0.0)
        steps = row.search(problem, target, seed=seed, options=options, resume=state)
        begun, state = time.perf_counter(), None
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                selection: Selection = end.value
                break
            searched.history.append(
                {
                    "localizer": row.name, "target": target, "step": step.step, "loss": step.finite_loss,
                    "size": step.size, "added": step.added, "removed": step.removed,
                    "seconds": before + time.perf_counter() - begun,
                }
            )  # fmt: skip
            yield SearchStep(target, number, len(targets), step)
        searched.notes += [note for note in selection.notes if note not in searched.notes]
        order = np.asarray(selection.order, dtype=np.int64)
        cuts = [target] if not row.is_one_search else sizes if row.budgeted else [len(order)]
        searched.orders |= {size: order[:size] for size in cuts}
        if selection.signs is not None:
            searched.signs |= {size: selection.signs[:size] for size in cuts}
