"""The paper's learned mask (Eq. 3 and 4), the variant of exactly the requested size, and the lottery (Fig. 4b)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from itertools import islice
from math import exp

import numpy as np
import torch
from torch import Tensor

from skillviz.core.draws import stratified
from skillviz.core.localizers.candidates import allowed
from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, done, number
from skillviz.core.localizers.simple import only_step
from skillviz.core.localizers.table import SCORED_EXAMPLES, LearnedOptions, LotteryOptions, RankedOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top
from skillviz.errors import BadInput, BadModel


class Mask:
    """Scores S [d]; sigmoid(S - bias) is the degree to which each entry departs from its base state."""

    def __init__(self, problem: Problem, base: Tensor, bias: float, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.problem, self.bias, self.base = problem, bias, base
        self.scores = torch.rand(problem.d, generator=generator).to(problem.flat.device)
        self.direction = problem.tau.clone()
        self.direction[base] *= -1
        self.u = torch.empty_like(self.scores)

    def confine(self, inside: Tensor) -> None:
        """Let only these entries be chosen: the others' scores are -inf, which no step changes."""
        outside = torch.ones(self.problem.d, dtype=torch.bool, device=inside.device)
        outside[inside] = False
        self.base = self.base[~outside[self.base]]
        self.direction = self.problem.tau.clone()
        self.direction[self.base] *= -1
        self.direction[outside] = 0
        self.scores[outside] = float("-inf")

    def soften(self) -> None:
        """Put the model at the soft graft: base * (1 - u) + (1 - base) * u of the movement."""
        torch.sub(self.scores, self.bias, out=self.u).sigmoid_()
        inside = self.u[self.base]
        self.u[self.base] = 1 - inside
        self.problem.set_soft(self.u)
        self.u[self.base] = inside

    def descend(self, lr: float) -> None:
        """Set S to S - lr * dL/dS, with dL/dS = (1 - 2 base) * tau * dL/dtheta * u * (1 - u) at the soft graft."""
        slope = torch.mul(self.problem.flat.grad, self.direction)
        self.scores.addcmul_(slope.mul_(self.u), self.u.neg_().add_(1), value=-lr)

    def region(self) -> Tensor:
        """Return the entries of the rounded mask, base XOR (S > bias), ascending."""
        flipped = self.scores > self.bias
        chosen = flipped.clone()
        chosen[self.base] = ~flipped[self.base]
        return chosen.nonzero().squeeze(1)

    def order(self, region: Tensor) -> np.ndarray:
        """Return the entries of a region, best first."""
        return region[top(moved_first(self.evidence()[region], self.problem.tau[region]), len(region))].cpu().numpy()

    def evidence(self) -> Tensor:
        """Return how strongly each entry belongs to the mask: S - bias, with its sign reversed inside the base."""
        evidence = self.scores - self.bias
        evidence[self.base] *= -1
        return evidence


def learned(problem: Problem, size: int, *, seed: int, options: LearnedOptions, resume: State | None = None) -> Search:
    """The published mask: its final size is an outcome of its steps, not `size`, which is not used.

    The rounded mask with the best score is kept, including the initial one (on a tie, the earlier one).
    """
    mask = Mask(problem, _base(problem, options, seed), options.bias, seed)
    best = _Best(problem, options, seed)
    with problem.at_base_afterwards():
        if resume:
            best.restore(resume)
        else:
            best.judge(0, mask.region())
        yield from _descend(mask, options, options.lr, seed, best, resume)
    region = best.region if best.judged else mask.region()
    if not len(region):
        raise BadInput(
            f"the learned mask is empty after {options.steps} steps: learning rate {options.lr:g} flips nothing on "
            "this model; use a larger one, more steps, or the localizer 'learned-ranked', which calibrates it."
        )
    note = f"Learned mask: {len(mask.base):,} entries at the start, {len(region):,} kept"
    return Selection(mask.order(region), (f"{note}, from step {best.step} of {options.steps}.",))


def learned_ranked(
    problem: Problem, size: int, *, seed: int, options: RankedOptions, resume: State | None = None
) -> Search:
    """The `size` entries with the strongest scores after the same descent; exact size. Ours."""
    return (yield from descended(problem, _base(problem, options, seed), size, seed, options, resume))


def descended(
    problem: Problem, base: Tensor, size: int, seed: int, options: RankedOptions, resume: State | None = None
) -> Search:
    """The `size` entries with the strongest scores after the descent from the mask `base` [entries]."""
    inside = allowed(problem, options.within, size)
    mask = Mask(problem, base, options.bias, seed)
    if inside is not None:
        mask.confine(inside)
    with problem.at_base_afterwards():
        lr = float(resume["lr"]) if resume else options.lr or _calibrated(problem, mask, size, options, seed)
        yield from _descend(mask, options, lr, seed, None, resume)
    note = f"Learning rate of the mask: {lr:.3g}." if lr else "No entry gains anything at the base: a random order."
    return Selection(top(moved_first(mask.evidence(), problem.tau), size).cpu().numpy(), (note,))


