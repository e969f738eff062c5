"""Regions that are described instead of searched for, each with its own size: biases, layers, kinds, by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from skillviz.core.localizers.candidates import biases_of
from skillviz.core.localizers.record import Search, Selection, State
from skillviz.core.localizers.simple import only_step
from skillviz.core.localizers.table import EVERY, ExpressionOptions, KindsOptions, LayersOptions, NoOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.core.region_expression import RegionExpression, Stored, canonical, parsed, region_of
from skillviz.errors import BadInput


def biases(problem: Problem, size: int, *, seed: int, options: NoOptions, resume: State | None = None) -> Search:
    """All biases of the graftable parameters, largest movement first; `size` is not used (paper, Fig. 4a).

    BitFit trains the same entries. Raises BadInput if the model has none.
    """
    inside = biases_of(problem)
    if not len(inside):
        raise BadInput("this model has no biases among its graftable parameters; use another localizer.")
    return (yield from _whole(problem, inside, f"All {len(inside):,} biases, those of LayerNorm too.", resume))


def layers(problem: Problem, size: int, *, seed: int, options: LayersOptions, resume: State | None = None) -> Search:
    """Every graftable entry of these blocks, largest movement first; `size` is not used (ours)."""
    if options.layers == EVERY:
        note = f"All {problem.table.layers} blocks: every graftable entry."
        return (yield from _described(problem, {}, note, resume))
    numbers = [int(number) for number in options.layers.split(",")]
    note = f"Whole blocks, counted from 0: {options.layers.replace(',', ', ')}."
    return (yield from _described(problem, {"layers": numbers}, note, resume))


def kinds(problem: Problem, size: int, *, seed: int, options: KindsOptions, resume: State | None = None) -> Search:
    """Every graftable entry of these module kinds, largest movement first; `size` is not used (ours)."""
    if options.kinds == EVERY:
        return (yield from _described(problem, {}, "All module kinds: every graftable entry.", resume))
    note = f"Whole module kinds: {options.kinds.replace(',', ', ')}."
    return (yield from _described(problem, {"kinds": options.kinds.split(",")}, note, resume))


def by_hand(
    problem: Problem, size: int, *, seed: int, options: ExpressionOptions, resume: State | None = None
) -> Search:
    """The entries that a region expression describes, largest movement first; `size` is not used (ours)."""
    return (yield from _described(problem, parsed(options.expression), "", resume, options.stored))


def _described(
    problem: Problem, expression: RegionExpression, note: str, resume: State | None, stored: Stored | None = None
) -> Search:
    """The region of an expression; raises BadInput if it is empty, or has a name that is not in this model."""
    inside = torch.from_numpy(region_of(expression, problem.table, stored).flat()).to(problem.flat.device)
    if not len(inside):
        described = canonical(expression)
        raise BadInput(f"{described} describes a region without entries; choose other layers, kinds or rows.")
    return (yield from _whole(problem, inside, note, resume))


def _whole(problem: Problem, inside: Tensor, note: str, resume: State | None) -> Search:
    """Select all of `inside`, ordered by movement."""
    if resume is None:
        order = inside[top(problem.tau[inside].abs(), len(inside))]
        yield only_step(len(order), float("nan"), order)
    else:
        order = resume["order"].to(problem.flat.device)
    return Selection(order.cpu().numpy(), (note,) if note else ())
