"""Linearized: one Jacobian, then a convex problem whose solution is nearly a region already. Ours.

The same Jacobian serves bootstrap samples of its examples too (`linearization`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from skillviz.core.flat import split
from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, done, followed, number
from skillviz.core.localizers.table import LinearizedOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top, top_of_two


@dataclass(frozen=True)
class Linear:
    """Logits as a linear function of gamma [c] around `at`.

    `logits` [n, label] are the logits at `at`; `jacobian` [n, label - 1, c] are the gradients, by gamma, of the logits
    of classes 1.. minus the logit of class 0 (a shift of all logits changes no probability). `weights` [n] are the
    counts of each example, summing to n: one each by default.
    """

    logits: Tensor
    jacobian: Tensor
    labels: Tensor
    at: Tensor
    weights: Tensor | None = None

    def gradient(self, gamma: Tensor) -> tuple[float, Tensor]:
        """Return the mean cross-entropy in nats and its gradient [c] by gamma."""
        n, differences, c = self.jacobian.shape
        change = (self.jacobian.view(-1, c) @ (gamma - self.at)).view(n, differences)
        logits = self.logits.clone()
        logits[:, 1:] += change
        log_p = logits.log_softmax(1)
        likelihood = log_p.gather(1, self.labels.unsqueeze(1)).squeeze(1)
        residual = log_p.exp()
        residual[torch.arange(n, device=residual.device), self.labels] -= 1
        if self.weights is not None:
            likelihood = likelihood * self.weights
            residual *= self.weights.unsqueeze(1)
        loss = -likelihood.mean()
        return float(loss), self.jacobian.view(-1, c).T @ residual[:, 1:].reshape(-1) / n


def project(point: Tensor, size: float) -> Tensor:
    """Return the nearest point with 0 <= gamma <= 1 and sum(gamma) <= size.

    The shift that gives this sum is found by bisection, to the precision of float32.
    """
    clipped = point.clamp(0, 1)
    if float(clipped.sum(dtype=torch.float64)) <= size:
        return clipped
    low, high = 0.0, float(point.max())
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        if float((point - middle).clamp(0, 1).sum(dtype=torch.float64)) > size:
            low = middle
        else:
            high = middle
    return (point - high).clamp(0, 1)


def minimise(
    linear: Linear, size: int, iterations: int, tolerance: float = 1e-5, start: Tensor | None = None
) -> tuple[Tensor, float]:
    """Return gamma [c] and its loss, by accelerated projected gradients with backtracking and restarts.

    Starts at `start`, by default at the point of linearization. Stops early if a whole step lowers the loss by less
    than `tolerance`, relative.
    """
    gamma = ahead = (linear.at if start is None else start).clone()
    # the first step would move the `size` steepest entries all the way, on average, at their current slope
    steepest = linear.gradient(linear.at)[1].abs()
    steepest = steepest.topk(min(size, len(steepest))).values
    momentum, rate = 1.0, float(1 / steepest.mean().clamp(min=1e-12))
    loss, _ = linear.gradient(gamma)
    for _ in range(iterations):
        ahead_loss, slope = linear.gradient(ahead)
        following, following_loss, rate = _backtrack(linear, ahead, ahead_loss, slope, size, rate)
        if following_loss > loss and momentum > 1:
            ahead, momentum = gamma, 1.0
            continue
        if loss - following_loss < tolerance * loss and momentum > 1:
            return following, following_loss
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = following + (momentum - 1) / grown * (following - gamma)
        gamma, loss, momentum, rate = following, following_loss, grown, rate * 1.25
    return gamma, loss


def _backtrack(
    linear: Linear, point: Tensor, loss: float, slope: Tensor, size: int, rate: float
) -> tuple[Tensor, float, float]:
    """Return the projected step, its loss and the rate at which the quadratic bound holds."""
    while True:
        following = project(point - rate * slope, size)
        move = following - point
        following_loss = linear.gradient(following)[0]
        bound = loss + float(slope @ move) + float(move @ move) / (2 * rate)
        if following_loss <= bound + 1e-7 * abs(loss) or rate < 1e-12:
            return following, following_loss, rate
        rate /= 2


REPORT_EVERY = 64


def linearized(
    problem: Problem, size: int, *, seed: int, options: LinearizedOptions, resume: State | None = None
) -> Search:
    """The region that solves the task with the model linearized in its entries.

    Minimizes the mean cross-entropy of f + J (gamma - gamma_0) over 0 <= gamma <= 1, sum(gamma) <= size, where J has
    each example's gradients of its logit differences, times the movement, at the graft gamma_0 (at first the base).
    Entries beyond the solution's support are filled by their gain. A resumed search computes the Jacobian of its round
    again, because storing it would take gigabytes.
    """
    candidates = candidates_of(problem, size, options)
    rows = rows_of(problem, len(candidates), options, seed)
    inside = min(size, len(candidates))
    gamma = torch.zeros(len(candidates), device=problem.flat.device)
    chosen = resume["chosen"] if resume else torch.empty(0, dtype=torch.long)
    chosen = chosen.to(problem.flat.device)
    gamma[chosen] = 1.0
    behind, first = done(resume), int(resume["round"]) if resume else 0
    steps = len(rows) // REPORT_EVERY + 1
    with problem.at_base_afterwards():
        for round_ in range(first, options.rounds):
            problem.set_region(candidates.index[chosen])
            reports = Reports(round_, steps, options.rounds, behind, chosen)
            linear = yield from linearize(problem, candidates, rows, gamma, reports)
            gamma, loss = minimise(linear, inside, options.iterations)
            before, chosen = chosen, rounded(gamma, linear, inside, candidates.tau)
            gamma = torch.zeros_like(gamma).index_fill_(0, chosen, 1.0)
            common = len(np.intersect1d(before.cpu().numpy(), chosen.cpu().numpy(), assume_unique=True))
            step, total = (round_ + 1) * steps, options.rounds * steps
            state = _state(step, round_ + 1, chosen)
            yield LocalizerStep(step, loss, inside, inside - common, len(before) - common, total, state)
    return filled(problem, candidates, chosen, size, len(rows))


def candidates_of(problem: Problem, size: int, options: LinearizedOptions) -> Candidates:
    """Return the usual candidates, but so few that at least 64 Jacobian rows fit in memory."""
    most = int(options.jacobian_gib * 2**30 / 4 / 64)
    share = min(options.candidate_share, most / problem.d)
    return Candidates.of(problem, share, min(size, most // 2))


def rows_of(problem: Problem, count: int, options: LinearizedOptions, seed: int) -> np.ndarray:
    """Return training examples whose Jacobian rows over `count` candidates fit in memory."""
    differences = problem.train.n_labels - 1
    most = int(options.jacobian_gib * 2**30 / 4 / count) // differences
    return next(problem.draws(max(1, min(options.examples, most)), seed))


@dataclass(frozen=True)
class Reports:
    """The steps within one round's Jacobian; the `behind` steps before a resumed search are not repeated."""

    round: int
    steps: int
    rounds: int
    behind: int
    chosen: Tensor

    def after(self, examples: int, loss: float) -> Generator[LocalizerStep, None, None]:
        """Yield the step that this many examples complete, unless it was reported before."""
        step, total = self.round * self.steps + examples // REPORT_EVERY, self.rounds * self.steps
        if step > self.behind:
            state = _state(step, self.round, self.chosen)
            yield LocalizerStep(step, loss, len(self.chosen), 0, 0, total, state)


