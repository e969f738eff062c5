"""Tests of the judged search: it matches its slow twin, judges on unseen examples, never loses to top movement."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from skillviz.core.draws import stratified
from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.record import LocalizerStep, Selection
from skillviz.core.localizers.stagewise import Growth, Judge, stagewise_judged, stagewise_nested
from skillviz.core.localizers.table import JudgedOptions, NestedOptions, Workload, ladder, localizer
from skillviz.core.problem import Problem
from tests.core.localizers.test_searches import CASES, arrays, both, draws, uphill
from tests.core.problems import examples, finish, learnable_problem, model_of, problem_of, tiny_problem
from tests.reference.searches import slow_candidates, slow_judged, slow_nested
from tests.tiers import first

pytestmark = pytest.mark.slow

OPTIONS = JudgedOptions(steps=6, batch_size=4, start_share=0.2, grow_share=0.5, judged=3, examples=3)
NESTED = NestedOptions(steps=4, batch_size=4, grow_share=0.5, judged=2, examples=3)


def judged(problem: Problem, size: int, options: JudgedOptions = OPTIONS, seed: int = 3) -> Any:
    return finish(stagewise_judged(problem, size, seed=seed, options=options))


def climbed(problem: Problem, size: int, options: NestedOptions = NESTED) -> Any:
    return finish(stagewise_nested(problem, size, seed=3, options=options))


def held_and_drawn(problem: Problem, steps: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the rows of each step, and the three rows on which regions are judged."""
    held = stratified(problem.train.labels, 3, 3)
    return draws(problem, 4, steps, np.setdiff1d(np.arange(problem.train.n), held)), held


@pytest.mark.cases(0, 3)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_it_takes_the_twins_steps(case: dict[str, Any], size: int) -> None:
    problem, twin = both(**case, n=12)
    rest = (size, slow_candidates(problem.tau.numpy(), 0.1, size), max(1, round(0.2 * size)))
    (order, chosen, _), *planted = (
        slow_judged(*arrays(problem), gradient, *held_and_drawn(problem, 6), *rest, rate, 3)
        for gradient, rate in ((twin.loss_and_gradient, 1 / 3), (uphill(twin), 1 / 3), (twin.loss_and_gradient, 1 / 6))
    )
    found = judged(problem, size)[1]
    words = "top movement" if chosen == "movement" else f"step {chosen} of 6"
    assert words in found.notes[0] and "3 held training examples" in found.notes[0]
    assert found.order.tolist() == order
    can_differ = size > 1 and "moved" not in case
    assert not can_differ or all(order != other for other, *_ in planted), "a dropped sign or another rate would pass"


def test_the_gradients_never_see_a_held_example() -> None:
    problem = tiny_problem(n=24, labels=3)
    train = problem.train
    train.backward, train.loss = Mock(side_effect=train.backward), Mock(side_effect=train.loss)  # type: ignore[method-assign]
    judged(problem, 40)
    drawn, judges = ([call.args[0] for call in one.mock_calls] for one in (train.backward, train.loss))
    assert [rows.tolist() for rows in judges] == [judges[0].tolist()] * (3 + 1)
    assert np.bincount(train.labels[judges[0]]).tolist() == [1, 1, 1]
    assert not np.intersect1d(np.concatenate(drawn), judges[0]).size


LONG = JudgedOptions(steps=12, batch_size=8, judged=5, examples=12)


def test_no_region_that_was_judged_is_better_than_the_one_kept() -> None:
    problem = learnable_problem(n=48)
    found = judged(problem, 60, LONG, seed=0)[1]
    candidates, judge = Candidates.of(problem, LONG.candidate_share, 60), Judge(problem, LONG.examples, 0)
    problem.set_region(torch.from_numpy(found.order))
    kept, growth = problem.train.loss(judge.rows), Growth(candidates, 60, 12, 0.1, 6)
    judge.consider(0, candidates, growth.movers(60), growth.score)
    problem.reset()
    assert kept <= judge.loss and f"loss {kept:.3f}" in found.notes[0]


def test_it_falls_back_to_top_movement_where_the_search_finds_nothing_better() -> None:
    """Every gradient has the wrong sign, so the search's predicted gains are losses."""
    problem = learnable_problem(n=48)
    candidates, backward = Candidates.of(problem, 0.1, 60), problem.train.backward

    def misleading(rows: np.ndarray) -> float:
        loss = backward(rows)
        problem.flat.grad.neg_()
        return loss

    problem.train.backward = misleading  # type: ignore[method-assign]
    found = judged(problem, 60, LONG, seed=0)[1]
    assert set(found.order) == set(candidates.index[candidates.movers(60)].tolist())
    assert "which no region of the search beat" in found.notes[0]


