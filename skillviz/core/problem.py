"""The input of a localizer: a model between base and fine-tuned, and examples of the task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from skillviz.core.draws import uniform
from skillviz.core.flat import FlatModel
from skillviz.core.movement import Movement
from skillviz.core.objective import Objective
from skillviz.core.parameters import ParameterTable
from skillviz.core.ranking import moved_first, top


def soft(base: Tensor, gamma: Tensor, tau: Tensor) -> Tensor:
    """Return base + gamma * tau, rounded once to the dtype of `base`."""
    if base.dtype == torch.float32:
        return torch.addcmul(base, gamma, tau)
    return (base.float() + gamma * tau).to(base.dtype)


@dataclass(repr=False)
class Problem:
    """A model whose graftable vector `flat.theta` is at `base` [d] and may move towards `finetuned` [d].

    A region is searched on `train`, and intermediate regions are judged on `selection`. `has_free_signs`: the search
    chooses the sign of each entry's movement, so `finetuned` counts for its distance alone (core/nulls.py). `outside`
    are entries, global flat indices, that did not move here and that no search may choose.
    """

    flat: FlatModel
    base: Tensor
    finetuned: Tensor
    train: Objective
    selection: Objective | None = None
    has_free_signs: bool = False
    outside: np.ndarray | None = None

    def __repr__(self) -> str:
        judged = f", {self.selection.n:,} to judge by" if self.selection is not None else ""
        return f"Problem({self.d:,} graftable entries, {self.train.n:,} training examples{judged})"

    @property
    def d(self) -> int:
        """The number of graftable entries."""
        return len(self.base)

    @property
    def table(self) -> ParameterTable:
        """The graftable parameters."""
        return self.flat.table

    @cached_property
    def movement(self) -> Movement:
        """The movement of each entry."""
        return Movement(self.base, self.finetuned, self.table)

    @cached_property
    def tau(self) -> Tensor:
        """The movement, fine-tuned minus base, float32 [d]: bfloat16 would round small movements away."""
        return self.movement.whole()

    @property
    def device(self) -> torch.device:
        """The device for scores of entries."""
        return self.flat.device

    def largest_movers(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the `count` entries that moved most, ascending, int64 [count], and their movement, float32."""
        index = top(self.tau.abs(), count).sort().values
        return index, self.tau[index]

    def movement_at(self, index: Tensor) -> Tensor:
        """Return the movement of these entries, float32."""
        return self.tau[index]

    def watch(self, index: Tensor) -> None:
        """Announce, before a search's first step, that it will use these entries alone, ascending."""

    def gradient_at(self, index: Tensor) -> Tensor:
        """Return the last gradient at the watched entries `index` [c], float32."""
        return self.flat.grad.index_select(0, index)

    def first_order(self, rows: np.ndarray, size: int) -> tuple[float, Tensor]:
        """Return the mean loss at the base on these rows, and the `size` entries with the largest -g * tau, best first.

        Entries that did not move are last.
        """
        self.reset()
        loss = self.train.backward(rows)
        return loss, top(moved_first(-(self.flat.grad * self.tau), self.tau), size)

    def drawn(self, size: int, seed: int) -> np.ndarray:
        """Draw `size` entries from all, int64, in the order drawn."""
        return uniform(self.d, size, seed)

    def reset(self) -> None:
        """Put the model back to base, bit for bit."""
        self.flat.theta.copy_(self.base)

    def set_region(self, indices: Tensor) -> None:
        """Graft these entries: base everywhere else. Values are copied, so the graft is exact."""
        self.reset()
        self.flat.theta[indices] = self.finetuned[indices]

    def set_soft(self, gamma: Tensor) -> None:
        """Put the model at base + gamma * movement, gamma [d] in [0, 1]."""
        if self.flat.theta.dtype == torch.float32:
            torch.addcmul(self.base, gamma, self.tau, out=self.flat.theta)
        else:
            self.flat.theta.copy_(self.base.float() + gamma * self.tau)

    def set_soft_at(self, index: Tensor, gamma: Tensor, tau: Tensor) -> None:
        """Put the watched entries `index` [c] at base + gamma * movement, gamma in [-1, 1], and all others at base."""
        self.reset()
        self.flat.theta[index] = soft(self.base[index], gamma, tau)

    @contextmanager
    def at_base_afterwards(self) -> Iterator[None]:
        """Put the model back to base when the context ends, also after an error."""
        try:
            yield
        finally:
            self.reset()

    def draws(self, batch_size: int, seed: int, rows: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Yield rows of the training examples for one step after the other, without end; of `rows` alone, if given.

        Each epoch is a new permutation; a batch never has an example twice; with `batch_size` of at least n, every step
        takes all examples.
        """
        rng = np.random.default_rng(seed)
        rows = np.arange(self.train.n) if rows is None else rows
        size = min(batch_size, len(rows))
        while True:
            order = rng.permutation(rows)
            for start in range(0, len(rows) - size + 1, size):
                yield order[start : start + size]
