"""Tests of the linearized localizer: its Jacobian equals autograd's, its problem is solved, rounding keeps the best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.linearized import Linear, Reports, linearize, linearized, minimise, project, rounded
from skillviz.core.localizers.table import LinearizedOptions
from tests.core.problems import examples, finish, model_of, problem_of, table_of, tiny_problem
from tests.reference.convex import slow_loss, slow_minimum, slow_project
from tests.reference.gradient import PlainModel

points = st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=12)


def drawn_linear(n: int = 20, c: int = 12, labels: int = 2, seed: int = 0, scale: float = 2.0) -> Linear:
    rng = np.random.default_rng(seed)
    jacobian = torch.tensor((rng.normal(size=(n, labels - 1, c)) * scale).astype(np.float32))
    logits = torch.tensor(rng.normal(size=(n, labels)).astype(np.float32))
    return Linear(logits, jacobian, torch.tensor(rng.integers(labels, size=n)), torch.zeros(c))


@settings(max_examples=150, deadline=None)
@given(points, st.data())
def test_projection_is_the_nearest_point(point: list[float], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(point)))
    found = project(torch.tensor(point), size)
    assert found.min() >= 0 and found.max() <= 1 and found.double().sum() <= size + 1e-5
    np.testing.assert_allclose(found, slow_project(np.array(point), size), atol=2e-6)  # float32 point and shift
    np.testing.assert_allclose(project(found, size), found, atol=2e-6)


@pytest.mark.parametrize("labels", [2, 4])
def test_loss_and_gradient_of_the_linear_model(labels: int) -> None:
    linear = replace(drawn_linear(labels=labels), at=torch.full((12,), 0.2))
    gamma = torch.rand(12, generator=torch.Generator().manual_seed(0))
    parts = [one.numpy() for one in (linear.logits, linear.jacobian, linear.labels, linear.at)]
    (loss, slope), (wanted_loss, wanted) = linear.gradient(gamma), slow_loss(*parts, gamma.double().numpy())
    assert loss == pytest.approx(wanted_loss, rel=1e-6)
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-5, atol=1e-6)  # float32 sums of 20 terms
    ends = [[slow_loss(*parts, gamma.double().numpy() + s)[0] for s in (step, -step)] for step in np.eye(12) * 1e-5]
    differences = [(up - down) / 2e-5 for up, down in ends]
    np.testing.assert_allclose(wanted, differences, rtol=1e-4, atol=1e-7)  # the twin's own check


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("size", [1, 3, 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_minimum_is_the_minimum(labels: int, size: int, seed: int) -> None:
    linear = drawn_linear(labels=labels, seed=seed)
    gamma, loss = minimise(linear, size, 500, tolerance=1e-9)
    parts, found = [one.numpy() for one in (linear.logits, linear.jacobian, linear.labels)], gamma.double().numpy()
    there, slope = slow_loss(*parts, np.zeros(12), found)
    assert loss == pytest.approx(slow_minimum(*parts, size)[1], rel=1e-5)  # float32 losses
    assert loss == pytest.approx(there, rel=1e-6) and found.sum() <= size + 1e-5
    # First-order conditions: one multiplier separates the entries at 1, in between and at 0.
    gain, at_one, at_zero, slack = -slope, found > 1 - 1e-4, found < 1e-4, 5e-3
    shift = max(gain[~at_one].max(initial=0), 0)  # the gain of one more entry
    assert (gain[at_one] >= shift - slack).all() and (gain[at_zero] <= shift + slack).all()
    assert (np.abs(gain[~at_one & ~at_zero] - shift) < slack).all()
    assert shift < slack or found.sum() > size - 1e-4, "the budget is left unused though an entry would gain"


def test_an_easy_start_and_a_hopeless_one_end_at_once() -> None:
    linear = drawn_linear()
    ones, first = torch.ones_like(linear.jacobian), torch.zeros(20, dtype=torch.long)
    uphill = replace(linear, logits=linear.logits * 0, jacobian=ones, labels=first)
    for hopeless in (replace(linear, jacobian=0 * ones), uphill):
        gamma, loss = minimise(hopeless, 3, 100)
        assert float(gamma.sum()) == 0 and loss == pytest.approx(hopeless.gradient(gamma)[0])


@pytest.mark.parametrize(("family", "readout", "labels"), [("bert", "head", 2), ("distilbert", "prompt", 4)])
def test_the_jacobian_is_autograds_times_the_movement(family: str, readout: str, labels: int) -> None:
    encoded, model = examples(readout, 5, labels), model_of(family, readout, labels)
    twin = PlainModel(model, table_of(model).names, encoded, readout)
    problem = problem_of(model, encoded, readout)
    candidates, rows = Candidates.of(problem, 0.05, 10), np.array([3, 0, 4])
    reports = Reports(round=0, steps=1, rounds=1, behind=0, chosen=torch.empty(0, dtype=torch.int64))
    linear = finish(linearize(problem, candidates, rows, torch.zeros(len(candidates)), reports))[1]
    base, tau = problem.base.double(), problem.finetuned.double() - problem.base.double()
    assert linear.labels.tolist() == encoded.labels[rows].tolist()
    torch.testing.assert_close(linear.logits.double(), twin.logits_at(base, rows), rtol=1e-5, atol=1e-5)
    wanted = np.stack([twin.difference_gradients(base.numpy(), int(row)) for row in rows])[:, :, candidates.index]
    wanted *= tau[candidates.index].numpy()
    np.testing.assert_allclose(linear.jacobian, wanted, rtol=1e-4, atol=3e-6 * np.abs(wanted).max())  # float32
    moved = base.index_add(0, candidates.index, 1e-4 * tau[candidates.index])
    here, there = (z - z[:, :1] for z in (twin.logits_at(base, rows), twin.logits_at(moved, rows)))
    slope = (there - here)[:, 1:].float() / 1e-4
    torch.testing.assert_close(linear.jacobian.sum(2), slope, rtol=2e-2, atol=1e-3)  # finite difference
    problem.reset()


def test_rounding_keeps_the_largest_and_fills_by_gain() -> None:
    linear, gamma = drawn_linear(seed=4), torch.tensor([0, 1, 0.5, 1, 0, 0, 0.5, 0, 0, 0, 0, 0.25])
    slope = linear.gradient(gamma)[1].tolist()
    by_both = sorted(range(12), key=lambda i: (-float(gamma[i]), slope[i], i))
    found = [rounded(gamma, linear, size, torch.ones(12)).tolist() for size in range(1, 13)]
    assert found == [by_both[:size] for size in range(1, 13)]


def test_the_whole_is_the_sum_of_its_parts() -> None:
    """With one small problem, the region is the top of the slow twin's solution."""
    encoded, model = examples(n=8), model_of()
    twin = PlainModel(model, table_of(model).names, encoded, "head")
    problem = problem_of(model, encoded, moved=0.003)
    share = int((problem.tau != 0).sum()) / problem.d
    options = LinearizedOptions(examples=8, candidate_share=share, iterations=2000)
    steps, selection = finish(linearized(problem, 5, seed=0, options=options))
    base, places = problem.base.double().numpy(), Candidates.of(problem, share, 5).index.numpy()
    jacobian = np.stack([twin.difference_gradients(base, i) for i in range(8)]) * problem.tau.double().numpy()
    logits, found = twin.logits_at(base, range(8)).numpy(), set(selection.order.tolist())
    gamma, lowest = slow_minimum(logits, jacobian[:, :, places], encoded.labels, 5, steps=4_000)
    assert steps[-1].loss == pytest.approx(lowest, rel=2e-3)  # `minimise` stops at a relative gain of 1e-5 a step
    assert set(places[gamma > 0.9].tolist()) <= found <= set(places[gamma > 1e-3].tolist())


@pytest.mark.parametrize("rounds", [1, 3])
def test_sizes_beyond_the_candidates_are_filled_by_movement(rounds: int) -> None:
    problem = tiny_problem()
    options = LinearizedOptions(examples=4, iterations=5, jacobian_gib=64 * 100 * 4 / 2**30, rounds=rounds)
    steps, selection = finish(linearized(problem, 150, seed=0, options=options))
    order = selection.order.tolist()
    assert len(set(order)) == 150 and steps[-1].size == 100
    assert order[100:] == problem.tau.abs().index_fill(0, torch.tensor(order[:100]), -1).topk(50).indices.tolist()
    assert torch.equal(problem.flat.theta, problem.base)
