"""The output of a localizer at each step and at the end, and the state from which it resumes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from skillviz.core.parameters import ParameterTable
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadSize

T = TypeVar("T")
State = dict[str, Tensor]
"""The state of a search that its problem, seed and options do not determine: small numbers as tensors too."""


@dataclass(frozen=True)
class LocalizerStep:
    """One step of a search.

    It has the mean loss in nats on its batch *before* the switch, the region's size after it, the entries switched on
    and off, and the total number of steps.

    `state` is what the localizer takes as `resume` to continue after this step, bit for bit. Its tensors belong to the
    search: they are valid until the next step is requested. None: it can only start over.

    `region` returns the region after this step as global flat indices, best first, int64 [size]; it is valid as long as
    `state`. None: the search has no region before its end.
    """

    step: int
    loss: float
    size: int
    added: int
    removed: int
    total: int | None = None
    state: State | None = field(default=None, repr=False, compare=False)
    region: Callable[[], np.ndarray] | None = field(default=None, repr=False, compare=False)

    @property
    def finite_loss(self) -> float | None:
        """The loss, None if the step has none."""
        return self.loss if isfinite(self.loss) else None


@dataclass(frozen=True)
class Selection:
    """The chosen entries as global flat indices, best first, int64 [size]; and remarks for the reader.

    `signs` float32 [size] are -1, 0 or 1 for each entry if the search chose them (`Problem.has_free_signs`).
    """

    order: np.ndarray
    notes: tuple[str, ...] = ()
    signs: np.ndarray | None = None

    def counted(self, problem: Problem) -> Selection:
        """Add a remark if some of the chosen entries did not move, because copying them changes nothing.

        Raises BadSize if one of them is excluded from the region.
        """
        if problem.outside is not None and (inside := int(np.isin(self.order, problem.outside).sum())):
            raise BadSize(
                f"{inside:,} of the {len(self.order):,} chosen entries lie in the region that the search is kept out "
                "of, as too few others moved; choose a smaller size, or a smaller region to stay out of."
            )
        tau = problem.movement_at(torch.from_numpy(np.sort(self.order)).to(problem.device))
        moved, size = int(torch.count_nonzero(tau)), len(self.order)
        if moved == size:
            return self
        note = f"Only {moved:,} of the {size:,} chosen entries moved in fine-tuning."
        return replace(self, notes=(*self.notes, note))

    def region(self, table: ParameterTable, size: int | None = None) -> Region:
        """Return the region of the first `size` entries (all of them by default)."""
        return Region.from_flat(self.order[:size], table.shapes)


Search = Generator[LocalizerStep, None, Selection]


def followed(work: Generator[Any, None, T], report: Callable[[Any], object]) -> T:
    """Return the result of a generator, after reporting each record that it yields."""
    while True:
        try:
            report(next(work))
        except StopIteration as end:
            return end.value


def number(value: float) -> Tensor:
    """Return a number in the form of a state: float64 for fractions, int64 for counts, so nothing is rounded."""
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


def done(resume: State | None) -> int:
    """Return the number of steps that a search has done: 0 at its start."""
    return int(resume["step"]) if resume else 0
