"""Stagewise: a region grown and corrected in small steps, each judged at the current graft. Ours."""

from __future__ import annotations

from functools import partial
from itertools import islice
from time import perf_counter

import torch
from torch import Tensor

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.record import LocalizerStep, Search, State, done, number
from skillviz.core.localizers.table import StagewiseOptions
from skillviz.core.problem import Problem
from skillviz.core.ranking import top


def stagewise(
    problem: Problem, size: int, *, seed: int, options: StagewiseOptions, resume: State | None = None
) -> Search:
    """The region that grows by the accumulated first-order gain, few entries between two gradients.

    Each step takes the gradient at the current graft and adds -g * tau to every candidate's score. The best outsiders
    are added, and members whose score has become negative are removed; both at most `switch_share` of the size. So
    entries are chosen for their gain in addition to the current members. If signs are free, an entry has the sign of
    its score, and none is removed: it changes its sign.
    """
    begun = perf_counter()
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
    with problem.at_base_afterwards():
        for step in range(behind + 1, options.steps + 1):
            candidates.graft(problem, selected, score)
            loss = problem.train.backward(next(draws))
            score += candidates.gain(problem)
            last = step == options.steps
            added, removed = switch(candidates.worth(score), selected, size, most, last)
            seconds = perf_counter() - begun
            state = partial(_state, step, score, selected)
            yield LocalizerStep(step, loss, int(selected.sum()), added, removed, seconds, options.steps, state)
    order = candidates.best(candidates.worth(score), selected.nonzero().squeeze(1))
    return candidates.selection(order, candidates.signs(score))


def _state(step: int, score: Tensor, selected: Tensor) -> State:
    return {"step": number(step), "score": score, "member": selected}


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
