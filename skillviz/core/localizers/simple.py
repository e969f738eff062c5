"""Regions that need no search: by movement, at random, by one first-order pass."""

from __future__ import annotations

from time import perf_counter

import torch
from torch import Tensor

from skillviz.core.localizers.averaged import averaged
from skillviz.core.localizers.candidates import allowed
from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, number
from skillviz.core.localizers.table import EVERY, TENSOR, FirstOrderOptions, MovementOptions, NoOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top


def movement(
    problem: Problem, size: int, *, seed: int, options: MovementOptions, resume: State | None = None
) -> Search:
    """The entries that moved most: the largest |fine-tuned - base| (paper, Fig. 2).

    Exactly `size`: entries that did not move are last.
    """
    begun = perf_counter()
    inside = allowed(problem, options.within, size)
    if options.per == TENSOR:
        order = equal_shares(problem, size, options.within)
    else:
        entries, tau = problem.largest_movers(size) if inside is None else (inside, problem.movement_at(inside))
        order = entries[top(tau.abs(), size)]
    if resume is None:
        yield only_step(size, float("nan"), begun, order)
    return Selection(order.cpu().numpy())


def equal_shares(problem: Problem, size: int, within: str) -> Tensor:
    """Return `size` entries by their rank in movement within their tensor, as a share of its entries: int64 [size].

    So each tensor gives the same share of its entries, up to one, where all moved.
    """
    places, shares, offsets = list[Tensor](), list[Tensor](), problem.table.offsets.tolist()
    for parameter, start, end in zip(problem.table.parameters, offsets[:-1], offsets[1:], strict=True):
        if within == EVERY or parameter.is_bias:
            tau = problem.movement_at(torch.arange(start, end, device=problem.device))
            first = top(tau.abs(), min(size, end - start))
            rank = torch.arange(len(first), dtype=torch.float64, device=problem.device)
            places.append(first + start)
            shares.append(moved_first((rank + 0.5) / (start - end), tau[first]))
    return torch.cat(places)[top(torch.cat(shares), size)]


def random(problem: Problem, size: int, *, seed: int, options: NoOptions, resume: State | None = None) -> Search:
    """A uniform draw from all graftable entries (paper, Fig. 2 and Table 8): the control."""
    begun = perf_counter()
    order = problem.drawn(size, seed)
    if resume is None:
        yield only_step(size, float("nan"), begun, torch.from_numpy(order))
    return Selection(order)


def first_order(
    problem: Problem, size: int, *, seed: int, options: FirstOrderOptions, resume: State | None = None
) -> Search:
    """The entries whose fine-tuned value lowers the loss most to first order at the base: -g * tau.

    One gradient, no interaction between entries (ours, as the natural baseline of the learned mask: PAPER.md, section
    4, shows that mask to be a thresholded first-order score). With several points or weighed batches it is `averaged`.
    """
    begun = perf_counter()
    if options.is_averaged:
        return (yield from averaged(problem, size, seed=seed, options=options, resume=resume))
    if resume is not None:
        return Selection(resume["order"].cpu().numpy())
    with problem.at_base_afterwards():
        loss, order = problem.first_order(next(problem.draws(options.examples, seed)), size)
    yield only_step(size, loss, begun, order)
    return Selection(order.cpu().numpy())


def only_step(size: int, loss: float, begun: float, order: Tensor) -> LocalizerStep:
    """Return the only step of a region that needs no search."""
    return LocalizerStep(1, loss, size, size, 0, perf_counter() - begun, 1, lambda: {"step": number(1), "order": order})
