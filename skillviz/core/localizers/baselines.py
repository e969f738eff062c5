"""Baselines from pruning and model merging that need no gradient: each a ranking of the entries, or a draw of them."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch

from skillviz.core.localizers.record import Search, Selection, State
from skillviz.core.localizers.simple import only_step, random
from skillviz.core.localizers.table import MatchedOptions, NoOptions, ThresholdOptions
from skillviz.core.problem import Problem
from skillviz.core.random_entries import matched
from skillviz.core.ranking import moved_first, top, top_of_two
from skillviz.errors import BadSize

RESCALED = "A control: the values inside are base + movement * d / size, not the fine-tuned ones, so it is no graft."


def random_matched(
    problem: Problem, size: int, *, seed: int, options: MatchedOptions, resume: State | None = None
) -> Search:
    """A uniform draw within each tensor, of as many entries as the reference has there (ours): a matched null.

    The reference is top movement, or the region in `reference_indices`, from which a smaller `size` is drawn. The draw
    may include entries of the reference, like any draw from these tensors. Raises BadSize if the reference has fewer
    than `size` entries.
    """
    begun = perf_counter()
    if options.reference_indices is None:
        reference = top(problem.tau.abs(), size).cpu().numpy()
    else:
        given = np.asarray(options.reference_indices, dtype=np.int64)
        if size > len(given):
            raise BadSize(
                f"{size:,} entries were requested, but the region to match has {len(given):,}; choose at most that."
            )
        reference = np.random.default_rng(seed).permutation(given)[:size]
    order = matched(reference, problem.table.offsets, seed)
    if resume is None:
        yield only_step(size, float("nan"), begun, torch.from_numpy(order))
    return Selection(order)


def magnitude(problem: Problem, size: int, *, seed: int, options: NoOptions, resume: State | None = None) -> Search:
    """The entries with the largest |fine-tuned value|: magnitude pruning's choice (Han et al. 2015), grafted.

    Entries that did not move are last (ours).
    """
    begun = perf_counter()
    order = top(moved_first(problem.finetuned.float().abs(), problem.tau), size)
    if resume is None:
        yield only_step(size, float("nan"), begun, order)
    return Selection(order.cpu().numpy())


def tall_mask(
    problem: Problem, size: int, *, seed: int, options: ThresholdOptions, resume: State | None = None
) -> Search:
    """The entries with the largest |fine-tuned - base| relative to the movement of other tasks' models, or to |base|.

    TALL-masks (Wang et al. 2024, Eq. 5) keep the entries with |tau_t| >= lambda |tau_MTL - tau_t|, tau_MTL the sum of
    several tasks' vectors; tau_MTL - tau_t is the sum of the others', `other_movement` [d]. One pair has no other
    tasks: theta_ft then replaces tau_MTL, and the right side is lambda |theta_pre|. lambda is the value that gives
    exactly `size` entries. Ties (a right side of zero) go to the larger movement.
    """
    begun = perf_counter()
    distance = problem.tau.abs()
    others = problem.base.float() if options.other_movement is None else options.other_movement.to(distance.device)
    ratio = (distance / others.abs()).masked_fill_(distance == 0, 0.0)  # 0 / 0 is no movement
    order = top_of_two(ratio, distance, size)
    if resume is None:
        yield only_step(size, float("nan"), begun, order)
    return Selection(order.cpu().numpy())


def dare(problem: Problem, size: int, *, seed: int, options: NoOptions, resume: State | None = None) -> Search:
    """The draw of `random` at the same seed; the pair scores it with the movement times d / size (Yu et al. 2024).

    DARE drops each entry on its own with probability p and divides the rest by 1 - p; here exactly `size` are kept, so
    1 - p is size / d.
    """
    drawn = yield from random(problem, size, seed=seed, options=options, resume=resume)
    return Selection(drawn.order, (RESCALED,))
