"""Linearized regions of bootstrap samples: one Jacobian, and the convex problem once for each sample. Ours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.convex import Linear, minimise
from skillviz.core.localizers.linearized import (
    LinearizedOptions,
    Reports,
    candidates_of,
    filled,
    linearize,
    rounded,
    rows_of,
)
from skillviz.core.problem import Problem


@dataclass(frozen=True)
class Linearization:
    """The model linearized at the base on some training examples, and the solution `gamma` [c] for all of them."""

    problem: Problem
    candidates: Candidates
    linear: Linear
    gamma: Tensor
    size: int
    iterations: int

    @property
    def examples(self) -> int:
        """Training examples in the Jacobian."""
        return len(self.linear.labels)

    def order(self, weights: np.ndarray | None = None) -> np.ndarray:
        """The region's entries as global flat indices, best first, int64 [size].

        With `weights` [examples], how often a sample draws each example, the problem is solved anew for the sample,
        beginning at the solution for all and to the same tolerance.
        """
        inside, linear, gamma = min(self.size, len(self.candidates)), self.linear, self.gamma
        if weights is not None:
            counts = torch.as_tensor(weights, dtype=torch.float32, device=gamma.device)
            linear = replace(linear, weights=counts)
            gamma, _ = minimise(linear, inside, self.iterations, start=gamma)
        chosen = rounded(gamma, linear, inside)
        return filled(self.problem, self.candidates, chosen, self.size, self.examples).order


def linearization(problem: Problem, size: int, *, seed: int, options: LinearizedOptions) -> Linearization:
    """What `linearized` computes in its first round; the model is at base afterwards."""
    candidates = candidates_of(problem, size, options)
    rows = rows_of(problem, len(candidates), options, seed)
    nothing = torch.zeros(len(candidates), device=problem.flat.device)
    empty = torch.empty(0, dtype=torch.long, device=problem.flat.device)
    steps = Reports(0, 1, 1, len(rows), perf_counter(), empty)  # all lie behind: nobody listens
    with problem.at_base_afterwards():
        problem.reset()
        work = linearize(problem, candidates, rows, nothing, steps)
        while True:
            try:
                next(work)
            except StopIteration as end:
                linear: Linear = end.value
                break
    gamma, _ = minimise(linear, min(size, len(candidates)), options.iterations)
    return Linearization(problem, candidates, linear, gamma, size, options.iterations)
