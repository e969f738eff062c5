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
from tests.core.localizers.test_searches import arrays, both, draws, uphill
from tests.core.localizers.test_stagewise import held_and_drawn
from tests.core.problems import finish, learnable_problem, tiny_problem
from tests.core.test_lean import pair_of_problems
from tests.reference.ranking import slow_top
from tests.reference.searches import slow_candidates, slow_judged, slow_nested, slow_stagewise


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


OPTIONS = {
    "stagewise": StagewiseOptions(steps=6, batch_size=4, start_share=0.2, switch_share=0.2),
    "stagewise-judged": JudgedOptions(
        steps=6, batch_size=4, start_share=0.2, grow_share=0.5, judged=3, examples=3
    ),
    "stagewise-nested": NestedOptions(steps=4, batch_size=4, grow_share=0.5, judged=2, examples=3),
}  # fmt: skip


def free(problem: Problem) -> Problem:
    problem.has_free_signs = True
    return problem


def search_of(problem: Problem, name: str, size: int, resume: State | None = None) -> Search:
    return localizer(name).search(problem, size, seed=3, options=OPTIONS[name], resume=resume)


def searched(problem: Problem, name: str, size: int, resume: State | None = None) -> tuple[list[int], list[float]]:
    found = finish(search_of(problem, name, size, resume))[1]
    assert found.signs is not None and len(found.signs) == len(found.order) == size
    return found.order.tolist(), found.signs.tolist()


def test_the_searches_that_learn_signs() -> None:
    assert {row.name for row in LOCALIZERS.values() if row.learns_signs} == set(OPTIONS)
    own = finish(search_of(tiny_problem(), "stagewise", 9))[1]
    assert own.signs is None, "a search on its own pair takes its signs"


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("case", [{}, {"labels": 4}, {"moved": 0.02}], ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_stagewise_takes_the_twins_steps_and_signs(case: dict[str, Any], size: int) -> None:
    problem, twin = both(**case)
    found, start = searched(free(problem), "stagewise", size), max(1, round(0.2 * size))
    rest = (draws(problem, 4, 6), size, slow_candidates(problem.tau.numpy(), 0.1, size), start, start)
    right, dropped, finetuned = (
        slow_stagewise(*arrays(problem), gradient, *rest, free=is_free)
        for gradient, is_free in (
            (twin.loss_and_gradient, True), (uphill(twin), True), (twin.loss_and_gradient, False),
        )
    )  # fmt: skip
    assert found == right
    can_differ = size > 1 and "moved" not in case
    assert not can_differ or found != dropped and found[0] != finetuned[0], "an error of sign would pass"


def test_judged_takes_the_twins_steps_and_signs() -> None:
    problem, twin = both(n=12)
    found = searched(free(problem), "stagewise-judged", 40)
    rest = (40, slow_candidates(problem.tau.numpy(), 0.1, 40), 8, 1 / 3, 3)
    args = (*arrays(problem), twin.loss_and_gradient, *held_and_drawn(problem, 6), *rest)
    order, chosen, signs = slow_judged(*args, (), {})
    assert chosen != "movement" and found == (order, [signs[i] for i in order])
    assert found[0] != slow_judged(*args)[0], "the fine-tuned signs would pass"


def test_nested_keeps_the_signs_of_the_rungs_below() -> None:
    problem, twin = both(n=12)
    rungs = [rung for rung in ladder(problem.d) if rung < 200]
    found = searched(free(problem), "stagewise-nested", rungs[-1])
    rows = held_and_drawn(problem, 4 * len(rungs))
    order, signs = slow_nested(*arrays(problem), twin.loss_and_gradient, *rows, rungs, 4, 0.1, 1 / 2, 2, free=True)
    assert found == (order, [signs[i] for i in order])


@pytest.mark.parametrize("name", OPTIONS)
def test_a_constant_gradient_gives_the_largest_products_with_the_signs_of_descent(name: str) -> None:
    """The loss is c * theta: including entry i with its better sign gains |c_i tau_i|."""
    problem, size = free(tiny_problem(n=16)), 10
    slope = torch.randn(problem.d, generator=torch.Generator().manual_seed(7))
    problem.train.loss = lambda rows: float(slope @ problem.flat.theta)  # type: ignore[assignment, method-assign]
    problem.train.backward = lambda rows: (  # type: ignore[assignment, method-assign]
        problem.flat.grad.copy_(slope),
        problem.train.loss(rows),
    )[1]
    order, signs = searched(problem, name, size)
    assert signs == (-slope[order].sign()).tolist()
    gains = (slope * problem.tau).abs()
    best = sorted(slow_candidates(problem.tau.numpy(), 0.1, size), key=lambda i: -gains[i])
    at_least = 6 if name == "stagewise-nested" else size - 2  # the first two are the largest movers, or a rung's
    assert len(set(order) & set(best[:size])) >= at_least
    problem.set_soft_at(torch.tensor(order), torch.tensor(signs), problem.tau[order].abs())
    lowest = float(slope @ problem.base) - float(gains[order].sum())
    assert float(slope @ problem.flat.theta) == pytest.approx(lowest, abs=1e-4)


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_lean_mode_finds_the_same_entries_and_signs(name: str, dtype: torch.dtype) -> None:
    ordinary, lean = map(free, pair_of_problems(dtype=dtype, quantum=0.05))
    before = [parameter.detach().clone() for parameter in lean.flat.parameters]
    assert searched(ordinary, name, 37) == searched(lean, name, 37)
    lean.reset()
    assert all(torch.equal(a, b) for a, b in zip(before, lean.flat.parameters, strict=True))
    assert torch.equal(ordinary.flat.theta, ordinary.base)


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("steps", [1, 4, 5, 6])
def test_a_search_resumes_with_its_signs(name: str, steps: int) -> None:
    cut = search_of(free(tiny_problem(n=16)), name, 60)
    *_, last = islice(cut, steps)
    assert last.state is not None
    state = {key: value.detach().clone() for key, value in last.state.items()}
    cut.close()
    whole, resumed = (searched(free(tiny_problem(n=16)), name, 60, start) for start in (None, state))
    assert resumed == whole
