"""Tests of the judged search: it matches its slow twin, judges on unseen examples, never loses to top movement."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.judged import Growth, Judge, stagewise_judged, stagewise_nested
from skillviz.core.localizers.record import Selection, Step
from skillviz.core.localizers.table import JudgedOptions, NestedOptions, Workload, ladder, localizer
from skillviz.core.problem import Problem
from skillviz.core.stratified import stratified
from tests.core.localizers.test_searches import CASES, arrays, both
from tests.core.problems import examples, learnable_problem, model_of, problem_of, tiny_problem
from tests.reference.searches import slow_candidates, slow_judged, slow_nested
from tests.tiers import first

pytestmark = pytest.mark.slow

OPTIONS = JudgedOptions(steps=6, batch_size=4, start_share=0.2, grow_share=0.5, judged=3, examples=3)


def finish(
    problem: Problem, size: int, options: JudgedOptions = OPTIONS, seed: int = 3
) -> tuple[list[Step], Selection]:
    search, steps = stagewise_judged(problem, size, seed=seed, options=options), []
    while True:
        try:
            steps.append(next(search))
        except StopIteration as end:
            return steps, end.value


@pytest.mark.cases(0, 3)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_it_takes_the_twins_steps(case: dict[str, Any], size: int) -> None:
    problem, twin = both(**case, n=12)
    held = stratified(problem.train.labels, 3, 3)
    draws = list(islice(problem.draws(4, 3, np.setdiff1d(np.arange(12), held)), 6))
    candidates = slow_candidates(problem.tau.numpy(), 0.1, size)
    args = (*arrays(problem), twin.loss_and_gradient, draws, held, size, candidates, max(1, round(0.2 * size)))
    order, chosen, _ = slow_judged(*args, 1 / 3, 3)
    found = finish(problem, size)[1]
    assert found.order.tolist() == order
    words = "top movement" if chosen == "movement" else f"step {chosen} of 6"
    assert words in found.notes[0] and "3 held training examples" in found.notes[0]
    if size > 1 and "moved" not in case:

        def uphill(theta: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
            loss, gradient = twin.loss_and_gradient(theta, rows)
            return loss, -gradient if len(rows) == 4 else gradient

        planted = [slow_judged(*args[:2], uphill, *args[3:], 1 / 3, 3), slow_judged(*args, 1 / 6, 3)]
        assert all(found.order.tolist() != other for other, *_ in planted), "a dropped sign or another rate would pass"


def test_the_gradients_never_see_a_held_example(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, drawn, judged = tiny_problem(n=24, labels=3), [], []
    backward, loss = problem.train.backward, problem.train.loss
    monkeypatch.setattr(problem.train, "backward", lambda rows: (drawn.append(rows), backward(rows))[1])
    monkeypatch.setattr(problem.train, "loss", lambda rows: (judged.append(rows), loss(rows))[1])
    finish(problem, 40)
    assert len(judged) == 3 + 1 and all(np.array_equal(rows, judged[0]) for rows in judged)
    assert np.bincount(problem.train.labels[judged[0]]).tolist() == [1, 1, 1]
    assert not np.intersect1d(np.concatenate(drawn), judged[0]).size


def test_no_region_that_was_judged_is_better_than_the_one_kept() -> None:
    problem = learnable_problem(n=48)
    options = JudgedOptions(steps=12, batch_size=8, judged=5, examples=12)
    found = finish(problem, 60, options, seed=0)[1]
    candidates = Candidates.of(problem, options.candidate_share, 60)
    judge = Judge(problem, options.examples, 0)
    problem.set_region(torch.from_numpy(found.order))
    kept = problem.train.loss(judge.rows)
    growth = Growth(candidates, 60, 12, 0.1, 6)
    judge.consider(0, candidates, growth.movers(60), growth.score)
    problem.reset()
    assert kept <= judge.loss and f"loss {kept:.3f}" in found.notes[0]


def test_it_falls_back_to_top_movement_where_the_search_finds_nothing_better() -> None:
    """Every gradient has the wrong sign, so the search's predicted gains are losses."""
    problem = learnable_problem(n=48)
    movers = Candidates.of(problem, 0.1, 60).movers(60)
    index = Candidates.of(problem, 0.1, 60).index[movers]
    backward = problem.train.backward

    def misleading(rows: np.ndarray) -> float:
        loss = backward(rows)
        problem.flat.grad.neg_()
        return loss

    problem.train.backward = misleading  # type: ignore[method-assign]
    found = finish(problem, 60, JudgedOptions(steps=12, batch_size=8, judged=5, examples=12), seed=0)[1]
    assert set(found.order) == set(index.tolist()) and "which no region of the search beat" in found.notes[0]


