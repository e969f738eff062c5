"""Tests of the linearized localizer: its Jacobian equals autograd's, its problem is solved, rounding keeps the best."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.convex import Linear, minimise, project
from skillviz.core.localizers.linearized import Reports, linearize, linearized, rounded
from skillviz.core.localizers.table import LinearizedOptions
from skillviz.core.problem import Problem
from tests.core.problems import examples, model_of, problem_of, table_of, tiny_problem
from tests.reference.convex import slow_loss, slow_minimum, slow_project
from tests.reference.gradient import PlainModel

points = st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=12)


def drawn_linear(n: int = 20, c: int = 12, labels: int = 2, seed: int = 0, scale: float = 2.0) -> Linear:
    rng = np.random.default_rng(seed)
    jacobian = (rng.normal(size=(n, labels - 1, c)) * scale).astype(np.float32)
    logits = rng.normal(size=(n, labels)).astype(np.float32)
    wanted = rng.integers(labels, size=n)
    return Linear(torch.tensor(logits), torch.tensor(jacobian), torch.tensor(wanted), torch.zeros(c))


@settings(max_examples=150, deadline=None)
@given(points, st.data())
def test_projection_is_the_nearest_point(point: list[float], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(point)))
    found = project(torch.tensor(point), size).double().numpy()
    assert found.min() >= 0 and found.max() <= 1 and found.sum() <= size + 1e-5
    np.testing.assert_allclose(found, slow_project(np.array(point), size), atol=2e-6)  # float32 point and shift
    again = project(torch.tensor(found).float(), size).double().numpy()
    np.testing.assert_allclose(again, found, atol=2e-6)
    other = np.array([data.draw(st.floats(0, 1)) for _ in point])
    other *= min(1, size / max(other.sum(), 1e-9))
    # The angle at the projection is never acute: (point - found) . (other - found) <= 0
    assert (np.array(point) - found) @ (other - found) <= 1e-4


@pytest.mark.parametrize("labels", [2, 4])
def test_loss_and_gradient_of_the_linear_model(labels: int) -> None:
    linear = drawn_linear(labels=labels)
    linear = Linear(linear.logits, linear.jacobian, linear.labels, torch.full((12,), 0.2))
    gamma = torch.rand(12, generator=torch.Generator().manual_seed(0))
    loss, slope = linear.gradient(gamma)
    parts = (linear.logits.numpy(), linear.jacobian.numpy(), linear.labels.numpy(), linear.at.numpy())
    wanted_loss, wanted = slow_loss(*parts, gamma.double().numpy())
    assert loss == pytest.approx(wanted_loss, rel=1e-6)
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-5, atol=1e-6)  # float32 sums of 20 terms
    for i in range(12):
        step = np.eye(12)[i] * 1e-5
        both = [slow_loss(*parts, gamma.double().numpy() + s)[0] for s in (step, -step)]
        assert wanted[i] == pytest.approx((both[0] - both[1]) / 2e-5, rel=1e-4, abs=1e-7)  # finite differences


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("size", [1, 3, 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_minimum_is_the_minimum(labels: int, size: int, seed: int) -> None:
    linear = drawn_linear(labels=labels, seed=seed)
    gamma, loss = minimise(linear, size, 500, tolerance=1e-9)
    parts = (linear.logits.numpy(), linear.jacobian.numpy(), linear.labels.numpy())
    best, lowest = slow_minimum(*parts, size)
    assert loss == pytest.approx(lowest, rel=1e-5)  # float32 losses
    assert loss == pytest.approx(slow_loss(*parts, np.zeros(12), gamma.double().numpy())[0], rel=1e-6)
    # First-order conditions: one multiplier separates the entries at 1, in between and at 0.
    found = gamma.double().numpy()
    gain = -slow_loss(*parts, np.zeros(12), found)[1]
    assert found.sum() <= size + 1e-5
    at_one, at_zero = found > 1 - 1e-4, found < 1e-4
    shift = max(gain[~at_one].max(initial=0), 0)  # the gain of one more entry
    slack = 5e-3
    assert (gain[at_one] >= shift - slack).all() and (gain[at_zero] <= shift + slack).all()
    assert (np.abs(gain[~at_one & ~at_zero] - shift) < slack).all()
    assert shift < slack or found.sum() > size - 1e-4, "the budget is left unused though an entry would gain"


def test_an_easy_start_and_a_hopeless_one_end_at_once() -> None:
    easy = drawn_linear()
    solved = Linear(easy.logits, torch.zeros_like(easy.jacobian), easy.labels, easy.at)
    gamma, loss = minimise(solved, 3, 100)
    assert loss == pytest.approx(solved.gradient(gamma)[0]) and float(gamma.sum()) == 0
    uphill = Linear(easy.logits * 0, torch.ones_like(easy.jacobian), torch.zeros(20, dtype=torch.long), easy.at)
    assert float(minimise(uphill, 3, 100)[0].sum()) == 0


@pytest.mark.parametrize(("family", "readout", "labels"), [("bert", "head", 2), ("distilbert", "prompt", 4)])
def test_the_jacobian_is_autograds_times_the_movement(family: str, readout: str, labels: int) -> None:
    encoded, model = examples(readout, 5, labels), model_of(family, readout, labels)
    twin = PlainModel(model, table_of(model).names, encoded, readout)
    problem = problem_of(model, encoded, readout)
    candidates, rows = Candidates.of(problem, 0.05, 10), np.array([3, 0, 4])
    linear = _finish(problem, candidates, rows)
    base, tuned = problem.base.double().numpy(), problem.finetuned.double().numpy()
    places = candidates.index.numpy()
    for i, row in enumerate(rows):
        wanted = (twin.difference_gradients(base, int(row)) * (tuned - base))[:, places]
        found = linear.jacobian[i].numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=3e-6 * np.abs(wanted).max())  # float32
        twin.put(base)
        with torch.no_grad():
            np.testing.assert_allclose(linear.logits[i], twin.logits(int(row)), rtol=1e-5, atol=1e-5)
        moved = base.copy()
        moved[places] += 1e-4 * (tuned - base)[places]
        twin.put(moved)
        with torch.no_grad():
            there = (twin.logits(int(row)) - twin.logits(int(row))[0]).numpy()
            twin.put(base)
            here = (twin.logits(int(row)) - twin.logits(int(row))[0]).numpy()
        slope = (there - here)[1:] / 1e-4
        np.testing.assert_allclose(found.sum(1), slope, rtol=2e-2, atol=1e-3)  # curvature in the finite difference
    assert linear.labels.tolist() == encoded.labels[rows].tolist()
    problem.reset()


def _finish(problem: Problem, candidates: Candidates, rows: np.ndarray) -> Linear:
    reports = Reports(round=0, steps=1, rounds=1, behind=0, begun=0.0, chosen=torch.empty(0, dtype=torch.int64))
    search = linearize(problem, candidates, rows, torch.zeros(len(candidates)), reports)
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value


def test_rounding_keeps_the_largest_and_fills_by_gain() -> None:
    linear = drawn_linear(seed=4)
    gamma = torch.tensor([0, 1, 0.5, 1, 0, 0, 0.5, 0, 0, 0, 0, 0.25])
    gain = (-linear.gradient(gamma)[1]).tolist()
    by_both = sorted(range(12), key=lambda i: (-float(gamma[i]), -gain[i], i))
    for size in range(1, 13):
        assert rounded(gamma, linear, size, torch.ones(12)).tolist() == by_both[:size]


def test_the_whole_is_the_sum_of_its_parts() -> None:
    """With one small problem, the region is the top of the slow twin's solution."""
    encoded, model = examples(n=8), model_of()
    twin = PlainModel(model, table_of(model).names, encoded, "head")
    problem = problem_of(model, encoded, moved=0.003)
    share = int((problem.tau != 0).sum()) / problem.d
    options = LinearizedOptions(examples=8, candidate_share=share, iterations=2000)
    search = linearized(problem, 5, seed=0, options=options)
    *_, last = search_steps = list(_steps(search))
    base, tau = problem.base.double().numpy(), problem.tau.double().numpy()
    places = Candidates.of(problem, share, 5).index.numpy()
    jacobian = np.stack([twin.difference_gradients(base, i) for i in range(8)]) * tau
    twin.put(base)
    with torch.no_grad():
        logits = torch.stack([twin.logits(i) for i in range(8)]).numpy()
    gamma, lowest = slow_minimum(logits, jacobian[:, :, places], encoded.labels, 5, steps=4_000)
    assert last[0].loss == pytest.approx(lowest, rel=2e-3)  # `minimise` stops at a relative gain of 1e-5 a step
    assert set(last[1]) >= set(places[gamma > 0.9].tolist()) and set(last[1]) <= set(places[gamma > 1e-3].tolist())
    assert len(search_steps) == 1


def _steps(search):  # type: ignore[no-untyped-def]
    """Return the last step, with the region found."""
    seen = []
    while True:
        try:
            seen.append(next(search))
        except StopIteration as end:
            yield seen[-1], end.value.order.tolist()
            return


@pytest.mark.parametrize("rounds", [1, 3])
def test_sizes_beyond_the_candidates_are_filled_by_movement(rounds: int) -> None:
    problem = tiny_problem()
    options = LinearizedOptions(examples=4, iterations=5, jacobian_gib=64 * 100 * 4 / 2**30, rounds=rounds)
    steps, order = next(_steps(linearized(problem, 150, seed=0, options=options)))
    assert len(set(order)) == 150 and steps.size == 100
    left = problem.tau.abs().clone()
    left[order[:100]] = -1
    assert order[100:] == left.topk(50).indices.tolist()
    assert torch.equal(problem.flat.theta, problem.base)
