"""Tests of the learned mask: its signs, and the lottery control, whose other entries are zero."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.learned import Mask, lottery
from skillviz.core.localizers.record import Search, State
from skillviz.core.localizers.table import (
    LOCALIZERS,
    JudgedOptions,
    LotteryOptions,
    NestedOptions,
    StagewiseOptions,
    ladder,
    localizer,
    rest_of,
)
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.errors import BadInput
from tests.core.by_hand import by_hand
from tests.core.localizers.test_searches import arrays, both, draws, uphill
from tests.core.localizers.test_stagewise import held_and_drawn
from tests.core.problems import finish, learnable_problem, tiny_problem
from tests.core.test_lean import pair_of_problems
from tests.reference.searches import slow_candidates, slow_judged, slow_nested, slow_stagewise, slow_top


def zeroed(problem: Problem) -> Problem:
    return Problem(problem.flat, torch.zeros_like(problem.base), problem.finetuned, problem.train, problem.selection)


test_by_hand = by_hand(
    ("the rest", {"lottery": "zero"},
     lambda: {name: row.rest for name, row in LOCALIZERS.items() if row.rest != "base"}),
    ("by name", ["zero", "base", "base"], lambda: [rest_of(name) for name in ("lottery", "stagewise", "unheard of")]),
    ("a control", True, lambda: "control" in localizer("lottery").sentence),
    ("its title", True, lambda: "rest is zero" in localizer("lottery").title),
    ("searches that learn signs", {"stagewise", "stagewise-judged", "stagewise-nested"},
     lambda: {row.name for row in LOCALIZERS.values() if row.learns_signs}),
)  # fmt: skip


def test_by_magnitude_it_is_the_largest_fine_tuned_weights() -> None:
    problem = tiny_problem(quantum=0.1)
    for size in (1, 60, problem.d):
        steps, found = finish(lottery(problem, size, seed=0, options=LotteryOptions(by="magnitude")))
        assert found.order.tolist() == slow_top(problem.finetuned.abs().tolist(), size)
        assert "control" in found.notes[0] and len(steps) == 1


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


OPTIONS = {
    "stagewise": StagewiseOptions(steps=6, batch_size=4, start_share=0.2, switch_share=0.2),
    "stagewise-judged": JudgedOptions(
        steps=6, batch_size=4, start_share=0.2, grow_share=0.5, judged=3, examples=3
    ),
    "stagewise-nested": NestedOptions(steps=4, batch_size=4, grow_share=0.5, judged=2, examples=3),
}  # fmt: skip


def search_of(problem: Problem, name: str, size: int, resume: State | None = None) -> Search:
    return localizer(name).search(problem, size, seed=3, options=OPTIONS[name], resume=resume)


def searched(problem: Problem, name: str, size: int, resume: State | None = None) -> tuple[list[int], list[float]]:
    problem.has_free_signs = True
    found = finish(search_of(problem, name, size, resume))[1]
    return found.order.tolist(), found.signs.tolist()  # type: ignore[union-attr]


def test_judged_takes_the_twins_steps_and_signs() -> None:
    problem, twin = both(n=12)
    found = searched(problem, "stagewise-judged", 40)
    rest = (40, slow_candidates(problem.tau.numpy(), 0.1, 40), 8, 1 / 3, 3)
    args = (*arrays(problem), twin.loss_and_gradient, *held_and_drawn(problem, 6), *rest)
    order, chosen, signs = slow_judged(*args, (), {})
    assert chosen != "movement" and found == (order, [signs[i] for i in order])
    assert order != slow_judged(*args)[0], "the fine-tuned signs would pass"


def test_nested_keeps_the_signs_of_the_rungs_below() -> None:
    problem, twin = both(n=12)
    rungs = [rung for rung in ladder(problem.d) if rung < 200]
    found = searched(problem, "stagewise-nested", rungs[-1])
    rows = held_and_drawn(problem, 4 * len(rungs))
    order, signs = slow_nested(*arrays(problem), twin.loss_and_gradient, *rows, rungs, 4, 0.1, 1 / 2, 2, free=True)
    assert found == (order, [signs[i] for i in order])


@pytest.mark.parametrize("name", OPTIONS)
def test_a_constant_gradient_gives_the_largest_products_with_the_signs_of_descent(name: str) -> None:
    """The loss is c * theta: including entry i with its better sign gains |c_i tau_i|."""
    problem, size = tiny_problem(n=16), 10
    slope = torch.randn(problem.d, generator=torch.Generator().manual_seed(7))
    problem.train.loss = lambda rows: float(slope @ problem.flat.theta)  # type: ignore[assignment, method-assign]
    problem.train.backward = lambda rows: (  # type: ignore[assignment, method-assign]
        problem.flat.grad.copy_(slope),
        problem.train.loss(rows),
    )[1]
    order, signs = searched(problem, name, size)
    assert signs == (-slope[order].sign()).tolist() and len(order) == size
    gains = (slope * problem.tau).abs()
    best = sorted(slow_candidates(problem.tau.numpy(), 0.1, size), key=lambda i: -gains[i])
    at_least = 6 if name == "stagewise-nested" else size - 2  # the first two are the largest movers, or a rung's
    assert len(set(order) & set(best[:size])) >= at_least
    problem.set_soft_at(torch.tensor(order), torch.tensor(signs), problem.tau[order].abs())
    lowest = slope @ problem.base - gains[order].sum()
    assert float(slope @ problem.flat.theta) == pytest.approx(float(lowest), abs=1e-4)


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("steps", [1, 4, 5, 6])
def test_a_search_resumes_with_its_signs(name: str, steps: int) -> None:
    problem = tiny_problem(n=16)
    problem.has_free_signs = True
    *_, last = islice(search_of(problem, name, 60), steps)
    state = {key: value.detach().clone() for key, value in last.state.items()}
    whole, resumed = (searched(tiny_problem(n=16), name, 60, start) for start in (None, state))
    assert resumed == whole and len(whole[0]) == len(whole[1]) == 60