def _state(step: int, round_: int, chosen: Tensor) -> State:
    """Return the resumable state; `chosen` is the graft at which the Jacobian of `round_` is computed."""
    return {"step": number(step), "round": number(round_), "chosen": chosen}


def linearize(
    problem: Problem, candidates: Candidates, rows: np.ndarray, gamma: Tensor, reports: Reports
) -> Generator[LocalizerStep, None, Linear]:
    """Return the linear model at the current graft: logits f [n, label] and Jacobian [n, label - 1, c]."""
    objective = problem.train
    device = problem.flat.device
    jacobian = torch.empty(len(rows), objective.n_labels - 1, len(candidates), device=device)
    logits = torch.empty(len(rows), objective.n_labels, device=device)
    labels = torch.as_tensor(objective.labels[rows]).to(device)
    parts = {
        number: (local, candidates.tau[a:b], slice(a, b))
        for number, local, a, b in split(candidates.index, problem.table)
    }
    for start in range(0, len(rows), REPORT_EVERY):
        places = {int(row): i for i, row in enumerate(rows[start : start + REPORT_EVERY], start)}
        for singles in objective.singly(rows[start : start + REPORT_EVERY]):
            where = [places[int(row)] for row in singles.rows]
            logits[where] = singles.logits
            for c in range(1, objective.n_labels):
                weights = torch.zeros_like(singles.logits)
                weights[:, 0], weights[:, c] = -1, 1
                last = c + 1 == objective.n_labels
                singles.backward(weights, partial(_put, parts, jacobian[:, c - 1], where), last=last)
        if (end := start + REPORT_EVERY) <= len(rows):
            yield from reports.after(end, float(cross_entropy(logits[:end], labels[:end])))
    return Linear(logits, jacobian, labels, gamma)


