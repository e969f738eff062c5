"""Tests of the baselines: the score that each ranks by, entry by entry, and the properties of controls."""

from __future__ import annotations

from collections import Counter
from math import exp, inf

import numpy as np
import pytest
import torch

from skillviz.core.localizers.gates import CLOSED, _draw, l0_gates, localize_and_stitch
from skillviz.core.localizers.table import (
    LOCALIZERS,
    RIVALS,
    GateOptions,
    StitchOptions,
    is_rescaled,
    localizer,
    makes_graft,
)
from skillviz.core.methods import METHODS
from skillviz.core.problem import Problem
from skillviz.errors import BadSize
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import learnable_problem, tiny_problem
from tests.reference.ranking import slow_moved_top, slow_top

NEW = ("random-matched", "magnitude", "tall-mask", "localize-and-stitch", "l0-gates", "dare")


def by_tensor(problem: Problem, entries: np.ndarray) -> Counter[int]:
    offsets = problem.table.offsets
    return Counter(next(t for t in range(len(offsets)) if offsets[t] <= entry < offsets[t + 1]) for entry in entries)


@pytest.mark.parametrize("size", [1, 60, 900])
def test_the_matched_draw_has_as_many_entries_in_each_tensor(size: int) -> None:
    problem = tiny_problem(seed=3)
    reference = finish(start("movement", problem, size))[1].order
    drawn = [finish(start("random-matched", problem, size, seed))[1].order for seed in (0, 1)]
    assert all(by_tensor(problem, order) == by_tensor(problem, reference) for order in drawn)
    uniform = finish(start("random", problem, size))[1].order
    if size > 1:
        assert by_tensor(problem, uniform) != by_tensor(problem, reference), "an unmatched draw would pass"
        assert set(drawn[0]) != set(drawn[1]) != set(reference)


def test_a_region_can_be_matched_at_its_size_and_below() -> None:
    problem = tiny_problem()
    given = tuple(range(40, 90))
    order = finish(start("random-matched", problem, 50, reference_indices=given))[1].order
    assert by_tensor(problem, order) == by_tensor(problem, np.array(given))
    small = finish(start("random-matched", problem, 20, reference_indices=given))[1].order
    assert small.tolist() == order[:20].tolist()
    with pytest.raises(BadSize, match="51 entries were requested, but the region to match has 50"):
        finish(start("random-matched", problem, 51, reference_indices=given))


def test_the_matched_draw_is_uniform_within_a_tensor() -> None:
    problem = tiny_problem()
    sizes = np.diff(problem.table.offsets)
    begin, count = int(problem.table.offsets[sizes.argmin()]), int(sizes.min())
    given = tuple(range(begin, begin + 2))
    seen = Counter(int(e) for seed in range(60 * count) for e in finish(
        start("random-matched", problem, 2, seed, reference_indices=given))[1].order)  # fmt: skip
    assert set(seen) == set(range(begin, begin + count))
    assert all(abs(times - 120) < 5 * 120**0.5 for times in seen.values())


def test_magnitude_ranks_by_the_fine_tuned_weights() -> None:
    problem = tiny_problem(quantum=0.1)
    order = finish(start("magnitude", problem, 90))[1].order
    assert order.tolist() == slow_moved_top(problem.finetuned.abs().tolist(), problem.tau.tolist(), 90)
    assert order.tolist() != slow_top(problem.tau.abs().tolist(), 90)


def test_the_task_vector_threshold_ranks_by_relative_movement() -> None:
    problem = tiny_problem(moved=0.2)
    problem.base[:30] = 0.0
    problem.base[30:60] = problem.finetuned[30:60] = 0.0
    base, tuned = problem.base.tolist(), problem.finetuned.tolist()

    def threshold(i: int) -> float:  # the largest lambda at which |tau| >= lambda |base|
        moved = np.float32(abs(np.float32(tuned[i]) - np.float32(base[i])))
        return 0.0 if moved == 0 else inf if base[i] == 0 else float(moved / np.float32(abs(base[i])))

    moved = problem.tau.abs().tolist()
    wanted = sorted(range(problem.d), key=lambda i: (-threshold(i), -moved[i], i))
    for size in (5, 100, problem.d):
        assert finish(start("tall-mask", problem, size))[1].order.tolist() == wanted[:size]