def test_one_loud_batch_does_not_outshout_the_others() -> None:
    candidates = Candidates.of(tiny_problem(), 0.1, 40)
    growth = Growth(candidates, 40, 7, 0.1, 4)
    usual = torch.randn(len(candidates), generator=torch.Generator().manual_seed(0))
    for scale in (1, 1, 1, 1, 1, -1000):
        growth.add(scale * usual)
    assert torch.allclose(growth.score, 4 * usual, rtol=1e-4), "without the scale it would be -995 times as large"
    growth.add(0.01 * usual)
    assert torch.allclose(growth.score, 4.01 * usual, rtol=1e-4), "a quiet batch is not made louder"


def test_switches_become_fewer_once_the_region_is_full() -> None:
    candidates = Candidates.of(tiny_problem(), 0.1, 200)
    growth, noise, seen = Growth(candidates, 200, 30, 1 / 9, 20), torch.Generator().manual_seed(0), []
    for step in range(1, 31):
        growth.add(torch.randn(len(candidates), generator=noise))
        seen.append((growth.switch(step)[0], int(growth.selected.sum())))
    added, sizes = zip(*seen, strict=True)
    full = sizes.index(200) + 1
    assert max(added[:full]) <= 2 * round(200 / 9) and full < 20
    assert max(added[-4:-1]) <= 4 < min(added[full : full + 3]), "each step would switch as many as at first"


@pytest.mark.parametrize(("n", "judging", "others"), [(1, 1, 1), (3, 3, 3), (4, 1, 3)])
def test_with_hardly_any_examples_it_judges_on_those_there_are(n: int, judging: int, others: int) -> None:
    problem = tiny_problem(n=n)
    judge = Judge(problem, 512, 0)
    assert (len(judge.rows), len(judge.others), len(judged(problem, 10)[1].order)) == (judging, others, 10)


@pytest.mark.parametrize(
    ("name", "size"),
    [("stagewise-judged", 40), ("stagewise-nested", 1), ("stagewise-nested", 40), ("stagewise-nested", None)],
)
def test_the_cost_counts_what_the_model_is_run_on(name: str, size: int | None) -> None:
    problem = tiny_problem(n=24)
    size = size or problem.d
    problem.train.loss = Mock(side_effect=problem.train.loss)  # type: ignore[method-assign]
    work, options = (judged, OPTIONS) if name == "stagewise-judged" else (climbed, NESTED)
    steps, _ = work(problem, size)
    cost = localizer(name).cost(options, Workload(problem.d, 2, 24, 0, size))
    forward = sum(len(call.args[0]) for call in problem.train.loss.mock_calls)
    assert (cost.forward, cost.backward) == (forward, 4 * len(steps))
    assert name == "stagewise-judged" or {step.total for step in steps} == {len(steps)}


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("case", first([CASES[0], CASES[1], CASES[3]], lambda case: case == CASES[0]), ids=str)
def test_the_climb_takes_the_twins_steps(case: dict[str, Any]) -> None:
    problem, twin = both(**case, n=12)
    rungs = [rung for rung in ladder(problem.d) if rung < 200]
    rows = held_and_drawn(problem, 4 * len(rungs))
    found = climbed(problem, rungs[-1])[1].order.tolist()
    args = (*arrays(problem), twin.loss_and_gradient, *rows, rungs, 4, 0.1)
    assert len(found) == rungs[-1] and found == slow_nested(*args, 1 / 2, 2)[0] != slow_nested(*args, 1 / 4, 2)[0]


def test_the_ladder_is_that_of_the_model() -> None:
    assert ladder(10_646_784)[1:7:2] == [1065, 10647, 106468] and ladder(10_646_784)[-1] == 10_646_784
    assert (ladder(3), ladder(1)) == ([1, 3], [1])


def test_every_rung_is_a_region_of_its_own() -> None:
    problem, options = learnable_problem(n=48), NestedOptions(steps=6, batch_size=8, examples=12)
    large, judge, losses = climbed(problem, 400, options)[1].order, Judge(problem, 12, 3), []
    for rung in (0, ladder(problem.d)[0], max(rung for rung in ladder(problem.d) if rung <= 400)):
        problem.set_region(torch.from_numpy(large[:rung]))
        losses.append(problem.train.loss(judge.rows))
        problem.reset()
    assert losses[2] < min(losses[:2])
    smaller = [climbed(problem, size, options)[1].order.tolist() for size in (20, 141, 300)]
    assert smaller == [large[:size].tolist() for size in (20, 141, 300)]