def test_one_loud_batch_does_not_outshout_the_others() -> None:
    problem = tiny_problem()
    candidates = Candidates.of(problem, 0.1, 40)
    growth = Growth(candidates, 40, 7, 0.1, 4)
    usual = torch.randn(len(candidates), generator=torch.Generator().manual_seed(0))
    for _ in range(5):
        growth.add(usual.clone())
    loud = -1000 * usual
    growth.add(loud)
    assert torch.allclose(growth.score, 4 * usual, rtol=1e-4), "without the scale it would be -995 times as large"
    quiet = 0.01 * usual
    growth.add(quiet)
    assert torch.allclose(growth.score, 4.01 * usual, rtol=1e-4), "a quiet batch is not made louder"


def test_switches_become_fewer_once_the_region_is_full() -> None:
    problem = tiny_problem()
    candidates = Candidates.of(problem, 0.1, 200)
    growth, noise, added, sizes = Growth(candidates, 200, 30, 1 / 9, 20), torch.Generator().manual_seed(0), [], []
    for step in range(1, 31):
        growth.add(torch.randn(len(candidates), generator=noise))
        added.append(growth.switch(step)[0])
        sizes.append(int(growth.selected.sum()))
    full = sizes.index(200) + 1
    assert max(added[:full]) <= 2 * round(200 / 9) and full < 20
    assert max(added[-4:-1]) <= 4 < min(added[full : full + 3]), "each step would switch as many as at first"


@pytest.mark.parametrize("n", [1, 3, 4])
def test_with_hardly_any_examples_it_judges_on_those_there_are(n: int) -> None:
    problem = problem_of(model_of(), examples(n=n))
    judge = Judge(problem, 512, 0)
    assert len(judge.rows) == (1 if n == 4 else n) and len(judge.others) == (3 if n == 4 else n)
    assert finish(problem, 10)[1].order.shape == (10,)


def test_the_cost_counts_what_the_model_is_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, forward = tiny_problem(n=24), []
    loss = problem.train.loss
    monkeypatch.setattr(problem.train, "loss", lambda rows: (forward.append(len(rows)), loss(rows))[1])
    steps, _ = finish(problem, 40)
    cost = localizer("stagewise-judged").cost(OPTIONS, Workload(problem.d, 2, 24, 0, 40))
    assert cost.forward == sum(forward) and cost.backward == len(steps) * 4


NESTED = NestedOptions(steps=4, batch_size=4, grow_share=0.5, judged=2, examples=3)


def climb(problem: Problem, size: int, options: NestedOptions = NESTED) -> tuple[list[Step], Selection]:
    search, steps = stagewise_nested(problem, size, seed=3, options=options), []
    while True:
        try:
            steps.append(next(search))
        except StopIteration as end:
            return steps, end.value


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("case", first([CASES[0], CASES[1], CASES[3]], lambda case: case == CASES[0]), ids=str)
def test_the_climb_takes_the_twins_steps(case: dict[str, Any]) -> None:
    problem, twin = both(**case, n=12)
    held = stratified(problem.train.labels, 3, 3)
    rungs = [rung for rung in ladder(problem.d) if rung < 200]
    draws = list(islice(problem.draws(4, 3, np.setdiff1d(np.arange(12), held)), 4 * len(rungs)))
    args = (*arrays(problem), twin.loss_and_gradient, draws, held, rungs, 4, 0.1)
    found = climb(problem, rungs[-1])[1].order.tolist()
    assert found == slow_nested(*args, 1 / 2, 2)[0]
    assert found != slow_nested(*args, 1 / 4, 2)[0] and len(found) == rungs[-1]


def test_the_ladder_is_that_of_the_model_and_every_rung_is_a_region_of_its_own() -> None:
    assert ladder(10_646_784)[1:7:2] == [1065, 10647, 106468] and ladder(10_646_784)[-1] == 10_646_784
    assert ladder(3) == [1, 3] and ladder(1) == [1]
    problem = learnable_problem(n=48)
    options = NestedOptions(steps=6, batch_size=8, examples=12)
    large = climb(problem, 400, options)[1].order
    judge = Judge(problem, 12, 3)

    def loss_of(order: np.ndarray) -> float:
        with problem.at_base_afterwards():
            problem.set_region(torch.from_numpy(order))
            return problem.train.loss(judge.rows)

    losses = [loss_of(large[:rung]) for rung in ladder(problem.d) if rung <= 400]
    problem.reset()
    assert losses[-1] < losses[0] and losses[-1] < problem.train.loss(judge.rows)
    for size in (20, 141, 300):
        assert np.array_equal(climb(problem, size, options)[1].order, large[:size])


def test_the_cost_of_a_climb_counts_what_the_model_is_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, forward = tiny_problem(n=24), []
    loss = problem.train.loss
    monkeypatch.setattr(problem.train, "loss", lambda rows: (forward.append(len(rows)), loss(rows))[1])
    for size in (1, 40, problem.d):
        forward.clear()
        steps, _ = climb(problem, size)
        cost = localizer("stagewise-nested").cost(NESTED, Workload(problem.d, 2, 24, 0, size))
        assert (cost.forward, cost.backward) == (sum(forward), 4 * len(steps))
        assert {step.total for step in steps} == {len(steps)}
