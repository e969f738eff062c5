"""Tests of FISH: the expected squared gradients of single examples, and exactly the largest of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from skillviz.core.localizers import fisher as module
from skillviz.core.localizers.fisher import add_information, fisher
from skillviz.core.localizers.table import FisherOptions
from skillviz.core.problem import Problem
from tests.core.localizers.test_every_localizer import finish
from tests.core.localizers.test_searches import both
from tests.core.problems import difference_gradients, tiny_problem
from tests.reference.fisher import slow_fisher
from tests.reference.ranking import slow_top

CASES = [("head", 2), ("head", 4), ("prompt", 3)]


def information(problem: Problem, rows: list[int]) -> Tensor:
    summed = torch.zeros(problem.d)
    for singles in problem.train.singly(np.array(rows)):
        add_information(problem.train, singles, summed)
    return summed / len(rows)


@pytest.mark.parametrize(("readout", "labels"), CASES)
def test_it_is_the_expectation_over_the_classes_of_single_squared_gradients(readout: str, labels: int) -> None:
    problem, twin = both(readout, labels, n=7)
    wanted = slow_fisher(twin, problem.base.numpy(), list(range(7)))
    found = information(problem, list(range(7))).double().numpy()
    # Gradients are rounded to float32 once, so values far below the largest are known only to that rounding.
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-13 * wanted.max())
    # Plant two errors: the gradient of the label (empirical Fisher), and the square of the mean gradient.
    empirical = np.mean([twin.loss_and_gradient(problem.base.numpy(), np.array([i]))[1] ** 2 for i in range(7)], axis=0)
    together = twin.loss_and_gradient(problem.base.numpy(), np.arange(7))[1] ** 2
    for other in (empirical, together):
        assert not np.allclose(found, other, rtol=1e-2, atol=1e-9 * wanted.max())


@pytest.mark.parametrize(("readout", "labels"), CASES)
def test_the_order_is_that_of_the_slow_twin(readout: str, labels: int) -> None:
    problem, twin = both(readout, labels, n=6)
    wanted = slow_top(slow_fisher(twin, problem.base.numpy(), list(range(6))).tolist(), 300)
    steps, found = finish(fisher(problem, 300, seed=0, options=FisherOptions()))
    # Two sums of squares that are equal to seven digits may swap.
    assert len(set(found.order.tolist()) & set(wanted)) >= 299
    assert np.mean(found.order == np.array(wanted)) > 0.97
    assert [s.size for s in steps] == [300] and found.notes[0].startswith("Fisher information of the base on 6 ex")


def test_a_sure_model_has_the_information_that_is_left_and_never_a_negative_one() -> None:
    """Computed by hand for two classes as p(1 - p) h^2; E[h^2] - E[h]^2 would cancel to noise."""
    problem = tiny_problem(n=4)
    head = problem.flat.model.get_parameter("classifier.bias")
    head.data[0] += 30.0
    logits, gradients = difference_gradients(problem.train, np.array([0]))
    p = logits[0].double().softmax(0)
    assert 0 < float(p[1]) < 1e-11
    wanted = float(p[0] * p[1]) * gradients[0, 0].double() ** 2
    found = information(problem, [0])
    assert (found >= 0).all() and found.max() > 0
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=float(1e-8 * wanted.max()))


def test_only_the_base_and_the_head_are_looked_at() -> None:
    one, other = tiny_problem(seed=0), tiny_problem(seed=0)
    other.finetuned.copy_(other.base + torch.randn(other.d))
    orders = [finish(fisher(p, 80, seed=0, options=FisherOptions()))[1].order for p in (one, other)]
    assert np.array_equal(*orders)


def test_labels_are_not_looked_at() -> None:
    one, other = tiny_problem(n=8), tiny_problem(n=8)
    other.train.labels = 1 - other.train.labels
    orders = [finish(fisher(p, 80, seed=0, options=FisherOptions()))[1].order for p in (one, other)]
    assert np.array_equal(*orders)


def test_the_examples_asked_for_are_drawn_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORT_EVERY", 4)
    problem = tiny_problem(n=20)
    steps, found = finish(fisher(problem, 10, seed=1, options=FisherOptions(examples=10)))
    rows = np.sort(next(problem.draws(10, 1)))
    wanted = information(problem, rows.tolist()).tolist()
    assert found.order.tolist() == slow_top(wanted, 10)
    assert [s.size for s in steps] == [0, 0, 10] and {s.total for s in steps} == {3}
    assert steps[-1].loss == pytest.approx(problem.train.loss(rows), rel=1e-5)


def test_fewer_examples_than_asked_for_give_the_same_whatever_the_seed() -> None:
    problem = tiny_problem(n=9)
    orders = [finish(fisher(problem, 200, seed=s, options=FisherOptions()))[1].order for s in (0, 5)]
    assert np.array_equal(*orders)
