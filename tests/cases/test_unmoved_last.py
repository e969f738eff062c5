"""Tests that every ranking localizer puts unmoved entries last; random draws are unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skillviz.core.draws import uniform
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.problem import Problem
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import tiny_problem

DRAWS = ("random", "random-matched", "dare")
RANKING = [name for name, row in LOCALIZERS.items() if row.budgeted and row.rest == "base" and name not in DRAWS]


def few_moved(uphill: bool = False) -> tuple[Problem, set[int]]:
    """Return a problem in which about 1 in 50 entries moved, and their set; with `uphill`, no entry lowers the loss."""
    problem = tiny_problem(moved=0.02)
    moved = torch.nonzero(problem.tau).squeeze(1)
    if uphill:
        problem.train.backward()
        tuned = problem.base.clone()
        tuned[moved] += 0.05 * problem.flat.grad[moved].sign() + 0.01 * (problem.flat.grad[moved] == 0)
        problem = Problem(problem.flat, problem.base, tuned, problem.train)
    return problem, set(moved.tolist())


@pytest.mark.cases(10, 8)
@pytest.mark.parametrize("uphill", [False, True])
@pytest.mark.parametrize("name", RANKING)
def test_no_unmoved_entry_is_chosen_while_a_moved_one_is_left(name: str, uphill: bool) -> None:
    problem, moved = few_moved(uphill)
    for size in (len(moved) // 3, len(moved)):
        _, found = finish(start(name, problem, size))
        assert len(found.order) == size and set(found.order.tolist()) <= moved
        assert not any("moved in fine-tuning" in note for note in found.notes)


@pytest.mark.cases(10, 8)
@pytest.mark.parametrize("uphill", [False, True])
@pytest.mark.parametrize("name", RANKING)
def test_a_size_above_the_moved_entries_is_filled_and_said(name: str, uphill: bool) -> None:
    problem, moved = few_moved(uphill)
    size = 3 * len(moved)
    _, found = finish(start(name, problem, size))
    assert len(set(found.order.tolist())) == size and set(found.order[: len(moved)].tolist()) == moved
    assert found.notes[-1] == f"Only {len(moved):,} of the {size:,} chosen entries moved in fine-tuning."


def test_draws_are_the_draws_that_they_were() -> None:
    problem, _ = few_moved()
    for name in ("random", "dare"):
        order = finish(start(name, problem, 50, seed=3))[1].order
        assert np.array_equal(order, uniform(problem.d, 50, 3))
    matched = finish(start("random-matched", problem, 50))[1].order
    assert len(set(matched.tolist())) == 50


def test_a_region_of_outcome_size_says_it_too() -> None:
    problem, moved = few_moved()
    _, found = finish(start("layers", problem, 1))
    count = len(moved & set(found.order.tolist()))
    assert found.notes[-1] == f"Only {count:,} of the {len(found.order):,} chosen entries moved in fine-tuning."
