"""Tests of resuming: any localizer, cut after any step, continues with the same steps to the same entries."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers import fisher as fisher_module
from skillviz.core.localizers import linearized as linearized_module
from skillviz.core.localizers.record import LocalizerStep, Selection, State
from skillviz.core.localizers.table import LOCALIZERS, localizer
from skillviz.core.problem import Problem
from tests.core.localizers.test_every_localizer import NO_SEARCH, QUICK
from tests.core.problems import examples, finish, tiny_problem
from tests.tiers import first

pytestmark = pytest.mark.slow

OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {**options, "steps": 9} if "steps" in options else options for name, options in QUICK.items()},
    "stagewise-judged": {"steps": 9, "batch_size": 3, "judged": 4},
    "stagewise-nested": {"steps": 3, "batch_size": 3, "judged": 2},
    "linearized": {"examples": 11, "iterations": 8, "rounds": 3},
    "fisher": {"examples": 16},
}
"""Those of `QUICK` with more steps, to be cut between them."""
ONE_STEP = ("first-order", *NO_SEARCH)
CUTS = (1, 2, 4, 7, 8, 9)


@pytest.fixture(autouse=True)
def reports_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearized_module, "REPORT_EVERY", 3)  # several reports in a Jacobian of eleven rows
    monkeypatch.setattr(fisher_module, "REPORT_EVERY", 2)


def problem_for(**changes: Any) -> Problem:
    return tiny_problem(n=16, selection=examples(n=10, labels=changes.get("labels", 2), seed=3), **changes)


def run(problem: Problem, name: str, size: int, resume: State | None = None) -> Any:
    row = localizer(name)
    return row.search(problem, size, seed=3, options=row.make_options(OPTIONS.get(name, {})), resume=resume)


def whole(problem: Problem, name: str, size: int, resume: State | None = None) -> tuple[list[LocalizerStep], Selection]:
    return finish(run(problem, name, size, resume))


def cut_after(
    problem: Problem, name: str, size: int, k: int, resume: State | None = None
) -> tuple[list[LocalizerStep], State]:
    """Return the first k steps, and a copy of the state after them in the form of a file."""
    steps = list(islice(run(problem, name, size, resume), k))
    return steps, {key: value.detach().cpu().clone() for key, value in steps[-1].state.items()}  # type: ignore[union-attr]


def told(steps: list[LocalizerStep]) -> list[tuple[Any, ...]]:
    """Return the steps without their seconds, with losses to the last bit (NaN equal to itself)."""
    return [(s.step, np.float64(s.loss).tobytes(), s.size, s.added, s.removed, s.total) for s in steps]


@pytest.mark.cases(3, 12)
@pytest.mark.parametrize("dtype", first([torch.float32, torch.bfloat16], lambda dtype: dtype is torch.float32), ids=str)
@pytest.mark.parametrize("name", LOCALIZERS)
def test_cut_and_resumed_is_as_if_never_cut(name: str, dtype: torch.dtype) -> None:
    steps, found = whole(problem_for(dtype=dtype), name, 60)
    assert {s.total for s in steps} == {len(steps)}, "the total is told from the first step on"
    cuts = CUTS if dtype == torch.float32 else (1, 6)
    for k in [k for k in cuts if k <= len(steps)]:
        before, state = cut_after(problem_for(dtype=dtype), name, 60, k)
        fresh = problem_for(dtype=dtype)  # simulates another process
        after, again = whole(fresh, name, 60, state)
        assert told(before + after) == told(steps), k
        assert np.array_equal(again.order, found.order) and again.notes == found.notes, k
        assert torch.equal(fresh.flat.theta, fresh.base)


@pytest.mark.cases(2, 4)
@pytest.mark.parametrize("name", first(LOCALIZERS))
def test_cut_twice_and_over_several_epochs(name: str) -> None:
    problem, state, taken = problem_for(labels=3), None, list[LocalizerStep]()
    steps, found = whole(problem, name, 200)
    for k in (2, 3) if len(steps) >= 5 else (1,):
        more, state = cut_after(problem, name, 200, k, state)
        taken += more
    rest, again = whole(problem, name, 200, state)
    assert told(taken + rest) == told(steps) and np.array_equal(again.order, found.order)


PLANTED = ("scores", "score", "member", "gamma", "gained", "settled", "chosen", "lr", "summed")
"""The parts of a state in which an error is planted."""


@pytest.mark.cases(2, 4)
@pytest.mark.parametrize("name", [n for n in LOCALIZERS if n not in ONE_STEP])
def test_nothing_in_a_state_is_idle(name: str) -> None:
    """Plant an error in each part of the state: the outcome must differ."""
    problem, cut = problem_for(), 11 if name == "stagewise-nested" else 7  # a rung with more than a few entries
    (steps, found), (_, state) = whole(problem, name, 60), cut_after(problem, name, 60, cut)
    parts = [part for part in PLANTED if part in state and (name, part) != ("learned", "lr")]
    assert parts, f"none of {PLANTED} is in the state of {name}: {sorted(state)}"
    for lost in parts:
        kept = state[lost]
        damaged = kept.flip(0) if kept.dim() and len(kept) > 1 else kept * 0 + 1e9
        damaged = torch.arange(len(kept)) if lost in ("settled", "chosen") else damaged
        after, again = whole(problem, name, 60, {**state, lost: damaged})
        assert not np.array_equal(again.order, found.order) or told(after) != told(steps[cut:]), lost


def test_the_best_mask_of_before_the_cut_is_kept() -> None:
    """The published rule keeps the step with the best score, even if that step is before the cut."""
    row, problem = localizer("learned"), problem_for()
    options = row.make_options({**OPTIONS["learned"], "lr": 1e9, "selection": "train+validation"})

    def searched(resume: State | None = None) -> tuple[list[State], Selection]:
        search = row.search(problem, 1, seed=0, options=options, resume=resume)
        return finish(search, lambda step: {k: v.clone() for k, v in step.state.items()})

    states, found = searched()
    best = [int(state["best_step"]) for state in states if state["judged"]]
    assert best and f"from step {best[-1]} of 9" in found.notes[0]
    for state in states:
        _, again = searched(state)
        assert np.array_equal(again.order, found.order) and again.notes == found.notes
