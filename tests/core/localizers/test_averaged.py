"""Tests of averaged first-order gains against a slow twin on a float64 model, at both ends, and of completeness."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from skillviz.core.localizers.averaged import first_order_averaged
from skillviz.core.localizers.simple import first_order
from skillviz.core.localizers.table import AveragedOptions, FirstOrderOptions
from skillviz.core.problem import Problem
from tests.core.localizers.test_searches import arrays, both, draws, order_of
from tests.core.problems import learnable_problem, tiny_problem
from tests.reference.ranking import slow_moved_top
from tests.reference.searches import slow_averaged


def found(problem: Problem, size: int, **options: Any) -> list[int]:
    return order_of(first_order_averaged(problem, size, seed=3, options=AveragedOptions(**options)))


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
        options = AveragedOptions(examples=8, points=points, batches=1)
        step = next(islice(first_order_averaged(problem, 1, seed=0, options=options), 1))
        assert step.state is not None
        return float(step.state()["gained"].sum())

    assert total(100) == pytest.approx(removed, rel=0.05) and total(1) != pytest.approx(removed, rel=0.2)