def test_with_other_tasks_the_threshold_is_the_published_one() -> None:
    """|tau| >= lambda |tau_MTL - tau|, where tau_MTL is the sum of all tasks' vectors, entry by entry."""
    problem = tiny_problem(moved=0.3)
    generator = torch.Generator().manual_seed(5)
    others = [torch.randn(problem.d, generator=generator) for _ in range(2)]
    others[0][:20] = others[1][:20] = 0.0
    tau = problem.tau.tolist()
    together = (problem.tau.double() + others[0].double() + others[1].double()).tolist()

    def threshold(i: int) -> float:
        rest = abs(together[i] - tau[i])
        return 0.0 if tau[i] == 0 else inf if i < 20 else abs(tau[i]) / rest

    wanted = sorted(range(problem.d), key=lambda i: (-threshold(i), -abs(tau[i]), i))
    order = finish(start("tall-mask", problem, 80, other_movement=others[0] + others[1]))[1].order.tolist()
    assert set(order) == set(wanted[:80])
    assert set(order) != set(finish(start("tall-mask", problem, 80))[1].order.tolist())
    wrong = finish(start("tall-mask", problem, 80, other_movement=others[0] + others[1] + problem.tau))[1].order
    assert set(wrong.tolist()) != set(wanted[:80]), "tau_MTL itself on the right side would pass"


def test_localize_and_stitch_descends_as_published() -> None:
    """Compute the formula entry by entry in float64; the mask starts with the largest movers."""
    problem = tiny_problem(n=6)
    lr, bias, steps = 300.0, 3.0, 3
    options = StitchOptions(steps=steps, batch_size=6, lr=lr, bias=bias, base_share=20 / problem.d)
    found = finish(localize_and_stitch(problem, 80, seed=0, options=options))[1].order
    tau = (problem.finetuned - problem.base).double().numpy()
    distance = np.abs(problem.tau.numpy()).tolist()
    s = np.full(problem.d, -bias)
    s[slow_top(distance, 20)] = bias
    for _ in range(steps):
        u = np.array([1 / (1 + exp(-x)) for x in s])
        problem.flat.theta.copy_(problem.base + torch.from_numpy((u * tau).astype(np.float32)))
        problem.train.backward()
        s -= lr * problem.flat.grad.double().numpy() * tau * u * (1 - u)
    problem.reset()
    assert set(found) == set(sorted(range(problem.d), key=lambda i: (-s[i], -distance[i], i))[:80])
    assert set(found) != set(slow_top(distance, 80))


def drawn(odds: torch.Tensor, seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a draw of the gates [d], and its derivative with respect to the log-odds [d]."""
    gate, slope, rest = (torch.empty_like(odds) for _ in range(3))
    _draw(odds, seed, step, gate, slope, rest)
    return gate, slope


def test_the_gates_are_hard_concrete() -> None:
    """Check their derivative with autograd, and their open rate: sigmoid(log-odds - CLOSED)."""
    odds = torch.tensor([-2.0, -0.5, 0.0, 1.5]).repeat_interleave(20_000)
    gate, slope = drawn(odds, 0, 1)
    assert gate.min() == 0 and gate.max() == 1
    opened = (gate > 0).float().view(4, -1).mean(1)
    assert torch.allclose(opened, (odds.view(4, -1)[:, 0] - CLOSED).sigmoid(), atol=0.015)
    change = 1e-3
    numeric = (drawn(odds + change, 0, 1)[0] - drawn(odds - change, 0, 1)[0]) / (2 * change)
    settled = (gate > 0.01) & (gate < 0.99)
    assert torch.allclose(slope[settled], numeric[settled], atol=2e-3)
    assert (slope[(gate == 0) | (gate == 1)] == 0).all()
    assert not torch.equal(gate, drawn(odds, 0, 2)[0])


@pytest.mark.slow
def test_both_masks_find_what_chance_does_not() -> None:
    for seed in range(2):
        problem = learnable_problem(n=32, seed=seed)
        losses = {}
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
    order, notes = (lambda s: (s.order, s.notes))(finish(start("dare", problem, 70, 4))[1])
    assert order.tolist() == finish(start("random", problem, 70, 4))[1].order.tolist()
    assert "not the fine-tuned ones" in notes[0] and "control" in localizer("dare").title
    assert {name for name in LOCALIZERS if not makes_graft(name)} == {"dare", "lottery"}
    assert [name for name in LOCALIZERS if is_rescaled(name)] == ["dare"]


def test_each_is_a_method_of_its_own_that_studies_compare_with() -> None:
    methods = {LOCALIZERS[name].method for name in NEW}
    assert len(methods) == len(NEW) and methods <= set(RIVALS) <= set(METHODS)
