"""Tests of null movements: permutations and signs from a counter hash, and the interval of the value beyond them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from skillviz.core.nulls import LEARNED_SIGNS, NULLS, REVERSED, SHUFFLED, SIGNS, beyond_null, drawn_signs, sources
from skillviz.errors import BadData
from skillviz.models.null_pair import null_movement
from tests.refused import refused

SIZES = (1, 2, 3, 5, 16, 17, 255, 256, 257, 1000, 65_537)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [0, 7])
def test_sources_are_a_permutation(n: int, seed: int) -> None:
    assert np.array_equal(np.sort(sources(np.arange(n), n, seed, 3)), np.arange(n))


DRAWS = [lambda at, seed, tensor: sources(at, 1000, seed, tensor), drawn_signs]


@pytest.mark.parametrize("draw", DRAWS, ids=["sources", "signs"])
def test_draws_can_be_computed_in_part_and_differ_by_seed_and_tensor(draw: Callable) -> None:
    index, some = np.arange(1000), np.array([999, 0, 17, 17, 500])
    assert np.array_equal(draw(some, 5, 2), draw(index, 5, 2)[some])
    one, *others = (draw(index, *key) for key in ((0, 0), (1, 0), (0, 1)))
    assert not any(np.array_equal(one, other) for other in others)


@pytest.mark.slow
@pytest.mark.cases(1, 0)
@pytest.mark.parametrize("n", [17, 6, 3, 2])
def test_every_place_is_equally_likely(n: int) -> None:
    draws, place = 300, np.arange(n)
    counts = sum(np.eye(n)[sources(place, n, seed, 1)] for seed in range(draws))
    # Each row and column sums to the draws, so (n - 1)^2 counts are free.
    statistic, identity = (((table - draws / n) ** 2 / (draws / n)).sum() for table in (counts, np.eye(n) * draws))
    most = (n - 1) ** 2 + 5 * np.sqrt(2 * (n - 1) ** 2) + 5
    assert statistic < most < identity


@pytest.mark.nightly
def test_all_orders_of_four_occur_evenly() -> None:
    orders = Counter(tuple(sources(np.arange(4), 4, seed, 0)) for seed in range(960))
    assert len(orders) == 24 and chisquare(list(orders.values())).pvalue > 1e-4


def test_neighbours_do_not_stay_neighbours() -> None:
    found = sources(np.arange(10_000), 10_000, 0, 0)
    assert abs(np.corrcoef(np.arange(10_000), found)[0, 1]) < 0.05 and (np.abs(np.diff(found)) == 1).mean() < 0.01


def test_signs_are_fair() -> None:
    signs = drawn_signs(np.arange(100_000), 0, 0)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.02 and abs((signs[1:] * signs[:-1]).mean()) < 0.02


def test_each_null_keeps_and_breaks_as_its_row_says() -> None:
    movement, index = torch.linspace(-1, 2, 300), np.arange(300)
    null = {kind: null_movement(kind, index, 300, lambda at: movement[torch.from_numpy(at)], 0, 0) for kind in NULLS}
    assert set(null) == {SHUFFLED, REVERSED, SIGNS, LEARNED_SIGNS}
    assert torch.equal(null[SHUFFLED].sort().values, movement) and not torch.equal(null[SHUFFLED], movement)
    assert torch.equal(null[REVERSED], -movement)
    assert torch.equal(null[SIGNS].abs(), movement.abs()) and not torch.equal(null[SIGNS], movement)
    assert torch.equal(null[LEARNED_SIGNS], movement.abs()), "until the search has chosen"


def test_beyond_by_hand() -> None:
    graft, nulls = np.array([1, 1, 1, 0, 1, 1, 0, 1.0]), [[1, 0, 1, 0, 0, 1, 0, 0.0], [0, 0, 1, 0, 1, 1, 0, 1.0]]
    found = beyond_null(graft, np.array(nulls))
    wanted = (0.75 - (0.375 + 0.5) / 2, np.std([0.375, 0.25], ddof=1), 2)
    assert (found.value, found.sd, found.n) == pytest.approx(wanted) and found.low < found.value < found.high


def test_one_draw_has_the_interval_over_examples_alone() -> None:
    rng = np.random.default_rng(0)
    graft, null = rng.random(400) < 0.9, rng.random(400) < 0.7
    found, half = beyond_null(graft, null[None]), 1.959964 * np.std(graft.astype(float) - null, ddof=1) / 20
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), rel=1e-5)
    assert np.isnan(found.sd) and found.n == 1


OTHER_SHAPES = (np.zeros((0, 8)), np.zeros(8), np.zeros((2, 7)), np.full((2, 8), np.nan))
test_scores_of_other_examples_are_refused = refused(
    BadData, *((None, beyond_null, np.ones(8), nulls) for nulls in OTHER_SHAPES)
)


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "spread"), [(2, 0.0), (2, 0.03), (5, 0.0), (5, 0.03), (5, 0.1), (10, 0.03)])
def test_coverage_over_examples_and_draws(draws: int, spread: float) -> None:
    rng, found = np.random.default_rng(draws), []
    for _ in range(500):
        hard = rng.random(500)  # an example is as hard for the graft as for its nulls
        levels = np.clip(0.7 + spread * rng.standard_normal(draws), 0, 1)
        nulls = np.where(rng.random((draws, 500)) < 0.5, hard, rng.random((draws, 500))) < levels[:, None]
        found.append(beyond_null(hard < 0.9, nulls))
    assert np.mean([one.low <= 0.9 - 0.7 <= one.high for one in found]) > 0.92
