"""Stagewise, also judged and nested: a region grown and corrected in small steps, each at the current graft. Ours."""

from __future__ import annotations

from functools import partial
from itertools import islice
from statistics import median

import numpy as np
import torch
from torch import Tensor

from skillviz.core.draws import stratified
from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, done, number
from skillviz.core.localizers.table import JudgedOptions, NestedOptions, StagewiseOptions, ladder
from skillviz.core.problem import Problem
from skillviz.core.ranking import top, top_of_two


def stagewise(
    problem: Problem, size: int, *, seed: int, options: StagewiseOptions, resume: State | None = None
) -> Search:
    """The region that grows by the accumulated first-order gain, few entries between two gradients.

    Each step takes the gradient at the current graft and adds -g * tau to every candidate's score. The best outsiders
    are added, and members whose score has become negative are removed; both at most `switch_share` of the size. So
    entries are chosen for their gain in addition to the current members. If signs are free, an entry has the sign of
    its score, and none is removed: it changes its sign.
    """
    candidates = Candidates.of(problem, options.candidate_share, size)
    score = torch.zeros(len(candidates), device=problem.device)
    selected = torch.zeros(len(candidates), dtype=torch.bool, device=problem.device)
    selected[candidates.movers(max(1, round(options.start_share * size)))] = True
    most = max(1, round(options.switch_share * size))
    if resume:
        score.copy_(resume["score"])
        selected.copy_(resume["member"])
    behind = done(resume)
    draws = islice(problem.draws(options.batch_size, seed), behind, None)

    def order() -> Tensor:
        return candidates.best(candidates.worth(score), selected.nonzero().squeeze(1))

    def region() -> np.ndarray:
        return candidates.flat(order())

    with problem.at_base_afterwards():
        for step in range(behind + 1, options.steps + 1):
            candidates.graft(problem, selected, score)
            loss = problem.train.backward(next(draws))
            score += candidates.gain(problem)
            last = step == options.steps
            added, removed = switch(candidates.worth(score), selected, size, most, last)
            state = {"step": number(step), "score": score, "member": selected}
            yield LocalizerStep(step, loss, int(selected.sum()), added, removed, options.steps, state, region)
    return candidates.selection(order(), candidates.signs(score))


def switch(score: Tensor, selected: Tensor, size: int, most: int, last: bool) -> tuple[int, int]:
    """Switch entries on and off in `selected`, in place, and return how many; the last step ends at `size`."""
    before = int(selected.sum())
    bad = torch.where(selected & (score < 0), -score, float("-inf"))
    spare = len(score) - size if last else most  # at the end, each removed entry needs a replacement
    out = top(bad, min(most, spare, int((bad > 0).sum())))
    room = size - before + len(out)
    outside = torch.where(selected, float("-inf"), score)
    wanted = room if last else min(room, most + len(out))
    into = top(outside, min(wanted, len(score) - before))
    if not last:
        into = into[score[into] > 0]
    selected[out] = False
    selected[into] = True
    return len(into), len(out)


LAST_CAP = 0.05
"""The share of the switches that the last step may still make. Measured on MiniLM, SST-2: docs/localizers.md."""


def stagewise_judged(
    problem: Problem, size: int, *, seed: int, options: JudgedOptions, resume: State | None = None
) -> Search:
    """The best of the search's last regions and top movement on held-out examples; exact size.

    Grows like `stagewise`, with three changes: each step's gains are scaled down to the running median of their norm,
    so one bad batch does not dominate all others; once the region is full, the number of switches falls linearly; and
    the last regions are judged, forward only, so the last batch does not choose.
    """
    candidates = Candidates.of(problem, options.candidate_share, size)
    judge = Judge(problem, options.examples, seed)
    rate, start = 1 / max(1, options.grow_share * options.steps), max(1, round(options.start_share * size))
    growth = Growth(candidates, size, options.steps, rate, start)
    behind = done(resume)
    with problem.at_base_afterwards():
        if resume:
            growth.restore(resume)
            judge.restore(resume)
        else:
            judge.consider(0, candidates, growth.movers(size), growth.score)
        draws = islice(problem.draws(options.batch_size, seed, judge.others), behind, None)
        for step in range(behind + 1, options.steps + 1):
            candidates.graft(problem, growth.selected, growth.score)
            loss = problem.train.backward(next(draws))
            growth.add(candidates.gain(problem))
            added, removed = growth.switch(step)
            if step > options.steps - options.judged:
                judge.consider(step, candidates, growth.filled(), growth.score)
            state = {"step": number(step), **growth.state(), **judge.state()}
            counts = int(growth.selected.sum()), added, removed
            yield LocalizerStep(step, loss, *counts, options.steps, state, growth.flat)
    of_the_search = f"the region of step {judge.step} of {options.steps}"
    which = of_the_search if judge.step else "top movement, which no region of the search beat"
    note = f"Chosen on {len(judge.rows):,} held training examples: {which} (loss {judge.loss:.3f})."
    return candidates.selection(growth.order(judge.region), judge.signs, (note,))


