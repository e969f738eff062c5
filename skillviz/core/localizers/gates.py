"""Masks relaxed to numbers between 0 and 1 and trained on the task: those of Localize-and-Stitch and diff pruning."""

from __future__ import annotations

from functools import partial
from itertools import islice
from math import exp, log

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.learned import gain_at
from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, done, number
from skillviz.core.localizers.table import GateOptions, StitchOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top, top_of_two

TEMPERATURE, STRETCH_LOW, STRETCH_HIGH = 2 / 3, -0.1, 1.1
"""Parameters of the hard concrete distribution, as published (Louizos et al. 2018)."""
CLOSED = TEMPERATURE * log(-STRETCH_LOW / STRETCH_HIGH)
"""A gate is open with probability sigmoid(log-odds - CLOSED)."""
START = 2.0
"""The initial log-odds of every gate: most are open, as at the start of diff pruning (ours)."""


def localize_and_stitch(
    problem: Problem, size: int, *, seed: int, options: StitchOptions, resume: State | None = None
) -> Search:
    """The `size` largest S after descent of the loss at base + sigmoid(S) * tau (He et al. 2024, Eq. 2).

    S starts at +bias for the largest movers and -bias elsewhere. The published mask is S > 0, whose size is an outcome,
    and uses full passes for its steps; here the cut is exact and a step uses a batch (ours).
    """
    behind, distance = done(resume), problem.tau.abs()
    scores = torch.full_like(distance, -options.bias)
    scores[top(distance, max(1, round(options.base_share * problem.d)))] = options.bias
    with problem.at_base_afterwards():
        if resume:
            lr = float(resume["lr"])
            scores.copy_(resume["scores"])
        else:
            lr = options.lr or _crossing_rate(problem, scores, size, options, seed)
        chosen = _Chosen(scores, distance, size)
        batches = islice(problem.draws(options.batch_size, seed), behind, None)
        u, rest, slope = (torch.empty_like(scores) for _ in range(3))
        for step in range(behind + 1, options.steps + 1):
            torch.sigmoid(scores, out=u)
            problem.set_soft(u)
            loss = problem.train.backward(next(batches))
            torch.sub(1, u, out=rest).mul_(u)
            scores.addcmul_(torch.mul(problem.flat.grad, problem.tau, out=slope), rest, value=-lr)
            state = {"step": number(step), "lr": number(lr), "scores": scores}
            counts, region = chosen.after(scores), partial(chosen.order, scores)
            yield LocalizerStep(step, loss, *counts, options.steps, state, region)
    note = (
        f"Learning rate of the mask: {lr:.3g}." if lr else "No entry gains anything at the start: the largest movers."
    )
    return Selection(top_of_two(moved_first(scores, distance), distance, size).cpu().numpy(), (note,))


def l0_gates(problem: Problem, size: int, *, seed: int, options: GateOptions, resume: State | None = None) -> Search:
    """The `size` entries whose gates are most likely open, after descent of loss + price * expected open gates.

    The gates are hard concrete, drawn again each step (Louizos et al. 2018). Diff pruning (Guo et al. 2021) trains them
    together with the movement; here the movement is the fine-tuned model's, so the region is a graft. The price is
    `penalty` times the size-th largest first-order gain at the base; a step moves the log-odds by `lr` for each
    gradient as large as the price.
    """
    behind, distance = done(resume), problem.tau.abs()
    odds = torch.full_like(distance, START)
    with problem.at_base_afterwards():
        if resume:
            price = float(resume["lr"])
            odds.copy_(resume["scores"])
        else:
            problem.reset()
            problem.train.backward(next(problem.draws(options.batch_size, seed)))
            price = options.penalty * gain_at(-(problem.flat.grad * problem.tau), size)
        chosen = _Chosen(odds, distance, size)
        batches = islice(problem.draws(options.batch_size, seed), behind, None)
        gate, slope, opened, rest = (torch.empty_like(odds) for _ in range(4))
        for step in range(behind + 1, options.steps + 1):
            _draw(odds, seed, step, gate, slope, rest)
            problem.set_soft(gate)
            loss = problem.train.backward(next(batches))
            torch.sub(odds, CLOSED, out=opened).sigmoid_()
            torch.mul(problem.flat.grad, problem.tau, out=rest)
            odds.addcmul_(rest, slope, value=-options.lr / price if price else 0.0)
            odds.addcmul_(opened, torch.sub(1, opened, out=rest), value=-options.lr)
            state = {"step": number(step), "lr": number(price), "scores": odds}
            counts, region = chosen.after(odds), partial(chosen.order, odds)
            yield LocalizerStep(step, loss, *counts, options.steps, state, region)
    note = f"Price of an open gate: {price:.3g} nats." if price else "No entry gains anything at the base."
    return Selection(top_of_two(moved_first(odds, distance), distance, size).cpu().numpy(), (note,))


