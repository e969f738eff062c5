"""Tests of stability of regions: pairs against chance by hand, the bootstrap of one Jacobian against recomputation."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
import torch
from scipy.stats import t as student

from skillviz.core.localizers.linearized import Linear, linearization, minimise
from skillviz.core.localizers.table import LinearizedOptions, localizer
from skillviz.core.region import Region
from skillviz.core.stability import bootstrap_regions, pairwise_iou, stability
from skillviz.errors import BadInput
from tests.core.by_hand import by_hand, near
from tests.core.problems import examples, finish, learnable_problem, tiny_problem
from tests.reference.convex import slow_loss
from tests.reference.overlap import mean_iou
from tests.refused import refused

SHAPES = {"w": (20,)}


def region(*flat: int) -> Region:
    return Region.from_flat(np.array(flat, dtype=np.int64), SHAPES)


def told(*names: str, of: list[Region]) -> tuple[float, ...]:
    return attrgetter(*names)(stability(of))


THREE = [region(0, 1, 2), region(1, 2, 3), region(9)]
CHANCE = np.mean([mean_iou(a, b, 20) for a, b in ((3, 3), (3, 1), (3, 1))])
test_by_hand = by_hand(
    ("pairs", [0.5, 0.0, 0.0], lambda: pairwise_iou(THREE).tolist()),
    ("three", near(1 / 6, 3, 3, CHANCE), lambda: told("iou", "pairs", "n", "chance.mean", of=THREE)),
    ("the same", near(1, 1, 1), lambda: told("iou", "low", "high", of=[region(1, 2)] * 3)),
    ("two", near(1 / 3, np.nan, np.nan), lambda: told("iou", "low", "high", of=[region(1, 2), region(2, 3)])),
)


def test_the_interval_is_the_jackknifes() -> None:
    rng = np.random.default_rng(0)
    found = [region(*rng.choice(20, 8, replace=False)) for _ in range(5)]
    told, means = stability(found), [pairwise_iou(found[:i] + found[i + 1 :]).mean() for i in range(5)]
    half, pairs = student.ppf(0.975, 4) * np.sqrt(4 * np.var(means)), pairwise_iou(found)
    assert (told.low, told.high) == pytest.approx((told.iou - half, told.iou + half))
    assert half > student.ppf(0.975, 9) * np.std(pairs, ddof=1) / 10**0.5, (
        "ten pairs of five regions are not ten independent values"
    )


def test_random_regions_agree_as_chance_does() -> None:
    rng = np.random.default_rng(0)
    told = stability([Region.from_flat(rng.choice(2000, 300, replace=False), {"w": (2000,)}) for _ in range(12)])
    assert told.low <= told.chance.mean <= told.high and told.chance.low <= told.iou <= told.chance.high


def test_weights_count_examples_as_copies_do() -> None:
    rng, counts = np.random.default_rng(0), np.array([2, 0, 1, 3, 0, 0])
    jacobian, logits = (torch.tensor(rng.normal(size=size).astype(np.float32)) for size in ((6, 2, 5), (6, 3)))
    labels, gamma = torch.tensor([0, 1, 2, 0, 1, 2]), torch.rand(5, generator=torch.Generator().manual_seed(0))
    weighted = Linear(logits, jacobian, labels, torch.zeros(5), torch.tensor(counts).float())
    copies = (part.repeat_interleave(torch.tensor(counts), dim=0).numpy() for part in (logits, jacobian, labels))
    wanted_loss, wanted = slow_loss(*copies, np.zeros(5), gamma.double().numpy())
    loss, slope = weighted.gradient(gamma)
    assert loss == pytest.approx(wanted_loss, rel=1e-6)
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert not np.allclose(replace(weighted, weights=None).gradient(gamma)[1].numpy(), wanted, rtol=1e-2)


@pytest.mark.slow
def test_the_whole_is_the_linearized_region() -> None:
    problem, options = learnable_problem(n=32), LinearizedOptions(iterations=40)
    wanted = finish(localizer("linearized").search(problem, 60, seed=0, options=options))[1].order
    found = linearization(problem, 60, seed=0, options=options)
    assert np.array_equal(found.order(), wanted) and found.examples == 32
    assert len(set(found.order(np.ones(32))) & set(wanted)) >= 58
    assert torch.equal(problem.flat.theta, problem.base)


@pytest.mark.nightly
def test_a_resample_is_solved_as_from_the_beginning() -> None:
    """Starting at the solution for all examples changes the path, not the result."""
    found = linearization(learnable_problem(n=48), 60, seed=0, options=LinearizedOptions(iterations=400))
    weights = np.bincount(np.random.default_rng(0).integers(0, 48, 48), minlength=48).astype(np.float32)
    linear = replace(found.linear, weights=torch.tensor(weights))
    (cold, cold_loss), (warm, warm_loss) = (
        minimise(linear, 60, 2000, tolerance=1e-7), minimise(linear, 60, 400, start=found.gamma),
    )  # fmt: skip
    assert warm_loss == pytest.approx(cold_loss, rel=0.02, abs=1e-3)
    assert float((warm - cold).abs().sum()) < 0.25 * 60


@pytest.mark.nightly
def test_regions_of_resamples_have_the_size_and_agree_more_than_chance() -> None:
    problem, options = learnable_problem(n=48), LinearizedOptions(iterations=60)
    found, again = (bootstrap_regions(problem, 60, resamples=n, seed=0, options=options) for n in (6, 3))
    told = stability(found.regions)
    assert [r.size for r in found.regions] == [60] * 6 and found.examples == 48
    assert told.low > told.chance.high and told.iou < 1
    assert (found.iou() >= told.chance.mean).all() and found.iou().shape == (6,)
    assert all(s > 0 for s in found.seconds) and list(again.regions) == list(found.regions[:3])
    assert torch.equal(problem.flat.theta, problem.base)


def test_large_regions_are_filled() -> None:
    problem = tiny_problem(n=10, selection=examples(n=4, seed=2))
    size, options = problem.d // 2, LinearizedOptions(iterations=5, candidate_share=0.01, jacobian_gib=0.01)
    assert {r.size for r in bootstrap_regions(problem, size, resamples=2, options=options).regions} == {size}


test_what_gives_no_stability_is_refused = refused(
    BadInput,
    ("at least two", lambda: stability([region(1)])),
    ("rounds must be 1", lambda: bootstrap_regions(tiny_problem(n=4), 5, options=LinearizedOptions(rounds=2))),
)
