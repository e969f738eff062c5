"""Tests of null movements, from a counter hash, with the interval of the value beyond them, and of random controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from skillviz.core.draws import CONTROLS, MATCHED, control_of, matched, stratified, uniform
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, REVERSED, SHUFFLED, SIGNS, beyond_null, drawn_signs, sources
from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput
from skillviz.models.null_pair import null_movement
from tests.core.by_hand import by_hand, near
from tests.reference.stratified import slow_counts
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
    assert len({draw(index, *key).tobytes() for key in ((0, 0), (1, 0), (0, 1))}) == 3


@pytest.mark.slow
@pytest.mark.cases(1, 0)
@pytest.mark.parametrize("n", [17, 6, 3, 2])
def test_every_place_is_equally_likely(n: int) -> None:
    draws, place = 300, np.arange(n)
    counts = sum(np.eye(n)[sources(place, n, seed, 1)] for seed in range(draws))
    # Each row and column sums to the draws, so (n - 1)^2 counts are free.
    statistic, identity = (((table - draws / n) ** 2 / (draws / n)).sum() for table in (counts, np.eye(n) * draws))
    assert statistic < ((n - 1) ** 2 + 5 * np.sqrt(2 * (n - 1) ** 2) + 5) < identity


@pytest.mark.nightly
def test_all_orders_of_four_occur_evenly() -> None:
    orders = Counter(tuple(sources(np.arange(4), 4, seed, 0)) for seed in range(960))
    assert len(orders) == 24 and chisquare(list(orders.values())).pvalue > 1e-4


def test_neighbours_do_not_stay_neighbours_and_signs_are_fair() -> None:
    found, signs = sources(np.arange(10_000), 10_000, 0, 0), drawn_signs(np.arange(100_000), 0, 0)
    assert abs(np.corrcoef(np.arange(10_000), found)[0, 1]) < 0.05 and (np.abs(np.diff(found)) == 1).mean() < 0.01
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


def test_beyond_by_hand_and_of_one_draw_over_examples_alone() -> None:
    graft, nulls = (
        np.array([1, 1, 1, 0, 1, 1, 0, 1.0]),
        np.array([[1, 0, 1, 0, 0, 1, 0, 0.0], [0, 0, 1, 0, 1, 1, 0, 1]]),
    )
    found, one = beyond_null(graft, nulls), beyond_null(graft, nulls[:1])
    wanted = (0.75 - (0.375 + 0.5) / 2, np.std([0.375, 0.25], ddof=1), 2)
    assert (found.value, found.sd, found.n) == pytest.approx(wanted) and found.low < found.value < found.high
    half = 1.959964 * np.std(graft - nulls[0], ddof=1) / 8**0.5
    assert (*one[:3], one.sd, one.n) == near(0.375, 0.375 - half, 0.375 + half, np.nan, 1, rel=1e-5)


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


SHAPES, OFFSETS = {"a": (10, 10), "b": (50,), "c": (7, 3)}, (0, 100, 150, 171)
REGION = Region({"a": np.arange(30), "c": np.array([0, 20])}, SHAPES)


@pytest.mark.parametrize("kind", CONTROLS)
def test_a_control_has_the_regions_size_and_depends_on_the_seed_alone(kind: str) -> None:
    one, again, other = (control_of(REGION, kind, OFFSETS, seed=seed) for seed in (1, 1, 2))
    assert one == again and one not in (other, REGION) and (one.size, one.shapes) == (REGION.size, REGION.shapes)
    each = [{name: len(entries) for name, entries in region.indices.items()} for region in (one, REGION)]
    assert (each[0] == each[1]) == (kind == MATCHED)


test_an_unknown_control_is_refused = refused(
    ValueError,
    ("'magnitude' is not a control", lambda: control_of(REGION, "magnitude", OFFSETS)),
)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 9))
def test_counts_are_the_twins_and_rows_are_sorted_and_distinct(labels: list[int], count: int, seed: int) -> None:
    rows = stratified(labels, count, seed)
    assert len(rows) == min(count, len(labels)) and (np.diff(rows) > 0).all()
    assert np.array_equal(rows, stratified(np.array(labels), count, seed))
    drawn = [labels[row] for row in rows]
    assert {label: drawn.count(label) for label in set(labels)} == slow_counts(labels, min(count, len(labels)))


SORTED = np.repeat([0, 1, 2], [700, 200, 100])
test_by_hand = by_hand(
    ("a smaller uniform draw begins a larger one", True,
     lambda: np.array_equal(uniform(171, 9, 0), uniform(171, 32, 0)[:9])),
    ("a smaller matched draw begins a larger one", True,
     lambda: np.array_equal(matched(REGION.flat()[:9], OFFSETS, 0), matched(REGION.flat(), OFFSETS, 0)[:9])),
    *((f"{kind} of {region}", region, control_of, region, kind, OFFSETS)
      for kind in CONTROLS for region in (Region.empty(SHAPES), Region.full(SHAPES))),
    ("every class has its share of a sorted file", [70, 20, 10],
     lambda: np.bincount(SORTED[stratified(SORTED, 100, 0)]).tolist()),
    ("every row can be drawn", set(range(40)),
     lambda: {int(row) for seed in range(60) for row in stratified(np.arange(40) % 2, 10, seed)}),
)  # fmt: skip


test_a_count_below_zero_is_refused = refused(
    BadInput,
    ("-1 examples", lambda: stratified([0, 1], -1, 0)),
)
