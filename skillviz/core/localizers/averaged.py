"""First-order gains averaged on the path from the base to the fine-tuned model, weighed by how far batches agree."""

from __future__ import annotations

from functools import partial
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, done, number
from skillviz.core.localizers.table import NOISE, SIGNS, FirstOrderOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top_of_two


def averaged(
    problem: Problem, size: int, *, seed: int, options: FirstOrderOptions, resume: State | None = None
) -> Search:
    """The entries with the largest mean of -g * tau over batches and points on the path; each step is one batch.

    The points are base + (p / points) tau with p = 0 ... points - 1: integrated gradients (Sundararajan et al. 2017),
    by parameters instead of inputs. With many points an entry's mean is its part of the loss that the path removes
    (Lan et al. 2019). One point and one batch are the gradient at the base.
    """
    begun = perf_counter()
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
            added, state = size if step == len(batches) else 0, partial(_state, step, mean, spread)
            yield LocalizerStep(step, loss, added, added, 0, perf_counter() - begun, len(batches), state)
    score = mean
    if options.weigh == SIGNS:
        score = mean * spread.abs()
    elif options.weigh == NOISE:  # the standard error but for a factor; a gain that no batch changes has none
        score = torch.where(spread == 0, 0.0, mean / spread.sqrt())
    order = top_of_two(moved_first(score, problem.tau), mean, size)
    return Selection(order.cpu().numpy())


def _state(step: int, mean: Tensor, spread: Tensor) -> State:
    return {"step": number(step), "gained": mean, "spread": spread}
