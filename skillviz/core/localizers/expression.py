"""A region made by hand: what a recipe describes, as any other localizer's region."""

from __future__ import annotations

from time import perf_counter

import torch

from skillviz.core.localizers.record import Found, Search, State
from skillviz.core.localizers.simple import only_step, unmoved_note
from skillviz.core.localizers.table import ExpressionOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.core.region import Region
from skillviz.core.region_expression import parsed, region_of
from skillviz.errors import BadInput

EMPTY = "the recipe describes a region without entries; a region has one or more."


def by_hand(
    problem: Problem, size: int, *, seed: int, options: ExpressionOptions, resume: State | None = None
) -> Search:
    """The entries that the recipe describes, those that moved most first; `size` is not used (ours).

    Raises BadInput where it describes none, or what this model does not have.
    """
    begun = perf_counter()
    if resume is None:
        described = region_of(parsed(options.recipe), problem.table, options.stored)
        inside = torch.from_numpy(Region(described.indices, problem.table.shapes).flat()).to(problem.tau.device)
        if not len(inside):
            raise BadInput(EMPTY)
        order = inside[top(problem.tau[inside].abs(), len(inside))]
        yield only_step(len(order), float("nan"), begun, order)
    else:
        order = resume["order"].to(problem.tau.device)
    moved = int((problem.tau[order] != 0).sum())
    return Found(order.cpu().numpy(), unmoved_note(moved, len(order)))
