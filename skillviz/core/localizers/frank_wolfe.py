"""Frank-Wolfe over fractional regions of a fixed size. Ours."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.record import Found, Search, Step
from skillviz.core.problem import Problem
from skillviz.core.ranking import top


@dataclass(frozen=True)
class FrankWolfeOptions:
    """The step towards the vertex is 2 / (t + 3) at t = 0, 1, ..."""

    steps: int = 30
    batch_size: int = 128
    candidate_share: float = 0.1


def frank_wolfe(problem: Problem, size: int, *, seed: int, options: FrankWolfeOptions) -> Search:
    """The region nearest to the minimum over {0 <= gamma <= 1, sum = size}, by conditional gradients.

    Starts at top movement. Each step moves gamma towards the vertex that gains most to first order at
    the soft graft; at the end the `size` largest gamma are kept, ties by accumulated gain.
    """
    begun = perf_counter()
    candidates = Candidates.of(problem, options.candidate_share, size)
    gamma = torch.zeros(len(candidates), device=problem.flat.device)
    gamma[candidates.movers(size)] = 1.0
    gained = torch.zeros_like(gamma)
    full = torch.zeros(problem.d, device=problem.flat.device)
    draws = problem.draws(options.batch_size, seed)
    region = set_of(gamma, gained, size)
    with problem.at_base_afterwards():
        for step in range(1, options.steps + 1):
            full[candidates.index] = gamma
            problem.set_soft(full)
            loss = problem.train.backward(next(draws))
            gain = candidates.gain(problem)
            gained += gain
            vertex = top(gain, size)
            rate = 2 / (step + 2)
            gamma.mul_(1 - rate)
            gamma[vertex[gain[vertex] > 0]] += rate
            before, region = region, set_of(gamma, gained, size)
            kept = np.intersect1d(before, region, assume_unique=True).size
            yield Step(step, loss, size, size - kept, size - kept, perf_counter() - begun)
    return Found(candidates.index.cpu().numpy()[region])


def set_of(gamma: Tensor, gained: Tensor, size: int) -> np.ndarray:
    """Places of the `size` largest gamma, best first; ties by accumulated gain, then by index."""
    positive = (gamma > 0).nonzero().squeeze(1)
    if len(positive) < size:
        rest = torch.where(gamma > 0, float("-inf"), gained)
        positive = torch.cat([positive, top(rest, size - len(positive))])
    place = positive.cpu().numpy()
    order = np.lexsort((place, -gained[positive].cpu().numpy(), -gamma[positive].cpu().numpy()))
    return place[order[:size]]