def _descend(
    mask: Mask, options: LearnedOptions, lr: float, seed: int, best: _Best | None, resume: State | None
) -> Generator[LocalizerStep, None, None]:
    problem, behind = mask.problem, done(resume)
    if resume:
        mask.scores.copy_(resume["scores"])
    draws = islice(problem.draws(options.batch_size, seed), behind, None)
    region = mask.region()
    for step in range(behind + 1, options.steps + 1):
        mask.soften()
        loss = problem.train.backward(next(draws))
        mask.descend(lr)
        before, region = region, mask.region()
        if best and (step % options.score_every == 0 or step == options.steps):
            best.judge(step, region)
        common = len(np.intersect1d(before.cpu().numpy(), region.cpu().numpy(), assume_unique=True))
        state = {"step": number(step), "lr": number(lr), "scores": mask.scores, **(best.state() if best else {})}
        counts = len(region), len(region) - common, len(before) - common
        yield LocalizerStep(step, loss, *counts, options.steps, state, partial(mask.order, region))


class _Best:
    """The rounded mask with the strictly largest score so far, on SCORED_EXAMPLES of a split: a stratified sample.

    An interrupted search of an older version, which took the first rows, continues with them: its scores stay
    comparable.
    """

    def __init__(self, problem: Problem, options: LearnedOptions, seed: int) -> None:
        self.problem, self.step, self.score, self.judged = problem, options.steps, 0.0, False
        objectives = {
            "validation": [problem.selection], "train+validation": [problem.train, problem.selection], "none": [],
        }[options.selection]  # fmt: skip
        self.objectives = [(o, stratified(o.labels, SCORED_EXAMPLES, seed)) for o in objectives if o is not None]
        self.has_drawn_rows = True
        self.region = torch.empty(0, dtype=torch.long)

    def judge(self, step: int, region: Tensor) -> None:
        """Score the graft of a region and keep it if it is strictly better."""
        if not self.objectives:
            return
        self.problem.set_region(region)
        score = sum(objective.accuracy(rows) for objective, rows in self.objectives)
        if score > self.score and len(region):
            self.step, self.score, self.region, self.judged = step, score, region, True

    def state(self) -> State:
        """Return the best mask so far, as a resumable state."""
        numbers = {"best_step": self.step, "best_score": self.score, "judged": int(self.judged)}
        numbers["drawn_rows"] = int(self.has_drawn_rows)
        return {**{name: number(value) for name, value in numbers.items()}, "best_region": self.region}

    def restore(self, state: State) -> None:
        """Resume from a state returned by `state`, on the same rows."""
        self.has_drawn_rows = bool(state.get("drawn_rows", 0))
        if not self.has_drawn_rows:
            self.objectives = [(o, np.arange(min(o.n, SCORED_EXAMPLES))) for o, _ in self.objectives]
        self.step, self.score, self.judged = (
            int(state["best_step"]), float(state["best_score"]), bool(state["judged"]),
        )  # fmt: skip
        self.region = state["best_region"].to(self.problem.flat.device)


def _base(problem: Problem, options: LearnedOptions, seed: int) -> Tensor:
    """Return the entries from which the mask starts: those given, or the start that the option names."""
    if options.base_indices is not None:
        return torch.tensor(options.base_indices, dtype=torch.long, device=problem.flat.device)
    return STARTS[options.base](problem, max(1, round(options.base_share * problem.d)), seed)


def _movement(problem: Problem, count: int, seed: int) -> Tensor:
    return top(problem.tau.abs(), count)


def _empty(problem: Problem, count: int, seed: int) -> Tensor:
    return torch.empty(0, dtype=torch.long, device=problem.flat.device)


def _random(problem: Problem, count: int, seed: int) -> Tensor:
    """The same entries as the localizer `random` at this size and seed."""
    return torch.from_numpy(problem.drawn(count, seed)).to(problem.flat.device)


def _lowest_layer(problem: Problem, count: int, seed: int) -> Tensor:
    """The top movers of the lowest layer, all of it if it is smaller; raises BadModel for a model without layers."""
    bounds = problem.table.offsets.tolist()
    layers = [one.layer for one in problem.table.parameters]
    lowest = min((layer for layer in layers if layer is not None), default=None)
    if lowest is None:
        raise BadModel(
            "base=lowest-layer needs a model with numbered layers, and this one has none; use base=movement."
        )
    parts = [
        torch.arange(start, end, device=problem.flat.device)
        for layer, start, end in zip(layers, bounds[:-1], bounds[1:], strict=True)
        if layer == lowest
    ]
    inside = torch.cat(parts)
    return inside[top(problem.tau[inside].abs(), min(count, len(inside)))]


STARTS = {"movement": _movement, "empty": _empty, "random": _random, "lowest-layer": _lowest_layer}


def _calibrated(problem: Problem, mask: Mask, size: int, options: LearnedOptions, seed: int) -> float:
    mask.soften()
    problem.train.backward(next(problem.draws(options.batch_size, seed)))
    gain = gain_at(-(problem.flat.grad * mask.direction), size)
    return exp(options.bias - 0.5) / (options.steps * gain) if gain else 0.0


def gain_at(gains: Tensor, size: int) -> float:
    """Return the `size`-th largest of the gains [d], at most the median of the positive ones; 0 if none is positive."""
    gaining = int(torch.count_nonzero(gains > 0))
    return float(torch.topk(gains, min(size, (gaining + 1) // 2)).values.min()) if gaining else 0.0


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
    largest = top(problem.finetuned.float().abs(), size)
    with problem.at_base_afterwards():
        if options.by == "learned":
            ranked = RankedOptions(options.steps, options.batch_size, options.lr, options.bias)
            selection = yield from descended(zeroed, largest, size, seed, ranked, resume)
            return Selection(selection.order, (NOTE, *selection.notes))
        if resume is None:
            yield only_step(size, float("nan"), largest)
    return Selection(largest.cpu().numpy(), (NOTE,))