def stagewise_nested(
    problem: Problem, size: int, *, seed: int, options: NestedOptions, resume: State | None = None
) -> Search:
    """One search whose first k entries are a good region for every k up to `size`.

    Climbs rungs of a fixed ladder of sizes. On each the region grows as in `stagewise_judged`, but the entries chosen
    on lower rungs stay, and gains are accumulated from zero: gains at a smaller graft say little about a larger one.
    The last regions of the rung and the region filled up with the largest movers are judged on held-out examples, and
    the best is kept. Only the end of the climb depends on `size`.
    """
    rungs = ladder(problem.d)
    rungs = rungs[: 1 + next(i for i, rung in enumerate(rungs) if rung >= size)]
    total, behind = len(rungs) * options.steps, done(resume)
    rate = 1 / max(1, options.grow_share * options.steps)
    order = torch.empty(0, dtype=torch.long, device=problem.device)
    signs = torch.empty(0, device=problem.device)
    if resume:
        order = resume["order"].to(order.device)
        signs = resume.get("signs", signs).to(order.device)
    judge = Judge(problem, options.examples, seed)
    draws = islice(problem.draws(options.batch_size, seed, judge.others), behind, None)
    with problem.at_base_afterwards():
        for number_of_rung in range(behind // options.steps, len(rungs)):
            rung = rungs[number_of_rung]
            candidates = Candidates.of(problem, options.candidate_share, rung)
            fixed = torch.isin(candidates.index, order)
            start = max(int(fixed.sum()), 1)
            growth = Growth(candidates, rung, options.steps, rate, start, fixed)
            if candidates.free_signs:  # entries of lower rungs keep their sign: no gain outweighs it
                places = torch.searchsorted(candidates.index, order)
                growth.score[places] = torch.where(signs == 0, 0.0, signs * float("inf"))
            judge.forget()
            first = number_of_rung * options.steps
            if resume and behind > first:
                growth.restore(resume)
                judge.restore(resume)
            else:
                judge.consider(0, candidates, growth.movers(rung), growth.score)
            for step in range(max(first, behind) + 1, first + options.steps + 1):
                candidates.graft(problem, growth.selected, growth.score)
                loss = problem.train.backward(next(draws))
                growth.add(candidates.gain(problem))
                added, removed = growth.switch(step - first)
                if step > first + options.steps - options.judged:
                    judge.consider(step, candidates, growth.filled(), growth.score)
                if step == first + options.steps:
                    new = growth.order(judge.region)
                    order = torch.cat([order, candidates.index[new]])
                    signs = signs if judge.signs is None else torch.cat([signs, judge.signs[new]])
                state = {"step": number(step), **growth.state(), **judge.state(), "order": order}
                state |= {"signs": signs} if candidates.free_signs else {}
                held = min(size, int(growth.selected.sum()))
                region = partial(_first, order, growth, size)
                yield LocalizerStep(step, loss, held, added, removed, total, state, region)
    chosen = signs[:size].cpu().numpy() if problem.has_free_signs else None
    return Selection(order[:size].cpu().numpy(), signs=chosen)


def _first(order: Tensor, growth: Growth, size: int) -> np.ndarray:
    """Return the first `size` entries of a nested search so far: those of finished rungs, then the growing one's."""
    finished, growing = order.cpu().numpy(), growth.flat()
    return np.concatenate([finished, growing[~np.isin(growing, finished)]])[:size]


class Growth:
    """A region that grows to its size in `steps`: `score` [c], the gains of every candidate so far; `selected` [c].

    Entries that are `fixed` [c] never leave. `rate` is the share of the size that a step may switch on, and off.
    """

    def __init__(
        self, candidates: Candidates, size: int, steps: int, rate: float, start: int, fixed: Tensor | None = None
    ) -> None:
        self.candidates, self.size, self.steps, self.rate = candidates, size, steps, rate
        self.score = torch.zeros_like(candidates.tau)
        self.fixed = torch.zeros_like(self.score, dtype=torch.bool) if fixed is None else fixed
        self.selected = self.movers(start)
        self.norms: list[float] = []
        self.full_at = 0  # the first step with a full region; 0: none yet

    def movers(self, count: int) -> Tensor:
        """Return the fixed entries and the largest movers, `count` in all, bool [c]."""
        return self._best(self.candidates.tau.abs(), torch.zeros_like(self.score), count)

    def add(self, gain: Tensor) -> None:
        """Accumulate gains [c], scaled down if their norm is above the median of all steps so far."""
        self.norms.append(norm := float(gain.norm()))
        if (usual := median(self.norms)) < norm:
            gain = gain * (usual / norm)
        self.score += gain

    def switch(self, step: int) -> tuple[int, int]:
        """Switch entries at the end of this step, counted from 1; return how many were switched on and off."""
        if not self.full_at and int(self.selected.sum()) >= self.size:
            self.full_at = step
        past = (step - self.full_at) / max(1, self.steps - self.full_at) if self.full_at else 0.0
        most = max(1, round(self.size * self.rate * (1 - (1 - LAST_CAP) * past)))
        score = self.candidates.worth(self.score).masked_fill(self.fixed, float("inf"))
        return switch(score, self.selected, self.size, most, step == self.steps)

    def filled(self) -> Tensor:
        """Return a region of exactly the size, bool [c]: the members and then the best scores."""
        return self._best(self.selected.to(self.score.dtype), self.candidates.worth(self.score), self.size)

    def order(self, region: Tensor) -> Tensor:
        """Return the indices of a region's entries that are not fixed, best score first."""
        chosen = (region & ~self.fixed).nonzero().squeeze(1)
        return self.candidates.best(self.candidates.worth(self.score), chosen)

    def flat(self) -> np.ndarray:
        """Return the members that are not fixed, best score first, as global flat indices."""
        return self.candidates.flat(self.order(self.selected))

    def state(self) -> State:
        """Return the state that cannot be computed again."""
        norms = torch.tensor(self.norms, dtype=torch.float64)
        return {"score": self.score, "member": self.selected, "norms": norms, "full_at": number(self.full_at)}

    def restore(self, state: State) -> None:
        """Restore a state returned by `state`."""
        self.score.copy_(state["score"])
        self.selected.copy_(state["member"])
        self.norms, self.full_at = state["norms"].tolist(), int(state["full_at"])

    def _best(self, first: Tensor, then: Tensor, count: int) -> Tensor:
        region = torch.zeros_like(self.fixed)
        region[top_of_two(first.masked_fill(self.fixed, float("inf")), then, count)] = True
        return region


class Judge:
    """The region with the smallest loss on `rows`, held-out training examples; `others` are the examples to search on.

    On a tie the earlier region is kept. With fewer than four examples all are used for both judging and searching.
    """

    def __init__(self, problem: Problem, examples: int, seed: int) -> None:
        self.problem = problem
        every = np.arange(problem.train.n)
        held = stratified(problem.train.labels, min(examples, len(every) // 4), seed)
        self.rows = held if len(held) else every
        self.others = np.setdiff1d(every, held) if len(held) else every
        self.forget()

    def forget(self) -> None:
        """Reset: nothing has been judged yet."""
        self.step, self.loss = -1, float("inf")
        self.region = torch.empty(0, dtype=torch.bool)
        self.signs: Tensor | None = None

    def consider(self, step: int, candidates: Candidates, region: Tensor, score: Tensor) -> None:
        """Keep this region [c] of a step, with the signs that the scores give, if its loss is the smallest so far."""
        candidates.graft(self.problem, region, score)
        loss = self.problem.train.loss(self.rows)
        if self.step < 0 or loss < self.loss:
            self.step, self.loss, self.region = step, loss, region.clone()
            self.signs = candidates.signs(score)

    def state(self) -> State:
        """Return the best region so far, as a resumable state."""
        kept = {"best_step": number(self.step), "best_loss": number(self.loss), "best_region": self.region}
        return kept if self.signs is None else {**kept, "best_signs": self.signs}

    def restore(self, state: State) -> None:
        """Resume from a state returned by `state`."""
        self.step, self.loss = int(state["best_step"]), float(state["best_loss"])
        self.region = state["best_region"].to(self.problem.device)
        self.signs = state["best_signs"].to(self.problem.device) if "best_signs" in state else None
