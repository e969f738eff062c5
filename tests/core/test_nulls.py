"""Tests of null movements: permutations and signs from a counter hash, and the interval of the value beyond them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from skillviz.core.beyond import beyond_null
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, REVERSED, SHUFFLED, SIGNS, drawn_signs, sources
from skillviz.errors import BadData
from skillviz.models.null_pair import null_movement

SIZES = (1, 2, 3, 5, 16, 17, 255, 256, 257, 1000, 65_537)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [0, 7])
def test_sources_are_a_permutation(n: int, seed: int) -> None:
    found = sources(np.arange(n), n, seed, 3)
    assert np.array_equal(np.sort(found), np.arange(n))


def test_any_part_can_be_computed_alone() -> None:
    whole = sources(np.arange(1000), 1000, 5, 2)
    some = np.array([999, 0, 17, 17, 500])
    assert np.array_equal(sources(some, 1000, 5, 2), whole[some])
    assert np.array_equal(drawn_signs(some, 5, 2), drawn_signs(np.arange(1000), 5, 2)[some])


@pytest.mark.slow
@pytest.mark.cases(1, 0)
@pytest.mark.parametrize("n", [17, 6, 3, 2])
def test_every_place_is_equally_likely(n: int) -> None:
    draws = 300
    counts = np.zeros((n, n))
    for seed in range(draws):
        counts[np.arange(n), sources(np.arange(n), n, seed, 1)] += 1
    # Each row and column sums to the draws, so (n - 1)^2 counts are free.
    statistic, freedom = ((counts - draws / n) ** 2 / (draws / n)).sum(), (n - 1) ** 2
    assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 5
    identity = np.eye(n) * draws
    assert ((identity - draws / n) ** 2 / (draws / n)).sum() > freedom + 5 * np.sqrt(2 * freedom) + 5, "it can fail"


@pytest.mark.nightly
def test_all_orders_of_four_occur_evenly() -> None:
    orders = Counter(tuple(sources(np.arange(4), 4, seed, 0)) for seed in range(960))
    assert len(orders) == 24
    assert chisquare(list(orders.values())).pvalue > 1e-4


def test_neighbours_do_not_stay_neighbours() -> None:
    found = sources(np.arange(10_000), 10_000, 0, 0)
    assert abs(np.corrcoef(np.arange(10_000), found)[0, 1]) < 0.05
    assert (np.abs(np.diff(found)) == 1).mean() < 0.01


def test_seeds_and_tensors_give_other_draws() -> None:
    index = np.arange(500)
    for make in (lambda s, t: sources(index, 500, s, t), lambda s, t: drawn_signs(index, s, t)):
        assert not np.array_equal(make(0, 0), make(1, 0)) and not np.array_equal(make(0, 0), make(0, 1))


def test_signs_are_fair() -> None:
    signs = drawn_signs(np.arange(100_000), 0, 0)
    assert set(np.unique(signs)) == {-1.0, 1.0} and abs(signs.mean()) < 0.02
    assert abs((signs[1:] * signs[:-1]).mean()) < 0.02


def test_each_null_keeps_and_breaks_as_its_row_says() -> None:
    movement = torch.linspace(-1, 2, 300)
    index = np.arange(300)

    def null(kind: str) -> torch.Tensor:
        return null_movement(kind, index, 300, lambda at: movement[torch.from_numpy(at)], 0, 0)

    assert torch.equal(null(SHUFFLED).sort().values, movement) and not torch.equal(null(SHUFFLED), movement)
    assert torch.equal(null(REVERSED), -movement)
    assert torch.equal(null(SIGNS).abs(), movement.abs()) and not torch.equal(null(SIGNS), movement)
    assert torch.equal(null(LEARNED_SIGNS), movement.abs()), "until the search has chosen"
    assert set(NULLS) == {SHUFFLED, REVERSED, SIGNS, LEARNED_SIGNS}


def test_beyond_by_hand() -> None:
    graft = np.array([1, 1, 1, 0, 1, 1, 0, 1.0])
    nulls = np.array([[1, 0, 1, 0, 0, 1, 0, 0.0], [0, 0, 1, 0, 1, 1, 0, 1.0]])
    found = beyond_null(graft, nulls)
    assert found.value == pytest.approx(0.75 - (0.375 + 0.5) / 2)
    assert found.low < found.value < found.high and found.n == 2
    assert found.sd == pytest.approx(np.std([0.375, 0.25], ddof=1))


def test_one_draw_has_the_interval_over_examples_alone() -> None:
    rng = np.random.default_rng(0)
    graft, null = rng.random(400) < 0.9, rng.random(400) < 0.7
    found = beyond_null(graft, null[None])
    half = 1.959964 * np.std(graft.astype(float) - null, ddof=1) / 20
    assert np.isnan(found.sd) and found.n == 1
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), rel=1e-5)


@pytest.mark.parametrize("nulls", [np.zeros((0, 8)), np.zeros(8), np.zeros((2, 7)), np.full((2, 8), np.nan)])
def test_scores_of_other_examples_are_refused(nulls: np.ndarray) -> None:
    with pytest.raises(BadData):
        beyond_null(np.ones(8), nulls)


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "spread"), [(2, 0.0), (2, 0.03), (5, 0.0), (5, 0.03), (5, 0.1), (10, 0.03)])
def test_coverage_over_examples_and_draws(draws: int, spread: float) -> None:
    rng, true, covered, rounds = np.random.default_rng(draws), 0.9 - 0.7, 0, 500
    for _ in range(rounds):
        hard = rng.random(500)  # an example is as hard for the graft as for its nulls
        graft = hard < 0.9
        levels = np.clip(0.7 + spread * rng.standard_normal(draws), 0, 1)
        nulls = np.where(rng.random((draws, 500)) < 0.5, hard, rng.random((draws, 500))) < levels[:, None]
        found = beyond_null(graft, nulls)
        covered += found.low <= true <= found.high
    assert covered / rounds > 0.92