def _put(
    parts: Mapping[int, tuple[Tensor, Tensor, slice]], jacobian: Tensor, where: Sequence[int],
    example: int, number: int, gradient: Tensor,
) -> None:  # fmt: skip
    """Write one parameter's gradient at its candidates, times their movement, to its place in [n, c]."""
    if number in parts:
        local, tau, columns = parts[number]
        torch.index_select(gradient, 0, local, out=jacobian[where[example], columns]).mul_(tau)


def rounded(gamma: Tensor, linear: Linear, size: int, tau: Tensor) -> Tensor:
    """Return the indices of the `size` largest gamma, best first; ties go to the one that gains most.

    Entries that did not move are last.
    """
    return top_of_two(moved_first(gamma, tau), -linear.gradient(gamma)[1], size)


def filled(problem: Problem, candidates: Candidates, chosen: Tensor, size: int, examples: int) -> Selection:
    """Return the chosen candidates as entries, best first; beyond the candidates filled by movement."""
    order = candidates.index[chosen]
    notes = [f"Linearized on {examples:,} examples and {len(candidates):,} candidate entries."]
    if size > len(order):
        distance = problem.tau.abs()
        distance[order] = -1
        order = torch.cat([order, top(distance, size - len(order))])
        notes.append(f"{size - len(chosen):,} entries beyond the candidates were filled by movement.")
    return Selection(order.cpu().numpy(), tuple(notes))


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
        """The number of training examples in the Jacobian."""
        return len(self.linear.labels)

    def order(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the region's entries as global flat indices, best first, int64 [size].

        With `weights` [examples], the number of times a sample draws each example, the problem is solved again for the
        sample, starting at the solution for all and to the same tolerance.
        """
        inside, linear, gamma = min(self.size, len(self.candidates)), self.linear, self.gamma
        if weights is not None:
            counts = torch.as_tensor(weights, dtype=torch.float32, device=gamma.device)
            linear = replace(linear, weights=counts)
            gamma, _ = minimise(linear, inside, self.iterations, start=gamma)
        chosen = rounded(gamma, linear, inside, self.candidates.tau)
        return filled(self.problem, self.candidates, chosen, self.size, self.examples).order


def linearization(problem: Problem, size: int, *, seed: int, options: LinearizedOptions) -> Linearization:
    """Return the model linearized as in the first round of `linearized`; it is at base afterwards."""
    candidates = candidates_of(problem, size, options)
    rows = rows_of(problem, len(candidates), options, seed)
    nothing = torch.zeros(len(candidates), device=problem.flat.device)
    empty = torch.empty(0, dtype=torch.long, device=problem.flat.device)
    steps = Reports(0, 1, 1, len(rows), empty)  # all steps count as past, so none is reported
    with problem.at_base_afterwards():
        problem.reset()
        linear = followed(linearize(problem, candidates, rows, nothing, steps), lambda _: None)
    gamma, _ = minimise(linear, min(size, len(candidates)), options.iterations)
    return Linearization(problem, candidates, linear, gamma, size, options.iterations)
