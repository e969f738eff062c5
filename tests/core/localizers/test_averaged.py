"""Tests of averaged first-order gains against a slow twin on a float64 model, at both ends, and of completeness."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.simple import averaged, first_order
from skillviz.core.localizers.table import FirstOrderOptions, localizer
from skillviz.core.problem import Problem
from tests.core.localizers.test_searches import arrays, both, draws, order_of
from tests.core.problems import finish, learnable_problem, tiny_problem
from tests.reference.ranking import slow_moved_top
from tests.reference.searches import slow_averaged


def found(problem: Problem, size: int, **options: Any) -> list[int]:
    return order_of(averaged(problem, size, seed=3, options=FirstOrderOptions(**options)))


@pytest.mark.parametrize("weigh", ["none", "signs", "noise"])
@pytest.mark.parametrize("case", [{"labels": 3}, {"moved": 0.02}], ids=str)
def test_it_ranks_by_the_twins_scores(case: dict[str, Any], weigh: str) -> None:
    problem, twin = both(n=11, **case)
    batches = np.array_split(draws(problem, 11, 1)[0], 3)

    def ranked(points: int, weigh: str, rows: list[np.ndarray]) -> set[int]:
        scores = slow_averaged(*arrays(problem), twin.loss_and_gradient, rows, points, weigh)
        return set(slow_moved_top(scores.tolist(), problem.tau.tolist(), 60))

    order = found(problem, 60, examples=11, points=2, batches=3, weigh=weigh)
    assert set(order) == ranked(2, weigh, batches)
    wrong = (ranked(1, weigh, batches), ranked(2, "none" if weigh == "signs" else "signs", batches))
    assert set(order) not in wrong, "the gradient at the base alone, or another weight, would pass"


def test_cut_and_resumed_it_takes_the_same_steps() -> None:
    options = FirstOrderOptions(examples=11, points=2, batches=4, weigh="noise")
    search = partial(first_order, size=60, seed=3, options=options)
    steps, whole = finish(search(tiny_problem(n=11)), lambda step: (step.loss, step.added))
    for cut in (1, 3, 4):
        *_, last = islice(search(tiny_problem(n=11)), cut)
        state = {name: value.clone() for name, value in last.state.items()}
        after, again = finish(search(tiny_problem(n=11), resume=state), lambda step: (step.loss, step.added))
        assert after == steps[cut:] and np.array_equal(again.order, whole.order)
    state["gained"] = state["gained"].flip(0)
    assert not np.array_equal(finish(search(tiny_problem(n=11), resume=state))[1].order, whole.order)


def test_every_size_is_exact_with_one_example_and_few_movers() -> None:
    problem = tiny_problem(n=1, moved=0.01)
    for weigh in ("none", "signs", "noise"):
        large, small = (found(problem, size, points=2, weigh=weigh) for size in (problem.d, 7))
        assert sorted(large) == list(range(problem.d)) and large[:7] == small
        assert torch.equal(problem.flat.theta, problem.base)
    assert localizer("first-order").has_null and FirstOrderOptions() == FirstOrderOptions(points=1, weigh="none")


def test_one_point_and_one_batch_are_first_order() -> None:
    problem = tiny_problem(labels=3)
    wanted = order_of(first_order(problem, 300, seed=3, options=FirstOrderOptions(examples=8)))
    assert found(problem, 300, examples=8, points=1, batches=1, weigh="none") == wanted
    assert found(problem, 300, examples=8, points=1, batches=1, weigh="signs") == wanted


def test_the_gains_add_up_to_what_the_path_removes() -> None:
    """Integrated gradients are complete: over all entries they sum to the base's loss less the fine-tuned model's."""
    problem = learnable_problem(steps=30, n=8)
    with problem.at_base_afterwards():
        removed = problem.train.loss()
        problem.flat.theta.copy_(problem.finetuned)
        removed -= problem.train.loss()

    def total(points: int) -> float:
        options = FirstOrderOptions(examples=8, points=points, batches=1)
        step = next(islice(averaged(problem, 1, seed=0, options=options), 1))
        assert step.state is not None
        return float(step.state["gained"].sum())

    assert total(100) == pytest.approx(removed, rel=0.05) and total(1) != pytest.approx(removed, rel=0.2)