def _draw(odds: Tensor, seed: int, step: int, gate: Tensor, slope: Tensor, rest: Tensor) -> None:
    """Fill `gate` [d] with a draw of the gates, 0..1, and `slope` [d] with its derivative by the log-odds.

    `rest` [d] is overwritten. No vector is allocated: a new one of ten million entries costs as much as several passes.
    """
    generator = torch.Generator(gate.device).manual_seed(seed * 1_000_003 + step)
    torch.rand(len(odds), generator=generator, out=gate)
    gate.clamp_(1e-6, 1 - 1e-6).logit_().add_(odds).div_(TEMPERATURE).sigmoid_()
    torch.sub(1, gate, out=slope).mul_(gate)
    gate.mul_(STRETCH_HIGH - STRETCH_LOW).add_(STRETCH_LOW)
    # 1 inside and 0 outside as floats: multiplying by booleans takes several times as long
    slope.mul_(torch.gt(gate, 0, out=rest)).mul_(torch.lt(gate, 1, out=rest))
    slope.mul_((STRETCH_HIGH - STRETCH_LOW) / TEMPERATURE)
    gate.clamp_(0, 1)


def _crossing_rate(problem: Problem, scores: Tensor, size: int, options: StitchOptions, seed: int) -> float:
    """Return the rate at which an entry with the size-th largest initial gain would cross 0 at the last step."""
    problem.set_soft(scores.sigmoid())
    problem.train.backward(next(problem.draws(options.batch_size, seed)))
    gain, b = gain_at(-(problem.flat.grad * problem.tau), size), options.bias
    return (exp(b) - exp(-b) + 2 * b) / (options.steps * gain) if gain else 0.0


class _Chosen:
    """The entries among the `size` best and above 0, and their changes from step to step."""

    def __init__(self, scores: Tensor, distance: Tensor, size: int) -> None:
        self.distance, self.size = distance, size
        self.above, self.inside = (torch.zeros(len(scores), dtype=torch.bool, device=scores.device) for _ in range(2))
        self.now = self._of(scores)
        self.inside[self.now] = True

    def after(self, scores: Tensor) -> tuple[int, int, int]:
        """Return how many are chosen by these scores [d], and how many were added and removed since the last scores."""
        before, self.now = self.now, self._of(scores)
        common = int(torch.count_nonzero(self.inside[self.now]))
        self.inside[before] = False
        self.inside[self.now] = True
        return len(self.now), len(self.now) - common, len(before) - common

    def order(self, scores: Tensor) -> np.ndarray:
        """Return the chosen entries, best first by these scores [d]."""
        distance = self.distance[self.now]
        best = top_of_two(moved_first(scores[self.now], distance), distance, len(self.now))
        return self.now[best].cpu().numpy()

    def _of(self, scores: Tensor) -> Tensor:
        torch.le(scores, 0, out=self.above).logical_not_()  # NaN counts as above, so ranking rejects it
        if int(torch.count_nonzero(self.above)) <= self.size:
            chosen = self.above.nonzero().squeeze(1)
            if not scores[chosen].isnan().any():
                return chosen
        return top_of_two(scores, self.distance, self.size)
