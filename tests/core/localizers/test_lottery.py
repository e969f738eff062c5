"""Tests of the lottery control: all other entries are zero, the ends are exact, and its texts call it a control."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skillviz.core.localizers.learned import Mask, lottery
from skillviz.core.localizers.table import LOCALIZERS, LotteryOptions, localizer, rest_of
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.errors import BadInput
from tests.core.problems import finish, learnable_problem, tiny_problem
from tests.reference.ranking import slow_top


def zeroed(problem: Problem) -> Problem:
    return Problem(problem.flat, torch.zeros_like(problem.base), problem.finetuned, problem.train, problem.selection)


def test_it_alone_sets_the_rest_to_zero() -> None:
    assert [name for name, row in LOCALIZERS.items() if row.rest != "base"] == ["lottery"]
    assert [rest_of(name) for name in ("lottery", "stagewise", "unheard of")] == ["zero", "base", "base"]
    assert "control" in localizer("lottery").sentence and "rest is zero" in localizer("lottery").title


def test_by_magnitude_it_is_the_largest_fine_tuned_weights() -> None:
    problem = tiny_problem(quantum=0.1)
    for size in (1, 60, problem.d):
        steps, found = finish(lottery(problem, size, seed=0, options=LotteryOptions(by="magnitude")))
        assert found.order.tolist() == slow_top(problem.finetuned.abs().tolist(), size)
        assert "control" in found.notes[0] and len(steps) == 1
    with pytest.raises(BadInput, match="learned, magnitude"):
        localizer("lottery").make_options({"by": "luck"})


def test_the_base_of_the_problem_makes_no_difference() -> None:
    """delta is theta_ft for any pre-trained values."""
    problem, options = tiny_problem(n=16), LotteryOptions(steps=4, batch_size=5)
    orders = [finish(lottery(one, 90, seed=0, options=options))[1].order for one in (zeroed(problem), problem)]
    assert np.array_equal(*orders) and torch.equal(problem.flat.theta, problem.base)


def test_the_mask_descends_at_the_zeroed_model() -> None:
    """Compute one step with autograd: theta = gamma * theta_ft, gamma soft, starting at the largest weights."""
    problem, lr = tiny_problem(n=6), 1e3
    work = zeroed(problem)
    mask = Mask(work, top(problem.finetuned.abs(), 400), 10.0, 0)
    scores, inside = mask.scores.clone().requires_grad_(True), torch.zeros(problem.d).index_fill_(0, mask.base, 1.0)
    theta = (inside + (1 - 2 * inside) * torch.sigmoid(scores - 10.0)) * problem.finetuned
    mask.soften()
    torch.testing.assert_close(work.flat.theta, theta.detach(), rtol=1e-6, atol=1e-7)
    work.train.backward()
    (slope,) = torch.autograd.grad(theta, scores, work.flat.grad)
    mask.descend(lr)
    torch.testing.assert_close(mask.scores, scores.detach() - lr * slope, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(mask.scores, scores + lr * slope, rtol=1e-5, atol=1e-5), "a turned sign would pass"
    problem.reset()


def test_the_ends_are_exact() -> None:
    """With no entry every graftable value is zero; with all entries the model is the fine-tuned one, bit for bit."""
    work = zeroed(tiny_problem())
    work.set_region(torch.empty(0, dtype=torch.long))
    assert not work.flat.theta.any()
    work.set_region(torch.from_numpy(finish(lottery(work, work.d, seed=0, options=LotteryOptions(steps=2)))[1].order))
    assert torch.equal(work.flat.theta, work.finetuned)


@pytest.mark.slow
def test_learning_does_no_worse_than_magnitude_alone() -> None:
    losses, work = {}, zeroed(learnable_problem(n=32))
    for by in ("learned", "magnitude"):
        found = finish(lottery(work, work.d // 2, seed=0, options=LotteryOptions(by=by)))[1]
        work.set_region(torch.from_numpy(found.order))
        losses[by] = work.train.loss()
        work.reset()
    assert losses["learned"] <= losses["magnitude"] + 1e-6
