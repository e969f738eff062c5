"""The entries a search may switch: scores are kept for them alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from skillviz.core.problem import Problem
from skillviz.core.ranking import top


@dataclass(frozen=True)
class Candidates:
    """The `count` largest movers: `index` [c] into the d entries, ascending; `tau` [c] their movement."""

    index: Tensor
    tau: Tensor

    @classmethod
    def of(cls, problem: Problem, share: float, size: int) -> Candidates:
        """The top `share` of all entries by movement, and never fewer than twice the size (or all d)."""
        count = min(problem.d, max(round(share * problem.d), 2 * size))
        index = top(problem.tau.abs(), count).sort().values
        return cls(index, problem.tau[index])

    def __len__(self) -> int:
        return len(self.index)

    def gain(self, problem: Problem) -> Tensor:
        """-g * tau [c] of the last gradient: what switching an entry on gains, to first order."""
        return torch.take(problem.flat.grad, self.index).mul_(self.tau).neg_()

    def movers(self, count: int) -> Tensor:
        """Places among the candidates of the `count` largest movers."""
        return top(self.tau.abs(), count)
