"""Tests of overlap and IoU matrices against sets, and of their chance levels against all possible regions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core import overlap
from skillviz.core.region import Region
from skillviz.errors import BadInput
from tests.core.drawn_predictions import PROPERTY
from tests.reference import overlap as slow

SHAPES = {"a.weight": (3, 4), "a.bias": (3,), "b.weight": (2, 5)}
D = 25


def region(flat: list[int]) -> Region:
    """Return the region with these global indices of the toy shapes."""
    return Region.from_flat(np.array(flat, dtype=np.int64), SHAPES)


@PROPERTY
@given(st.lists(st.sets(st.integers(0, D - 1)), min_size=1, max_size=4))
def test_matrices_equal_sets(chosen: list[set[int]]) -> None:
    regions = {f"task {i}": region(sorted(s)) for i, s in enumerate(chosen)}
    for matrix, twin in ((overlap.overlap_matrix, slow.overlap), (overlap.iou_matrix, slow.iou)):
        found = matrix(regions)
        expected = [[twin(a, b) for b in regions.values()] for a in regions.values()]
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-12)
        assert list(found.index) == list(found.columns) == list(regions)
    iou = overlap.iou_matrix(regions).to_numpy()
    np.testing.assert_array_equal(iou, iou.T)


def test_regions_of_unlike_models_cannot_be_laid_over_each_other() -> None:
    other = Region.from_flat(np.array([0]), {"a.weight": (5, 5)})
    for matrix in (overlap.overlap_matrix, overlap.iou_matrix):
        with pytest.raises(BadInput, match="architectures"):
            matrix({"one": region([0]), "other": other})


def test_shared_entries_are_counted_exactly() -> None:
    regions = {"low": region([0, 1, 2]), "high": region([2, 23, 24]), "none": region([])}
    assert overlap.shared_entries(regions).tolist() == [[3, 1, 0], [1, 3, 0], [0, 0, 0]]


def test_overlap_by_hand_is_asymmetric() -> None:
    regions = {"small": region([0, 1]), "large": region([0, 1, 2, 24]), "apart": region([7]), "empty": region([])}
    found = overlap.overlap_matrix(regions)
    assert found.loc["large", "small"] == 1.0 and found.loc["small", "large"] == 0.5  # nested
    assert found.loc["apart", "small"] == 0.0 and found.loc["empty", "small"] == 0.0
    assert np.diag(found)[:3].tolist() == [1.0] * 3 and found["empty"].isna().all()
    assert overlap.iou_matrix(regions).loc["small", "large"] == 0.5


def test_chance_by_hand() -> None:
    """Tensors of 12, 3 and 10 entries: {0, 1} and {3, ..., 7} are both in the first, {14, 20} in the others."""
    two, five, far, none = region([0, 1]), region([3, 4, 5, 6, 7]), region([14, 20]), region([])
    chance = overlap.matched_chance
    assert chance([(two, five)]).mean == pytest.approx(2 / 12) and chance([(five, two)]).mean == pytest.approx(5 / 12)
    assert chance([(far, two)]) == (0, 0, 0) and chance([(far, far)]).mean == pytest.approx((1 / 3 + 1 / 10) / 2)
    assert chance([(two, five)])[1:] == (0, 2 / 5), "0, 1 or 2 of 5 entries: 32, 53 and 15% of the draws"
    assert np.isnan(chance([(two, none)])).all() and chance([(none, two)]).mean == 0 and np.isnan(chance([])).all()
    iou = chance([(two, five)], "iou")
    assert iou == chance([(five, two)], "iou") and iou.mean == pytest.approx(slow.mean_iou(2, 5, 12), rel=1e-12)
    assert iou[1:] == (0, 2 / 5)
    assert np.isnan(chance([(none, none)], "iou")).all() and chance([(none, two)], "iou") == (0, 0, 0)


SMALL = {"a": (2, 2), "b": (3,), "c": (2,)}


@PROPERTY
@given(st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)))
def test_matched_chance_equals_the_mean_over_every_region_with_these_counts(a: set[int], b: set[int]) -> None:
    one, two = (Region.from_flat(np.array(sorted(s), dtype=np.int64), SMALL) for s in (a, b))
    share, iou = slow.matched_means(one, two)
    assert overlap.matched_overlap(one, two) == pytest.approx(share, rel=1e-9, nan_ok=True)
    assert overlap.matched_iou(one, two) == pytest.approx(iou, rel=1e-9, nan_ok=True)


@PROPERTY
@given(st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)), st.sampled_from([0.95, 0.8, 0.5]))
def test_the_range_by_chance_is_that_of_every_region_with_these_counts(a: set[int], b: set[int], level: float) -> None:
    one, two = (Region.from_flat(np.array(sorted(s), dtype=np.int64), SMALL) for s in (a, b))
    counts = [(len(one.indices.get(n, ())), len(two.indices.get(n, ())), math.prod(s)) for n, s in SMALL.items()]
    low, high = overlap.common_range(np.array(counts), level)
    draws = slow.matched_counts(one, two)
    tail = (1 - level) / 2 + 1e-12
    assert sum(x < low for x in draws) <= tail * len(draws) < sum(x <= low for x in draws) + 1e-9
    assert sum(x > high for x in draws) <= tail * len(draws) < sum(x >= high for x in draws) + 1e-9


@pytest.mark.parametrize("share", [0.002, 0.02, 0.2], ids=lambda share: f"share {share}")
def test_the_range_by_chance_holds_95_of_100_simulated_draws(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of hypergeometric counts over 40 tensors, 20,000 draws; exact and approximate ends differ by at most 1."""
    random = np.random.default_rng(3)
    d = random.integers(30, 20_000, 40)
    a, b = (np.maximum(d * random.uniform(0, 2 * share, 40), 1).astype(np.int64) for _ in range(2))
    low, high = overlap.common_range(np.stack([a, b, d], axis=1))
    drawn = random.hypergeometric(a, d - a, b, (20_000, 40)).sum(axis=1)
    for outside in ((drawn < low).mean(), (drawn > high).mean()):
        assert outside < 0.025 + 4 * math.sqrt(0.025 * 0.975 / 20_000)
    assert 0.945 < ((drawn >= low) & (drawn <= high)).mean() < 0.99
    both = []
    for few in (-1, 10**9):
        monkeypatch.setattr(overlap, "FEW_COMMON", few)
        both.append(overlap.common_range(np.stack([a, b, d], axis=1)))
    assert np.abs(np.subtract(*both)).max() <= 1


