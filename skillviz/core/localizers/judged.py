"""Stagewise that judges itself: on examples its gradients never see, with top movement to fall back to. Ours."""

from __future__ import annotations

from functools import partial
from itertools import islice
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.record import Search, Selection, State, Step, done, number
from skillviz.core.localizers.stagewise import switch
from skillviz.core.localizers.table import JudgedOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import top, top_of_two
from skillviz.core.stratified import stratified

LAST_CAP = 0.05
"""Part of the switches that the last step may still make. Measured on MiniLM, SST-2: docs/localizers.md."""


def stagewise_judged(
    problem: Problem, size: int, *, seed: int, options: JudgedOptions, resume: State | None = None
) -> Search:
    """The best on held examples of the search's last regions, their vote, and top movement; exact size.

    Grows as `stagewise` does, with three changes: each step's gains are scaled down to the running median of their
    norm, so that one bad batch does not outshout all others; once the region is full, the number of switches falls
    linearly; and the last regions are judged, forward only, so that the last batch does not choose.
    """
    begun = perf_counter()
    candidates = Candidates.of(problem, options.candidate_share, size)
    judge = Judge(problem, candidates, options.examples, seed)
    growth = Growth(candidates, size, options)
    votes = torch.zeros_like(growth.score)
    behind = done(resume)
    with problem.at_base_afterwards():
        if resume:
            growth.restore(resume)
            judge.restore(resume)
            votes.copy_(resume["votes"])
        else:
            judge.consider(0, growth.movers(size))
        draws = islice(problem.draws(options.batch_size, seed, judge.others), behind, None)
        for step in range(behind + 1, options.steps + 1):
            problem.set_region(candidates.index[growth.selected])
            loss = problem.train.backward(next(draws))
            growth.add(candidates.gain(problem))
            added, removed = growth.switch(step)
            if step > options.steps - options.judged:
                region = growth.filled()
                votes += region
                judge.consider(step, region)
            if step == options.steps:
                judge.consider(step + 1, growth.filled(votes))
            seconds, held = perf_counter() - begun, int(growth.selected.sum())
            state = partial(_state, step, growth, judge, votes)
            yield Step(step, loss, held, added, removed, seconds, options.steps, state)
    chosen = judge.region.nonzero().squeeze(1)
    order = chosen[top(growth.score[chosen], len(chosen))]
    return Selection(candidates.index[order].cpu().numpy(), (_note(judge, options),))


def _state(step: int, growth: Growth, judge: Judge, votes: Tensor) -> State:
    return {"step": number(step), "votes": votes, **growth.state(), **judge.state()}


def _note(judge: Judge, options: JudgedOptions) -> str:
    if judge.step == 0:
        which = "top movement, which no region of the search beat"
    elif judge.step > options.steps:
        which = "the vote of the last regions"
    else:
        which = f"the region of step {judge.step} of {options.steps}"
    return f"Chosen on {len(judge.rows):,} held training examples: {which} (loss {judge.loss:.3f})."


class Growth:
    """A region that grows: `score` [c], the gains of every candidate so far; `selected` [c]; the norms of the gains."""

    def __init__(self, candidates: Candidates, size: int, options: JudgedOptions) -> None:
        self.candidates, self.size, self.options = candidates, size, options
        self.score = torch.zeros_like(candidates.tau)
        self.selected = self.movers(max(1, round(options.start_share * size)))
        self.norms: list[float] = []
        self.full_at = 0  # the step that first filled the region; 0: none has yet

    def movers(self, count: int) -> Tensor:
        """The `count` largest movers, bool [c]."""
        region = torch.zeros_like(self.score, dtype=torch.bool)
        region[self.candidates.movers(count)] = True
        return region

    def add(self, gain: Tensor) -> None:
        """Accumulate gains [c], scaled down where their norm is above the median of all steps so far."""
        self.norms.append(norm := float(gain.norm()))
        if (usual := median(self.norms)) < norm:
            gain = gain * (usual / norm)
        self.score += gain

    def switch(self, step: int) -> tuple[int, int]:
        """Entries switched on and off at the end of this step."""
        steps = self.options.steps
        if not self.full_at and int(self.selected.sum()) >= self.size:
            self.full_at = step
        past = (step - self.full_at) / max(1, steps - self.full_at) if self.full_at else 0.0
        rate = 1 / max(1, self.options.grow_share * steps)
        most = max(1, round(self.size * rate * (1 - (1 - LAST_CAP) * past)))
        return switch(self.score, self.selected, self.size, most, step == steps)

    def filled(self, votes: Tensor | None = None) -> Tensor:
        """A region of exactly the size, bool [c]: the members and then the best scores, or by votes and then scores."""
        if votes is None:
            votes = self.selected.to(self.score.dtype)
        region = torch.zeros_like(self.selected)
        region[top_of_two(votes, self.score, self.size)] = True
        return region

    def state(self) -> State:
        """What cannot be computed again."""
        norms = torch.tensor(self.norms, dtype=torch.float64)
        return {"score": self.score, "member": self.selected, "norms": norms, "full_at": number(self.full_at)}

    def restore(self, state: State) -> None:
        """Put it where it was."""
        self.score.copy_(state["score"])
        self.selected.copy_(state["member"])
        self.norms, self.full_at = state["norms"].tolist(), int(state["full_at"])


class Judge:
    """Which region has the smallest loss on `rows`, held training examples; `others` are those to search on.

    Of equals the earlier stays. With fewer than four examples all are judged on, and searched on too.
    """

    def __init__(self, problem: Problem, candidates: Candidates, examples: int, seed: int) -> None:
        self.problem, self.candidates = problem, candidates
        every = np.arange(problem.train.n)
        held = stratified(problem.train.labels, min(examples, len(every) // 4), seed)
        self.rows, self.others = (held, np.setdiff1d(every, held)) if len(held) else (every, every)
        self.region = torch.zeros_like(candidates.tau, dtype=torch.bool)
        self.step, self.loss = -1, float("inf")

    def consider(self, step: int, region: Tensor) -> None:
        """Keep this region [c] of a step if its loss is the smallest so far."""
        self.problem.set_region(self.candidates.index[region])
        loss = self.problem.train.loss(self.rows)
        if self.step < 0 or loss < self.loss:
            self.step, self.loss = step, loss
            self.region = region.clone()

    def state(self) -> State:
        """What is kept so far."""
        return {"best_step": number(self.step), "best_loss": number(self.loss), "best_region": self.region}

    def restore(self, state: State) -> None:
        """Go on from what was kept."""
        self.step, self.loss = int(state["best_step"]), float(state["best_loss"])
        self.region.copy_(state["best_region"])
