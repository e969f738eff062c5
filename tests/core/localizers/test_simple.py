"""Tests of the closed-form localizers: averaged first-order gains against a slow twin, and the other baselines."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.gates import CLOSED, _draw, l0_gates, localize_and_stitch
from skillviz.core.localizers.simple import averaged, first_order
from skillviz.core.localizers.table import (
    LOCALIZERS,
    RIVALS,
    FirstOrderOptions,
    GateOptions,
    StitchOptions,
    is_rescaled,
    localizer,
    makes_graft,
)
from skillviz.core.methods import METHODS
from skillviz.core.problem import Problem
from skillviz.errors import BadSize
from tests.core.localizers.test_every_localizer import start
from tests.core.localizers.test_searches import arrays, both, draws, order_of
from tests.core.problems import finish, learnable_problem, tiny_problem
from tests.reference.ranking import slow_moved_top, slow_top
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


NEW = ("random-matched", "magnitude", "tall-mask", "localize-and-stitch", "l0-gates", "dare")


def order_by(name: str, problem: Problem, size: int, seed: int = 0, **options: Any) -> np.ndarray:
    return finish(start(name, problem, size, seed, **options))[1].order


def by_tensor(problem: Problem, entries: np.ndarray) -> list[int]:
    """Return the number of entries in each tensor."""
    return np.histogram(entries, problem.table.offsets)[0].tolist()


@pytest.mark.parametrize("size", [1, 60, 900])
def test_the_matched_draw_has_as_many_entries_in_each_tensor(size: int) -> None:
    problem = tiny_problem(seed=3)
    reference, uniform = order_by("movement", problem, size), order_by("random", problem, size)
    drawn = [order_by("random-matched", problem, size, seed) for seed in (0, 1)]
    counts = by_tensor(problem, reference)
    assert [by_tensor(problem, order) for order in drawn] == [counts, counts]
    assert size == 1 or by_tensor(problem, uniform) != counts, "an unmatched draw would pass"
    assert size == 1 or set(drawn[0]) != set(drawn[1]) != set(reference)


def test_a_region_can_be_matched_at_its_size_and_below() -> None:
    problem, given = tiny_problem(), tuple(range(40, 90))
    order, small = (order_by("random-matched", problem, size, reference_indices=given) for size in (50, 20))
    assert by_tensor(problem, order) == by_tensor(problem, np.array(given)) and small.tolist() == order[:20].tolist()
    with pytest.raises(BadSize, match="51 entries.* has 50"):
        order_by("random-matched", problem, 51, reference_indices=given)


def test_the_matched_draw_is_uniform_within_a_tensor() -> None:
    problem = tiny_problem()
    sizes = np.diff(problem.table.offsets)
    begin, count = int(problem.table.offsets[sizes.argmin()]), int(sizes.min())
    seen = [
        order_by("random-matched", problem, 2, seed, reference_indices=(begin, begin + 1)) for seed in range(60 * count)
    ]
    times = np.bincount(np.concatenate(seen) - begin, minlength=count)
    assert len(times) == count and (np.abs(times - 120) < 5 * 120**0.5).all()


def test_magnitude_ranks_by_the_fine_tuned_weights() -> None:
    problem = tiny_problem(quantum=0.1)
    order, weights = order_by("magnitude", problem, 90).tolist(), problem.finetuned.abs().tolist()
    assert order == slow_moved_top(weights, problem.tau.tolist(), 90) != slow_top(problem.tau.abs().tolist(), 90)


def by_threshold(movement: np.ndarray, rest: np.ndarray) -> list[int]:
    """Return all entries by the largest lambda at which |movement| >= lambda |rest|, then by movement."""
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = np.where(movement == 0, 0, np.abs(movement) / np.abs(rest))
    return np.lexsort((-np.abs(movement), -threshold)).tolist()


def test_the_task_vector_threshold_ranks_by_relative_movement() -> None:
    problem = tiny_problem(moved=0.2)
    problem.base[:60] = problem.finetuned[30:60] = 0.0
    wanted = by_threshold(problem.tau.numpy(), problem.base.numpy())
    for size in (5, 100, problem.d):
        assert order_by("tall-mask", problem, size).tolist() == wanted[:size]


def test_with_other_tasks_the_threshold_is_the_published_one() -> None:
    """|tau| >= lambda |tau_MTL - tau|, where tau_MTL is the sum of all tasks' vectors, entry by entry."""
    problem, generator = tiny_problem(moved=0.3), torch.Generator().manual_seed(5)
    others = torch.randn(problem.d, generator=generator) + torch.randn(problem.d, generator=generator)
    others[:20] = 0.0
    wanted = set(by_threshold(problem.tau.double().numpy(), others.double().numpy())[:80])
    found, alone, wrong = (
        set(order_by("tall-mask", problem, 80, **options).tolist())
        for options in ({"other_movement": others}, {}, {"other_movement": others + problem.tau})
    )
    assert found == wanted and alone != wanted and wrong != wanted, "tau_MTL itself on the right side would pass"


