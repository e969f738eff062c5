"""Lottery ticket, a control: the rest of the model is set to zero instead of to the base (paper, Fig. 4b)."""

from __future__ import annotations

import torch
from torch import Tensor

from skillviz.core.localizers.learned import descended
from skillviz.core.localizers.record import Search, Selection, State
from skillviz.core.localizers.simple import only_step
from skillviz.core.localizers.table import LotteryOptions, RankedOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import top

NOTE = (
    "A control: every graftable entry outside the region is zero, not the base's value; embeddings and head are kept. "
    "The state 'pre-trained' is the model with all graftable entries zero."
)


def lottery(problem: Problem, size: int, *, seed: int, options: LotteryOptions, resume: State | None = None) -> Search:
    """The `size` entries kept while all others are zero: gamma * theta_ft + (1 - gamma) * 0 (PAPER.md, section 5).

    The learned mask with delta = theta_ft: its "movement" is the weight itself, so it starts from the largest weights
    like the published one starts from top movement. No re-training. Exactly `size` (ours).
    """
    zeroed = Problem(problem.flat, torch.zeros_like(problem.base), problem.finetuned, problem.train, problem.selection)
    largest = _largest(problem, size)
    with problem.at_base_afterwards():
        if options.by == "learned":
            ranked = RankedOptions(options.steps, options.batch_size, options.lr, options.bias)
            selection = yield from descended(zeroed, largest, size, seed, ranked, resume)
            return Selection(selection.order, (NOTE, *selection.notes))
        if resume is None:
            yield only_step(size, float("nan"), 0.0, largest)
    return Selection(largest.cpu().numpy(), (NOTE,))


def _largest(problem: Problem, size: int) -> Tensor:
    """The entries of the `size` largest fine-tuned weights, largest first."""
    return top(problem.finetuned.float().abs(), size)
