"""Which entries may be chosen: a search keeps scores for the largest movers alone; a ranking may keep to the biases."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from skillviz.core.localizers.record import Selection
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top
from skillviz.errors import BadSize


@dataclass(frozen=True)
class Candidates:
    """The `count` largest movers: `index` [c] into the d entries, ascending; `tau` [c] their movement.

    With `free_signs` the search chooses the sign of each entry's movement: that of the gains accumulated so far, which
    are those of +|tau|. An entry without evidence has none yet and stays at the base.
    """

    index: Tensor
    tau: Tensor
    free_signs: bool = False

    @classmethod
    def of(cls, problem: Problem, share: float, size: int) -> Candidates:
        """The top `share` of all entries by movement, and never fewer than twice the size (or all d).

        Entries that did not move are among them only where fewer moved than the size.
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
        """-g * tau [c] of the last gradient: what switching an entry on gains, to first order."""
        return problem.gradient_at(self.index).mul_(self.tau).neg_()

    def worth(self, score: Tensor) -> Tensor:
        """What entries are chosen by: their accumulated gains [c]; of free signs those with the better sign."""
        return score.abs() if self.free_signs else score

    def signs(self, score: Tensor) -> Tensor | None:
        """The sign -1, 0 or 1 of each entry [c] after these accumulated gains; None where it is the movement's own."""
        return score.sign() if self.free_signs else None

    def graft(self, problem: Problem, selected: Tensor, score: Tensor) -> None:
        """Put the model at the graft of the entries `selected` [c], with the signs of their accumulated gains."""
        signs = self.signs(score)
        if signs is None:
            problem.set_region(self.index[selected])
        else:
            problem.set_soft_at(self.index, signs * selected, self.tau)

    def selection(self, order: Tensor, signs: Tensor | None, notes: tuple[str, ...] = ()) -> Selection:
        """The result of a search: places among the candidates, best first, and the candidates' signs [c]."""
        chosen = None if signs is None else signs[order].cpu().numpy()
        return Selection(self.index[order].cpu().numpy(), notes, chosen)

    def best(self, scores: Tensor, among: Tensor) -> Tensor:
        """The places `among` the candidates by their scores [c], best first; those that did not move come last."""
        return among[top(moved_first(scores[among], self.tau[among]), len(among))]

    def movers(self, count: int) -> Tensor:
        """Places among the candidates of the `count` largest movers."""
        return top(self.tau.abs(), count)


def allowed(problem: Problem, within: str, size: int) -> Tensor | None:
    """Entries that may be chosen, ascending, int64; None where all may. Raises BadSize where `size` is more."""
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
    """Every entry of a bias among the graftable parameters, those of LayerNorm too, ascending, int64."""
    table = problem.table
    ends = zip(table.parameters, table.offsets[:-1], table.offsets[1:], strict=True)
    spans = [torch.arange(int(a), int(b)) for parameter, a, b in ends if parameter.is_bias]
    return torch.cat(spans or [torch.empty(0, dtype=torch.long)]).to(problem.device)
