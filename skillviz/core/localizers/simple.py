"""Regions that need no search: by movement, at random, by first-order passes, and baselines of pruning and merging."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.draws import matched
from skillviz.core.localizers.candidates import allowed
from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, done, number
from skillviz.core.localizers.table import (
    EVERY,
    NOISE,
    SIGNS,
    TENSOR,
    FirstOrderOptions,
    MatchedOptions,
    MovementOptions,
    NoOptions,
    ThresholdOptions,
)
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top, top_of_two
from skillviz.errors import BadSize


def ranking(order_of: Callable[..., Tensor]) -> Callable[..., Search]:
    """Return the search, of one step without a loss, that selects the entries returned by `order_of`, int64 [size]."""

    @wraps(order_of)
    def search(problem: Problem, size: int, *, seed: int, options: Any, resume: State | None = None) -> Search:
        order = order_of(problem, size, seed, options)
        if resume is None:
            yield only_step(size, float("nan"), order)
        return Selection(order.cpu().numpy())

    return search


def only_step(size: int, loss: float, order: Tensor) -> LocalizerStep:
    """Return the only step of a region that needs no search."""
    return LocalizerStep(1, loss, size, size, 0, 1, {"step": number(1), "order": order})


@ranking
def movement(problem: Problem, size: int, seed: int, options: MovementOptions) -> Tensor:
    """The entries that moved most: the largest |fine-tuned - base| (paper, Fig. 2).

    Exactly `size`: entries that did not move are last. With models of other seeds, see `signal_over_noise`.
    """
    inside = allowed(problem, options.within, size)
    if options.per == TENSOR:
        return equal_shares(problem, size, options.within)
    if options.other_movement is not None:
        entries = torch.arange(problem.d, device=problem.device) if inside is None else inside
        tau, (total, squares) = problem.tau[entries], options.other_movement.to(problem.device)[:, entries]
        score = signal_over_noise(tau, total, squares, 1 + len(options.other_models.split(",")))
        return entries[top_of_two(moved_first(score, tau), tau.abs(), size)]
    entries, tau = problem.largest_movers(size) if inside is None else (inside, problem.movement_at(inside))
    return entries[top(tau.abs(), size)]


def signal_over_noise(tau: Tensor, total: Tensor, squares: Tensor, models: int) -> Tensor:
    """Return the mean movement over models of several seeds, in the direction of `tau`, over its noise: float32 [n].

    `total` and `squares` [n] are the sums of the other models' movements and of their squares. The noise is the
    standard deviation over models plus its median over entries, as in SAM (Tusher et al. 2001): by few seeds alone,
    entries whose spread is small by chance would come first.
    """
    mean = (tau + total) / models
    spread = ((tau.square() + squares) / models - mean.square()).clamp_(min=0).sqrt_()
    moved = spread[tau != 0]
    usual = moved.median() if len(moved) else spread.new_zeros(())
    return mean * tau.sign() / (spread + usual).clamp_(min=torch.finfo(spread.dtype).tiny)


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


@ranking
def random(problem: Problem, size: int, seed: int, options: NoOptions) -> Tensor:
    """A uniform draw from all graftable entries (paper, Fig. 2 and Table 8): the control."""
    return torch.from_numpy(problem.drawn(size, seed))


def first_order(
    problem: Problem, size: int, *, seed: int, options: FirstOrderOptions, resume: State | None = None
) -> Search:
    """The entries whose fine-tuned value lowers the loss most to first order at the base: -g * tau.

    One gradient, no interaction between entries (ours, as the natural baseline of the learned mask: PAPER.md, section
    4, shows that mask to be a thresholded first-order score). With several points or weighed batches it is `averaged`.
    """
    if options.is_averaged:
        return (yield from averaged(problem, size, seed=seed, options=options, resume=resume))
    if resume is not None:
        return Selection(resume["order"].cpu().numpy())
    with problem.at_base_afterwards():
        loss, order = problem.first_order(next(problem.draws(options.examples, seed)), size)
    yield only_step(size, loss, order)
    return Selection(order.cpu().numpy())


def averaged(
    problem: Problem, size: int, *, seed: int, options: FirstOrderOptions, resume: State | None = None
) -> Search:
    """The entries with the largest mean of -g * tau over batches and points on the path; each step is one batch.

    The points are base + (p / points) tau with p = 0 ... points - 1: integrated gradients (Sundararajan et al. 2017),
    by parameters instead of inputs. With many points an entry's mean is its part of the loss that the path removes
    (Lan et al. 2019). One point and one batch are the gradient at the base.
    """
    rows = next(problem.draws(options.examples, seed))
    batches, behind = np.array_split(rows, min(options.batches, len(rows))), done(resume)
    mean, spread = (torch.zeros(problem.d, device=problem.device) for _ in range(2))
    if resume:
        mean.copy_(resume["gained"])
        spread.copy_(resume["spread"])
    with problem.at_base_afterwards():
        for step, batch in enumerate(batches[behind:], start=behind + 1):
            slope, loss = torch.zeros_like(mean), float("nan")
            for point in reversed(range(options.points)):
                problem.set_soft(torch.tensor(point / options.points, device=problem.device))
                loss = problem.train.backward(batch)
                slope += problem.flat.grad
            gain = slope.mul_(problem.tau).div_(-options.points)
            change = gain - mean
            mean += change / step
            spread += gain.sign() if options.weigh == SIGNS else change * (gain - mean)
            added, state = size if step == len(batches) else 0, {"step": number(step), "gained": mean, "spread": spread}
            yield LocalizerStep(step, loss, added, added, 0, len(batches), state)
    score = mean
    if options.weigh == SIGNS:
        score = mean * spread.abs()
    elif options.weigh == NOISE:  # the standard error but for a factor; a gain that no batch changes has none
        score = torch.where(spread == 0, 0.0, mean / spread.sqrt())
    order = top_of_two(moved_first(score, problem.tau), mean, size)
    return Selection(order.cpu().numpy())


RESCALED = "A control: the values inside are base + movement * d / size, not the fine-tuned ones, so it is no graft."


@ranking
def random_matched(problem: Problem, size: int, seed: int, options: MatchedOptions) -> Tensor:
    """A uniform draw within each tensor, of as many entries as the reference has there (ours): a matched null.

    The reference is top movement, or the region in `reference_indices`, from which a smaller `size` is drawn. The draw
    may include entries of the reference, like any draw from these tensors. Raises BadSize if the reference has fewer
    than `size` entries.
    """
    if options.reference_indices is None:
        reference = top(problem.tau.abs(), size).cpu().numpy()
    else:
        given = np.asarray(options.reference_indices, dtype=np.int64)
        if size > len(given):
            raise BadSize(
                f"{size:,} entries were requested, but the region to match has {len(given):,}; choose at most that."
            )
        reference = np.random.default_rng(seed).permutation(given)[:size]
    return torch.from_numpy(matched(reference, problem.table.offsets, seed))


@ranking
def magnitude(problem: Problem, size: int, seed: int, options: NoOptions) -> Tensor:
    """The entries with the largest |fine-tuned value|: magnitude pruning's choice (Han et al. 2015), grafted.

    Entries that did not move are last (ours).
    """
    return top(moved_first(problem.finetuned.float().abs(), problem.tau), size)


@ranking
def tall_mask(problem: Problem, size: int, seed: int, options: ThresholdOptions) -> Tensor:
    """The entries with the largest |fine-tuned - base| relative to the movement of other tasks' models, or to |base|.

    TALL-masks (Wang et al. 2024, Eq. 5) keep the entries with |tau_t| >= lambda |tau_MTL - tau_t|, tau_MTL the sum of
    several tasks' vectors; tau_MTL - tau_t is the sum of the others', `other_movement` [d]. One pair has no other
    tasks: theta_ft then replaces tau_MTL, and the right side is lambda |theta_pre|. lambda is the value that gives
    exactly `size` entries. Ties (a right side of zero) go to the larger movement.
    """
    distance = problem.tau.abs()
    others = problem.base.float() if options.other_movement is None else options.other_movement[0].to(distance.device)
    ratio = (distance / others.abs()).masked_fill_(distance == 0, 0.0)  # 0 / 0 is no movement
    return top_of_two(ratio, distance, size)


def dare(problem: Problem, size: int, *, seed: int, options: NoOptions, resume: State | None = None) -> Search:
    """The draw of `random` at the same seed; the pair scores it with the movement times d / size (Yu et al. 2024).

    DARE drops each entry on its own with probability p and divides the rest by 1 - p; here exactly `size` are kept, so
    1 - p is size / d.
    """
    drawn = yield from random(problem, size, seed=seed, options=options, resume=resume)
    return Selection(drawn.order, (RESCALED,))
