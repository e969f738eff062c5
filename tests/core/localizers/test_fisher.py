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
from tests.core.localizers.test_searches import both
from tests.core.problems import difference_gradients, finish, tiny_problem
from tests.reference.fisher import slow_fisher
from tests.reference.ranking import slow_top

CASES, OPTIONS = [("head", 2), ("head", 4), ("prompt", 3)], FisherOptions()


def information(problem: Problem, rows: list[int]) -> Tensor:
    summed = torch.zeros(problem.d)
    for singles in problem.train.singly(np.array(rows)):
        add_information(problem.train, singles, summed)
    return summed / len(rows)


@pytest.mark.parametrize(("readout", "labels"), CASES)
def test_it_is_the_expectation_over_the_classes_of_single_squared_gradients(readout: str, labels: int) -> None:
    problem, twin = both(readout, labels, n=7)
    base, rows = problem.base.numpy(), np.arange(7)
    wanted, found = slow_fisher(twin, base, rows.tolist()), information(problem, rows.tolist()).double().numpy()
    # Gradients are rounded to float32 once, so values far below the largest are known only to that rounding.
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-13 * wanted.max())
    # Plant two errors: the gradient of the label (empirical Fisher), and the square of the mean gradient.
    empirical = np.mean([twin.loss_and_gradient(base, rows[[i]])[1] ** 2 for i in rows], axis=0)
    for other in (empirical, twin.loss_and_gradient(base, rows)[1] ** 2):
        assert not np.allclose(found, other, rtol=1e-2, atol=1e-9 * wanted.max())
    # Two sums of squares that are equal to seven digits may swap.
    order, (steps, selection) = slow_top(wanted.tolist(), 300), finish(fisher(problem, 300, seed=0, options=OPTIONS))
    assert len(set(selection.order.tolist()) & set(order)) >= 299 and np.mean(selection.order == order) > 0.97
    assert [s.size for s in steps] == [300] and "the base on 7 ex" in selection.notes[0]


def test_a_sure_model_has_the_information_that_is_left_and_never_a_negative_one() -> None:
    """Computed by hand for two classes as p(1 - p) h^2; E[h^2] - E[h]^2 would cancel to noise."""
    problem = tiny_problem(n=4)
    problem.flat.model.get_parameter("classifier.bias").data[0] += 30.0
    logits, gradients = difference_gradients(problem.train, np.array([0]))
    p, found = logits[0].double().softmax(0), information(problem, [0])
    wanted = float(p[0] * p[1]) * gradients[0, 0].double() ** 2
    assert 0 < float(p[1]) < 1e-11 and (found >= 0).all() and found.max() > 0
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=float(1e-8 * wanted.max()))


@pytest.mark.parametrize("changed", ["fine-tuned model", "labels", "seed"])
def test_only_the_base_and_the_head_and_all_texts_are_looked_at(changed: str) -> None:
    one, other = tiny_problem(n=9), tiny_problem(n=9)
    if changed == "fine-tuned model":
        other.finetuned.copy_(other.base + torch.randn(other.d))
    elif changed == "labels":
        other.train.labels = 1 - other.train.labels
    seeds = (0, 5) if changed == "seed" else (0, 0)
    orders = [finish(fisher(p, 80, seed=s, options=OPTIONS))[1].order for p, s in zip((one, other), seeds, strict=True)]
    assert np.array_equal(*orders)


def test_the_examples_asked_for_are_drawn_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORT_EVERY", 4)
    problem = tiny_problem(n=20)
    steps, found = finish(fisher(problem, 10, seed=1, options=FisherOptions(examples=10)))
    rows = np.sort(next(problem.draws(10, 1)))
    assert found.order.tolist() == slow_top(information(problem, rows.tolist()).tolist(), 10)
    assert [s.size for s in steps] == [0, 0, 10] and {s.total for s in steps} == {3}
    assert steps[-1].loss == pytest.approx(problem.train.loss(rows), rel=1e-5)
