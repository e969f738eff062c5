"""Lottery ticket, a control: the rest of the model is set to zero instead of to the base (paper, Fig. 4b)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from skillviz.core.localizers.learned import RankedOptions, descended
from skillviz.core.localizers.record import Found, Search, State
from skillviz.core.localizers.simple import only_step
from skillviz.core.problem import Problem
from skillviz.core.ranking import top

BY = ("learned", "magnitude")
NOTE = (
    "A control: every graftable entry outside the region is zero, not the base's value; embeddings and head are kept. "
    "The state 'pre-trained' is the model with all graftable entries zero."
)


@dataclass(frozen=True)
class LotteryOptions:
    """`by`: `learned` by the mask's descent from the largest weights, or these alone (`magnitude`).

    The others are those of `learned-ranked`; `lr` 0 means calibrated to the size asked for.
    """

    by: str = "learned"
    steps: int = 50
    batch_size: int = 128
    lr: float = 0.0
    bias: float = 10.0


def lottery(problem: Problem, size: int, *, seed: int, options: LotteryOptions, resume: State | None = None) -> Search:
    """The `size` entries kept where all others are zero: gamma * theta_ft + (1 - gamma) * 0 (PAPER.md, section 5).

    The learned mask with delta = theta_ft: its "movement" is the weight itself, so it departs from the largest
    weights as the published one departs from top movement. No re-training. Exactly `size` (ours).
    """
    zeroed = Problem(problem.flat, torch.zeros_like(problem.base), problem.finetuned, problem.train, problem.selection)
    largest = _largest(problem, size)
    with problem.at_base_afterwards():
        if options.by == "learned":
            ranked = RankedOptions(options.steps, options.batch_size, options.lr, options.bias)
            found = yield from descended(zeroed, largest, size, seed, ranked, resume)
            return Found(found.order, (NOTE, *found.notes))
        if resume is None:
            yield only_step(size, float("nan"), 0.0, largest)
    return Found(largest.cpu().numpy(), (NOTE,))


def _largest(problem: Problem, size: int) -> Tensor:
    """The entries of the `size` largest fine-tuned weights, largest first."""
    return top(problem.finetuned.float().abs(), size)