def test_localize_and_stitch_descends_as_published() -> None:
    """Compute the formula entry by entry in float64; the mask starts with the largest movers."""
    problem, lr, bias = tiny_problem(n=6), 300.0, 3.0
    options = StitchOptions(steps=3, batch_size=6, lr=lr, bias=bias, base_share=20 / problem.d)
    found = set(finish(localize_and_stitch(problem, 80, seed=0, options=options))[1].order)
    tau, distance = (problem.finetuned - problem.base).double(), problem.tau.abs().numpy()
    movers = slow_top(distance.tolist(), 80)
    s = torch.full((problem.d,), -bias, dtype=torch.float64).index_fill(0, torch.tensor(movers[:20]), bias)
    for _ in range(3):
        u = s.sigmoid()
        problem.flat.theta.copy_(problem.base + (u * tau).float())
        problem.train.backward()
        s -= lr * problem.flat.grad.double() * tau * u * (1 - u)
    problem.reset()
    assert found == set(np.lexsort((-distance, -s.numpy()))[:80]) != set(movers)


def drawn(odds: torch.Tensor, seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a draw of the gates [d], and its derivative with respect to the log-odds [d]."""
    gate, slope, rest = (torch.empty_like(odds) for _ in range(3))
    _draw(odds, seed, step, gate, slope, rest)
    return gate, slope


def test_the_gates_are_hard_concrete() -> None:
    """Check their derivative with finite differences, and their open rate: sigmoid(log-odds - CLOSED)."""
    each, change = torch.tensor([-2.0, -0.5, 0.0, 1.5]), 1e-3
    odds = each.repeat_interleave(20_000)
    (gate, slope), (up, _), (down, _) = (drawn(odds + by, 0, 1) for by in (0, change, -change))
    assert gate.min() == 0 and gate.max() == 1 and not torch.equal(gate, drawn(odds, 0, 2)[0])
    assert torch.allclose((gate > 0).float().view(4, -1).mean(1), (each - CLOSED).sigmoid(), atol=0.015)
    settled = (gate > 0.01) & (gate < 0.99)
    assert torch.allclose(slope[settled], ((up - down) / (2 * change))[settled], atol=2e-3)
    assert (slope[(gate == 0) | (gate == 1)] == 0).all()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_both_masks_find_what_chance_does_not(seed: int) -> None:
    problem, losses = learnable_problem(n=32, seed=seed), {}
    for name, search in {
        "stitch": localize_and_stitch(problem, 200, seed=0, options=StitchOptions(steps=20)),
        "gates": l0_gates(problem, 200, seed=0, options=GateOptions(steps=20)),
        "random": start("random", problem, 200),
    }.items():
        problem.set_region(torch.from_numpy(finish(search)[1].order))
        losses[name] = problem.train.loss()
        problem.reset()
    assert max(losses["stitch"], losses["gates"]) < losses["random"], losses


def test_dare_is_the_draw_of_random_and_no_graft() -> None:
    problem = tiny_problem()
    found = finish(start("dare", problem, 70, 4))[1]
    assert found.order.tolist() == order_by("random", problem, 70, 4).tolist()
    assert "not the fine-tuned ones" in found.notes[0] and "control" in localizer("dare").title
    assert {name for name in LOCALIZERS if not makes_graft(name)} == {"dare", "lottery"}
    assert [name for name in LOCALIZERS if is_rescaled(name)] == ["dare"]


def test_each_is_a_method_of_its_own_that_studies_compare_with() -> None:
    methods = {LOCALIZERS[name].method for name in NEW}
    assert len(methods) == len(NEW) and methods <= set(RIVALS) <= set(METHODS)
