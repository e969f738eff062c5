"""The entries that may be chosen: a search scores only the largest movers; a ranking may be limited to the biases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.record import Selection
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top
from skillviz.errors import BadSize


@dataclass(frozen=True)
class Candidates:
    """The `count` largest movers: `index` [c] into the d entries, ascending; `tau` [c] their movement.

    With `free_signs` the search chooses the sign of each entry's movement: the sign of the gains accumulated so far,
    which are the gains of +|tau|. An entry without evidence has no sign yet and stays at the base.
    """

    index: Tensor
    tau: Tensor
    free_signs: bool = False

    @classmethod
    def of(cls, problem: Problem, share: float, size: int) -> Candidates:
        """Return the top `share` of all entries by movement, and never fewer than twice the size (or all d).

        Entries that did not move are included only if fewer moved than the size.
        """
        count = min(problem.d, max(round(share * problem.d), 2 * size))
        index, tau = problem.largest_movers(count)
        if (moved := int(torch.count_nonzero(tau))) < count:
            kept = top(tau.abs(), max(moved, size)).sort().values
            index, tau = index[kept], tau[kept]
        problem.watch(index)
        return cls(index, tau.abs() if problem.has_free_signs else tau, problem.has_free_signs)

    def __len__(self) -> int:
        return len(self.index)

    def gain(self, problem: Problem) -> Tensor:
        """Return -g * tau [c] of the last gradient: the first-order gain of switching an entry on."""
        return problem.gradient_at(self.index).mul_(self.tau).neg_()

    def worth(self, score: Tensor) -> Tensor:
        """The scores [c] that rank entries: their accumulated gains; with free signs, the better sign's."""
        return score.abs() if self.free_signs else score

    def signs(self, score: Tensor) -> Tensor | None:
        """The sign -1, 0 or 1 of each entry [c] after these accumulated gains; None if it is the movement's own."""
        return score.sign() if self.free_signs else None

    def graft(self, problem: Problem, selected: Tensor, score: Tensor) -> None:
        """Put the model at the graft of the entries `selected` [c], with the signs of their accumulated gains."""
        signs = self.signs(score)
        if signs is None:
            problem.set_region(self.index[selected])
        else:
            problem.set_soft_at(self.index, signs * selected, self.tau)

    def selection(self, order: Tensor, signs: Tensor | None, notes: tuple[str, ...] = ()) -> Selection:
        """Return the result of a search: indices of candidates, best first, and the candidates' signs [c]."""
        chosen = None if signs is None else signs[order].cpu().numpy()
        return Selection(self.flat(order), notes, chosen)

    def flat(self, order: Tensor) -> np.ndarray:
        """Return candidates' indices `order` as global flat indices, int64."""
        return self.index[order].cpu().numpy()

    def best(self, scores: Tensor, among: Tensor) -> Tensor:
        """Sort candidates' indices `among` by their scores [c], best first; entries that did not move are last."""
        return among[top(moved_first(scores[among], self.tau[among]), len(among))]

    def movers(self, count: int) -> Tensor:
        """Return the candidates' indices of the `count` largest movers."""
        return top(self.tau.abs(), count)


def allowed(problem: Problem, within: str, size: int) -> Tensor | None:
    """Return the entries that may be chosen, ascending, int64; None for all. Raises BadSize if `size` is larger."""
    if within == "all":
        return None
    inside = biases_of(problem)
    if size > len(inside):
        raise BadSize(
            f"{size:,} is more than the {len(inside):,} biases of this model "
            f"({len(inside) / problem.d:.3%} of its graftable parameters); choose a smaller size, or within=all."
        )
    return inside


def biases_of(problem: Problem) -> Tensor:
    """Return every entry of a bias among the graftable parameters, including LayerNorm's, ascending, int64."""
    table = problem.table
    ends = zip(table.parameters, table.offsets[:-1], table.offsets[1:], strict=True)
    spans = [torch.arange(int(a), int(b)) for parameter, a, b in ends if parameter.is_bias]
    return torch.cat(spans or [torch.empty(0, dtype=torch.long)]).to(problem.device)
