"""Regions of all the sizes asked for, with as few searches as the localizer allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.localizers.record import Selection, State, Step
from skillviz.core.localizers.table import Localizer
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.runs.region_expression import ByHand
from skillviz.runs.spec import RunSpec
from skillviz.runs.tables import empty


@dataclass
class Searched:
    """`orders` maps each size, the main one first, to its entries as global flat indices, best first."""

    orders: dict[int, np.ndarray] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Entries of the main region."""
        return next(iter(self.orders))

    def region(self, size: int, shapes: Mapping[str, tuple[int, ...]]) -> Region:
        """The region found for this size."""
        return Region.from_flat(self.orders[size], shapes)

    def ranking(self) -> np.ndarray:
        """The main region's entries in their order, then what each larger region adds, int64."""
        order = self.orders[self.size]
        for size in sorted(s for s in self.orders if s > self.size):
            new = self.orders[size]
            order = np.concatenate([order, new[~np.isin(new, order, assume_unique=True)]])
        return order

    def table(self) -> pd.DataFrame:
        """history.parquet."""
        return pd.DataFrame(self.history) if self.history else empty("history")


OnStep = Callable[[int, Step], None]


def targets(row: Localizer, sizes: Sequence[int]) -> list[int]:
    """The sizes to search for, in order. Nested localizers search once, at the largest size, and the rest is cut;
    those without a budget search once and their size is an outcome; the others search for each size on its own."""
    return [max(sizes)] if row.is_one_search else list(dict.fromkeys(sizes))


def search(
    row: Localizer,
    problem: Problem,
    sizes: Sequence[int],
    seed: int,
    options: Any,
    on_step: OnStep,
    searched: Searched | None = None,
    state: State | None = None,
) -> Searched:
    """The regions of these sizes (the main one first). `on_step` hears of each step and the size it is for.

    `searched` is filled as the searches go on. One that holds regions already, as a checkpoint does, is completed:
    finished searches are kept, and the next goes on from `state`, or begins anew where there is none.
    """
    searched = Searched() if searched is None else searched
    for target in targets(row, sizes):
        if target in searched.orders or (row.is_one_search and searched.orders):
            continue
        result = _one(row, problem, target, seed, options, on_step, searched, state)
        cuts = [target] if not row.is_one_search else sizes if row.budgeted else [len(result.order)]
        searched.orders |= {size: result.order[:size] for size in cuts}
        state = None
    return searched


def _one(
    row: Localizer,
    problem: Problem,
    size: int,
    seed: int,
    options: Any,
    on_step: OnStep,
    searched: Searched,
    state: State | None,
) -> Selection:
    if state is None:
        searched.history[:] = [line for line in searched.history if line["target"] != size]
    before = max((line["seconds"] for line in searched.history if line["target"] == size), default=0.0)
    steps = row.search(problem, size, seed=seed, options=options, resume=state)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            result: Selection = end.value
            break
        searched.history.append(_history_row(row.name, size, step, before))
        on_step(size, step)
    _add_notes(searched, result.notes)
    return Selection(np.asarray(result.order, dtype=np.int64), result.notes)


def _history_row(name: str, target: int, step: Step, before: float) -> dict[str, Any]:
    loss = step.loss if math.isfinite(step.loss) else None
    fields = {"step": step.step, "loss": loss, "size": step.size, "added": step.added, "removed": step.removed}
    return {"localizer": name, "target": target, **fields, "seconds": before + step.seconds}


def _add_notes(searched: Searched, notes: Iterable[str]) -> None:
    searched.notes += [note for note in notes if note not in searched.notes]


def options_of(
    spec: RunSpec, row: Localizer, base_region: Region | None = None, made: ByHand | None = None
) -> tuple[Any, tuple[str, ...]]:
    """The localizer's options as the spec asks for them, and notes on what does not apply to it. `made` is the
    checked expression of a region made by hand.

    `steps` and `batch_size` are common to many localizers and left out for those without them; any other
    unknown option raises BadInput.
    """
    known = {f.name: f for f in fields(row.options)}
    given = dict(spec.options)
    for name in given:
        if name in known and "instead" in known[name].metadata:
            raise BadInput(f"'{name}' is not an option to be given; {known[name].metadata['instead']}.")
    common = {"steps": spec.steps, "batch_size": spec.batch_size}
    asked = {name: value for name, value in common.items() if value is not None}
    given |= {name: value for name, value in asked.items() if name in known}
    if base_region is not None:
        given.pop("base", None)
        given |= {"base_indices": tuple(base_region.flat().tolist())}
    if made is not None:
        given |= {"recipe": made.expression, "stored": made.stored}
    unused = [name for name in asked if name not in known]
    notes = (
        (f"The localizer {row.name} has no {' and no '.join(unused)}; the value given is not used.",) if unused else ()
    )
    return row.make_options(given), notes


def base_region_of(spec: RunSpec, row: Localizer) -> Region | None:
    """The region file that the option `base` names, None where it names none.

    Raises BadInput where there is no such file.
    """
    base, option = spec.options.get("base"), row.option("base")
    if option is None or base is None or base in option.choices:
        return None
    if not isinstance(base, str) or not Path(base).is_file():
        raise BadInput(f"the option 'base' must be movement, empty, or a region file; {base!r} is none of them.")
    return Region.load(base)