@pytest.mark.parametrize("few", [-1, 10**9], ids=["approximate", "exact"])
def test_without_a_choice_the_range_is_one_number(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "FEW_COMMON", few)
    assert overlap.common_range(np.array([[5000, 5000, 5000], [7, 3, 7]])) == (5003, 5003)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["overlap", "iou"])
def test_the_range_of_a_mean_over_pairs_that_share_regions_holds(kind: str) -> None:
    """Three regions of one task with three of another, and three among themselves both ways, of 600 entries each."""
    random, shapes = np.random.default_rng(4), {"crowded": (40, 10), "wide": (100, 100)}

    def draw() -> Region:
        crowd, rest = random.choice(400, 60, replace=False), random.choice(10_000, 200, replace=False)
        return Region({"crowded": crowd, "wide": rest}, shapes)

    def pairs(is_same: bool) -> list[tuple[Region, Region]]:
        ours = [draw() for _ in range(3)]
        others = ours if is_same else [draw() for _ in range(3)]
        return [(a, b) for a in ours for b in others if a is not b]

    for is_same in (False, True):
        mean, low, high = overlap.matched_chance(pairs(is_same), kind)
        means = [np.mean([getattr(a, kind)(b) for a, b in pairs(is_same)]) for _ in range(400)]
        assert np.mean(means) == pytest.approx(mean, abs=4 * np.std(means) / 20)
        inside = np.mean([low <= one <= high for one in means])
        assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / 400) < inside < 0.999, inside
        of_pair = overlap.matched_chance(pairs(is_same)[:1], kind)
        assert high - low < 0.75 * (of_pair.high - of_pair.low), "a mean of several lies nearer"


def test_the_approximation_of_large_regions_is_the_exact_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    random, shapes = np.random.default_rng(0), {"a": (100, 100), "b": (500,), "c": (2000,)}
    a, b = (Region.from_flat(random.choice(12_500, 3000, replace=False), shapes) for _ in range(2))
    exact = overlap.matched_iou(a, b)
    monkeypatch.setattr(overlap, "EXACT", 0)
    assert overlap.matched_iou(a, b) == pytest.approx(exact, rel=1e-5) and overlap.matched_iou(a, b) != exact


def test_regions_that_crowd_share_more_by_chance_than_their_sizes_say() -> None:
    """With 90 of 100 entries in a tensor of 200 of 20,000, a simulation gives the matched level, not the even one."""
    random, shapes = np.random.default_rng(1), {"crowded": (200,), "wide": (100, 198)}

    def draw() -> Region:
        crowd, rest = random.choice(200, 90, replace=False), random.choice(19_800, 10, replace=False)
        return Region({"crowded": crowd, "wide": rest}, shapes)

    pairs = [(draw(), draw()) for _ in range(400)]
    shares, ious = np.array([[a.overlap(b), a.iou(b)] for a, b in pairs]).T
    assert np.mean(shares) == pytest.approx(overlap.matched_overlap(*pairs[0]), abs=4 * shares.std() / 20)
    assert np.mean(ious) == pytest.approx(overlap.matched_iou(*pairs[0]), abs=4 * ious.std() / 20)
    assert np.mean(shares) > 50 * 100 / 20_000


@PROPERTY
@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))
def test_chance_iou_equals_the_mean_over_every_region(a: int, b: int, d: int) -> None:
    a, b = min(a, d), min(b, d)
    assert overlap.chance_iou(a, b, d) == pytest.approx(slow.mean_iou(a, b, d), rel=1e-9, nan_ok=True)


def test_chance_iou_of_a_real_size() -> None:
    """Sparse: near mean / (a + b - mean). Full: exactly 1. Half of a large model: about a third."""
    d = 85_054_464
    assert overlap.chance_iou(8505, 8505, d) == pytest.approx(0.8504 / (17010 - 0.8504), rel=1e-3)
    assert overlap.chance_iou(d, d, d) == 1.0
    assert overlap.chance_iou(d // 2, d // 2, d) == pytest.approx(1 / 3, rel=1e-6)
    assert overlap.chance_iou(8505, 8505, d) != pytest.approx(8505 / d, rel=0.1)  # not overlap's level


def test_regions_of_random_draws_come_out_at_chance() -> None:
    random, shapes = np.random.default_rng(0), {"w": (100, 100)}

    def draw() -> Region:
        return Region.from_flat(random.choice(10_000, 1000, replace=False), shapes)

    pairs = [(draw(), draw()) for _ in range(60)]
    assert np.mean([a.overlap(b) for a, b in pairs]) == pytest.approx(1000 / 10_000, abs=0.005)
    assert np.mean([a.iou(b) for a, b in pairs]) == pytest.approx(overlap.chance_iou(1000, 1000, 10_000), abs=0.003)


def test_bad_sizes() -> None:
    for sizes in ((11, 2, 10), (-1, 2, 10), (0, 0, 0)):
        with pytest.raises(BadInput, match=r"0\.\.d"):
            overlap.chance_iou(*sizes)
