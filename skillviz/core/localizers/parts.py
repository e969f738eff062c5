"""Regions that are whole parts of the model, of their own size: all biases, whole layers, whole module kinds."""

from __future__ import annotations

from time import perf_counter

import torch
from torch import Tensor

from skillviz.core.localizers.eligible import biases_of
from skillviz.core.localizers.record import Found, Search, State
from skillviz.core.localizers.simple import only_step, unmoved_note
from skillviz.core.localizers.table import EVERY, KindsOptions, LayersOptions, NoOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.core.region_expression import Recipe, region_of
from skillviz.errors import BadInput


def biases(problem: Problem, size: int, *, seed: int, options: NoOptions, resume: State | None = None) -> Search:
    """All biases of the graftable parameters, those that moved most first; `size` is not used (paper, Fig. 4a).

    BitFit trains the same entries. Raises BadInput where the model has none.
    """
    inside = biases_of(problem)
    if not len(inside):
        raise BadInput("this model has no biases among its graftable parameters; use another localizer.")
    return (yield from _whole(problem, inside, f"All {len(inside):,} biases, those of LayerNorm too.", resume))


def layers(problem: Problem, size: int, *, seed: int, options: LayersOptions, resume: State | None = None) -> Search:
    """Every graftable entry of these blocks, those that moved most first; `size` is not used (ours)."""
    if options.layers == EVERY:
        inside, said = _described(problem, {}), f"All {problem.table.layers} blocks: the whole of what can be grafted."
    else:
        inside = _described(problem, {"layers": [int(number) for number in options.layers.split(",")]})
        said = f"Whole blocks, counted from 0: {options.layers.replace(',', ', ')}."
    return (yield from _whole(problem, inside, said, resume))


def kinds(problem: Problem, size: int, *, seed: int, options: KindsOptions, resume: State | None = None) -> Search:
    """Every graftable entry of these module kinds, those that moved most first; `size` is not used (ours)."""
    if options.kinds == EVERY:
        inside, said = _described(problem, {}), "All module kinds: the whole of what can be grafted."
    else:
        inside = _described(problem, {"kinds": options.kinds.split(",")})
        said = f"Whole module kinds: {options.kinds.replace(',', ', ')}."
    return (yield from _whole(problem, inside, said, resume))


def _described(problem: Problem, recipe: Recipe) -> Tensor:
    found = torch.from_numpy(region_of(recipe, problem.table).flat()).to(problem.flat.device)
    if not len(found):
        raise BadInput("this model has no graftable entry of the kinds asked for; name others, or all.")
    return found


def _whole(problem: Problem, inside: Tensor, said: str, resume: State | None) -> Search:
    """All of `inside` by movement."""
    begun = perf_counter()
    if resume is None:
        order = inside[top(problem.tau[inside].abs(), len(inside))]
        yield only_step(len(order), float("nan"), begun, order)
    else:
        order = resume["order"].to(problem.flat.device)
    moved = int((problem.tau[order] != 0).sum())
    return Found(order.cpu().numpy(), (said, *unmoved_note(moved, len(order))))
