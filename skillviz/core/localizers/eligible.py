"""Which entries a ranking may choose from: all graftable ones, or their biases alone (paper, Fig. 4a)."""

from __future__ import annotations

import torch
from torch import Tensor

from skillviz.core.problem import Problem
from skillviz.errors import BadSize

WITHIN = ("all", "biases")


def allowed(problem: Problem, within: str, size: int) -> Tensor | None:
    """Entries that may be chosen, ascending, int64; None where all may. Raises BadSize where `size` is more."""
    if within == "all":
        return None
    inside = biases_of(problem)
    if size > len(inside):
        raise BadSize(
            f"{size:,} entries were asked for among the biases, of which this model has {len(inside):,} "
            f"({len(inside) / problem.d:.3%} of its graftable entries); ask for no more, or leave 'within' at all."
        )
    return inside


def biases_of(problem: Problem) -> Tensor:
    """Every entry of a bias among the graftable parameters, those of LayerNorm too, ascending, int64."""
    table = problem.table
    ends = zip(table.parameters, table.offsets[:-1], table.offsets[1:], strict=True)
    spans = [torch.arange(int(a), int(b)) for parameter, a, b in ends if parameter.is_bias]
    return torch.cat(spans or [torch.empty(0, dtype=torch.long)]).to(problem.flat.device)
