"""Tests of overlap and IoU against sets and all possible regions, of the overlap with a planted region, and of
stability: pairs against chance by hand, the bootstrap of one Jacobian against recomputation."""

import math
from dataclasses import replace
from functools import partial
from operator import attrgetter
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from skillviz.core import overlap
from skillviz.core.localizers.linearized import Linear, linearization, minimise
from skillviz.core.localizers.table import LinearizedOptions, localizer
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.core.stability import bootstrap_regions, pairwise_iou, stability
from skillviz.errors import BadInput
from skillviz.planted import recovery
from tests.core.by_hand import by_hand, near, refused
from tests.core.drawn_predictions import PROPERTY
from tests.core.problems import examples, finish, learnable_problem, problem_with, tiny_problem
from tests.reference import overlap as slow
from tests.reference.searches import slow_loss

SHAPES = {"a.weight": (3, 4), "a.bias": (3,), "b.weight": (2, 5)}
SMALL = {"a": (2, 2), "b": (3,), "c": (2,)}
TENSORS = {"a": (3, 4), "b": (5,), "c": (2, 3)}
D, NAN = 25, math.nan


def region_of(shapes: dict[str, tuple[int, ...]], *flat: int) -> Region:
    return Region.from_flat(np.array(flat, dtype=np.int64), shapes)


region, small, of, of_twenty = (partial(region_of, shapes) for shapes in (SHAPES, SMALL, TENSORS, {"w": (20,)}))


@PROPERTY
@given(st.lists(st.sets(st.integers(0, D - 1)), min_size=1, max_size=4))
def test_matrices_equal_sets(chosen: list[set[int]]) -> None:
    regions = {f"task {i}": region(*s) for i, s in enumerate(chosen)}
    assert overlap.shared_entries(regions).tolist() == [[len(a & b) for b in chosen] for a in chosen]
    for matrix, twin in ((overlap.overlap_matrix, slow.overlap), (overlap.iou_matrix, slow.iou)):
        wanted = {name: {other: twin(b, a) for other, b in regions.items()} for name, a in regions.items()}
        pd.testing.assert_frame_equal(matrix(regions), pd.DataFrame(wanted), rtol=1e-12, check_dtype=False)


TWO, FIVE, FAR, NONE = region(0, 1), region(3, 4, 5, 6, 7), region(14, 20), region()
FOUR = {"small": region(0, 1), "large": region(0, 1, 2, 24), "apart": region(7), "empty": region()}
FIXED = [[5000, 5000, 5000], [7, 3, 7]]  # without a choice
UNLIKE = {"one": region(0), "other": Region.from_flat(np.array([0]), {"a.weight": (5, 5)})}


def range_of(counts: list | np.ndarray, few: int) -> tuple[int, int]:
    """Return the range by chance of these counts, approximate if `few` is -1, else exact."""
    with mock.patch.object(overlap, "FEW_COMMON", few):
        return overlap.common_range(np.array(counts))


def recovered(decoy: float, *region: int) -> tuple[float, ...]:
    """Return the recovery of a region where tensor a holds the skill: 3 entries moved by 2, 1 and 2; two of b moved by
    `decoy`. The region has the first entry. An unmoved entry counts neither for nor against."""
    movement = np.zeros(ENTRIES)
    movement[[0, 1, 2]], movement[[12, 13]] = (2.0, 1.0, 2.0), decoy
    return recovery(of(*region), of(0, 1, 2), movement)


@PROPERTY
@given(st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)))
def test_matched_chance_equals_the_mean_over_every_region_with_these_counts(a: set[int], b: set[int]) -> None:
    pair = (small(*a), small(*b))
    assert (overlap.matched_chance([pair]).mean, overlap.matched_iou(*pair)) == near(
        *slow.matched_means(*pair), rel=1e-9
    )


@PROPERTY
@given(st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)), st.sampled_from([0.95, 0.8, 0.5]))
def test_the_range_by_chance_is_that_of_every_region_with_these_counts(a: set[int], b: set[int], level: float) -> None:
    one, two = small(*a), small(*b)
    counts = [(len(one.indices.get(n, ())), len(two.indices.get(n, ())), math.prod(s)) for n, s in SMALL.items()]
    low, high = overlap.common_range(np.array(counts), level)
    draws, tail = np.array([len(slow.entries(one) & other) for other in slow.alike(two)]), (1 - level) / 2 + 1e-12
    assert (draws < low).mean() <= tail < (draws <= low).mean() + 1e-9 / len(draws)
    assert (draws > high).mean() <= tail < (draws >= high).mean() + 1e-9 / len(draws)


@pytest.mark.parametrize("share", [0.002, 0.02, 0.2], ids=lambda share: f"share {share}")
def test_the_range_by_chance_holds_95_of_100_simulated_draws(share: float) -> None:
    """A sum of hypergeometric counts over 40 tensors, 20,000 draws; exact and approximate ends differ by at most 1."""
    random = np.random.default_rng(3)
    d = random.integers(30, 20_000, 40)
    a, b = (np.maximum(d * random.uniform(0, 2 * share, 40), 1).astype(np.int64) for _ in range(2))
    counts, drawn = np.stack([a, b, d], axis=1), random.hypergeometric(a, d - a, b, (20_000, 40)).sum(axis=1)
    low, high = overlap.common_range(counts)
    assert max((drawn < low).mean(), (drawn > high).mean()) < 0.025 + 4 * math.sqrt(0.025 * 0.975 / 20_000)
    assert 0.945 < ((drawn >= low) & (drawn <= high)).mean() < 0.99
    assert np.abs(np.subtract(*(range_of(counts, few) for few in (-1, 10**9)))).max() <= 1


def drawn_in(random: np.random.Generator, **counts: tuple[tuple[int, ...], int]) -> Region:
    """Return a random region with so many entries in each tensor; `counts` maps its name to its shape and number."""
    chosen = {name: random.choice(math.prod(shape), n, replace=False) for name, (shape, n) in counts.items()}
    return Region(chosen, {name: shape for name, (shape, _) in counts.items()})


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["overlap", "iou"])
@pytest.mark.parametrize("is_same", [False, True])
def test_the_range_of_a_mean_over_pairs_that_share_regions_holds(kind: str, is_same: bool) -> None:
    """Three regions of one task with three of another, or three among themselves both ways, of 260 entries each."""
    random = np.random.default_rng(4)

    def pairs() -> list[tuple[Region, Region]]:
        drawn = [drawn_in(random, crowded=((40, 10), 60), wide=((100, 100), 200)) for _ in range(6)]
        return [(a, b) for a in drawn[:3] for b in (drawn[:3] if is_same else drawn[3:]) if a is not b]

    mean, low, high = overlap.matched_chance(pairs(), kind)
    means = np.array([np.mean([getattr(a, kind)(b) for a, b in pairs()]) for _ in range(400)])
    assert np.mean(means) == pytest.approx(mean, abs=4 * np.std(means) / 20)
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / 400) < ((low <= means) & (means <= high)).mean() < 0.999
    of_pair = overlap.matched_chance(pairs()[:1], kind)
    assert high - low < 0.75 * (of_pair.high - of_pair.low), "a mean of several lies nearer"


def test_the_approximation_of_large_regions_is_the_exact_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    random, shapes = np.random.default_rng(0), {"a": (100, 100), "b": (500,), "c": (2000,)}
    a, b = (Region.from_flat(random.choice(12_500, 3000, replace=False), shapes) for _ in range(2))
    exact = overlap.matched_iou(a, b)
    monkeypatch.setattr(overlap, "EXACT", 0)
    assert overlap.matched_iou(a, b) == pytest.approx(exact, rel=1e-5) and overlap.matched_iou(a, b) != exact


def test_regions_that_crowd_share_more_by_chance_than_their_sizes_say() -> None:
    """With 90 of 100 entries in a tensor of 200 of 20,000, a simulation gives the matched level, not the even one."""
    random, counts = np.random.default_rng(1), {"crowded": ((200,), 90), "wide": ((100, 198), 10)}
    pairs = [(drawn_in(random, **counts), drawn_in(random, **counts)) for _ in range(400)]
    shares, ious = np.array([[a.overlap(b), a.iou(b)] for a, b in pairs]).T
    assert np.mean(shares) == pytest.approx(overlap.matched_chance(pairs[:1]).mean, abs=4 * shares.std() / 20)
    assert np.mean(ious) == pytest.approx(overlap.matched_iou(*pairs[0]), abs=4 * ious.std() / 20)
    assert np.mean(shares) > 50 * 100 / 20_000


ENTRIES = 23
seeds = st.integers(0, 10**6)


def drawn(seed: int, share: float) -> Region:
    return of(*np.flatnonzero(np.random.default_rng(seed).random(ENTRIES) < share))


def moved(seed: int, true: Region) -> np.ndarray:
    """Return a movement with zeros inside and outside the true region, in which the first entry moved."""
    draw = np.random.default_rng((seed, 1))
    movement = (draw.normal(size=ENTRIES) * (draw.random(ENTRIES) < 0.7)).astype(np.float32)
    movement[true.flat()[0]] = 1.0
    return movement


@settings(deadline=None)
@given(seeds, st.floats(0.0, 1.0), st.floats(0.2, 1.0))
def test_it_is_what_loops_over_entries_count(seed: int, share: float, true_share: float) -> None:
    region, true = drawn(seed, share), drawn(seed + 1, true_share) | of(seed % ENTRIES)
    movement = moved(seed, true)
    assert recovery(region, true, movement) == near(
        *slow.recovery(slow.entries(region), slow.entries(true), TENSORS, movement), rel=1e-9
    )


@settings(deadline=None)
@given(seeds)
def test_the_true_region_is_found_whole_and_the_full_one_by_chance(seed: int) -> None:
    true = drawn(seed, 0.4) | of(0)
    whole, full, none = (recovery(r, true, moved(seed, true)) for r in (true, Region.full(TENSORS), of()))
    assert whole[::2] == (1.0, 1.0) and np.isnan(none.precision) and none.recall == 0.0
    assert (full.precision, full.recall, full.tensor) == (full.chance, 1.0, 2.0), "all three tensors are level"


def told(*names: str, of: list[Region]) -> tuple[float, ...]:
    return attrgetter(*names)(stability(of))


THREE = [of_twenty(0, 1, 2), of_twenty(1, 2, 3), of_twenty(9)]
test_by_hand = by_hand(
    ("pairs", [0.5, 0.0, 0.0], lambda: pairwise_iou(THREE).tolist()),
    ("three", near(1 / 6, 3, 3, np.mean([slow.mean_iou(a, b, 20) for a, b in ((3, 3), (3, 1), (3, 1))])),
     lambda: told("iou", "pairs", "n", "chance.mean", of=THREE)),
    ("the same", near(1, 1, 1), lambda: told("iou", "low", "high", of=[of_twenty(1, 2)] * 3)),
    ("two", near(1 / 3, np.nan, np.nan), lambda: told("iou", "low", "high", of=[of_twenty(1, 2), of_twenty(2, 3)])),
    ("shares", near(np.array([[1, 0.5, 0, NAN], [1, 1, 0, NAN], [0, 0, 1, NAN], [0, 0, 0, NAN]])),
     lambda: overlap.overlap_matrix(FOUR).to_numpy()),
    ("IoU of two", 0.5, lambda: overlap.iou_matrix(FOUR).loc["small", "large"]),
    # Tensors of 12, 3 and 10 entries: {0, 1} and {3, ..., 7} are both in the first, {14, 20} in the others.
    *((f"chance: {name}", near(*wanted, rel=1e-12), overlap.matched_chance, pairs, kind)
      for name, pairs, kind, wanted in (
      ("two of five", [(TWO, FIVE)], "overlap", (2 / 12, 0, 2 / 5)),  # 0, 1 or 2 of 5: 32, 53 and 15% of the draws
      ("five of two", [(FIVE, TWO)], "overlap", (5 / 12, 0, 1)),
      ("apart", [(FAR, TWO)], "overlap", (0, 0, 0)),
      ("in two tensors", [(FAR, FAR)], "overlap", ((1 / 3 + 1 / 10) / 2, 0, 1)),
      ("of nothing", [(TWO, NONE)], "overlap", (NAN, NAN, NAN)),
      ("nothing", [(NONE, TWO)], "overlap", (0, 0, 0)),
      ("no pairs", [], "overlap", (NAN, NAN, NAN)),
      ("IoU", [(TWO, FIVE)], "iou", (slow.mean_iou(2, 5, 12), 0, 2 / 5)),
      ("IoU, turned", [(FIVE, TWO)], "iou", (slow.mean_iou(2, 5, 12), 0, 2 / 5)),
      ("IoU of nothing", [(NONE, NONE)], "iou", (NAN, NAN, NAN)),
      ("IoU, nothing", [(NONE, TWO)], "iou", (0, 0, 0)),
      )),
    ("one number, approximate", (5003, 5003), range_of, FIXED, -1),
    ("one number, exact", (5003, 5003), range_of, FIXED, 10**9),
    ("b has 1 of 5, c 1 of 6, a 1 of 12", near(1 / 2, 3 / 5, 4 / 9, 3), recovered, 5.0, 0, 12, 22),
    ("not by counts, nor over all entries: 1/3", near(1.0, 1.0, 4 / 9, 1), recovered, 0.0, 0, 5, 6),
)  # fmt: skip


def test_the_interval_is_the_jackknifes() -> None:
    rng = np.random.default_rng(0)
    found = [of_twenty(*rng.choice(20, 8, replace=False)) for _ in range(5)]
    told, means = stability(found), [pairwise_iou(found[:i] + found[i + 1 :]).mean() for i in range(5)]
    half, pairs = student.ppf(0.975, 4) * np.sqrt(4 * np.var(means)), pairwise_iou(found)
    assert (told.low, told.high) == pytest.approx((told.iou - half, told.iou + half))
    assert half > student.ppf(0.975, 9) * np.std(pairs, ddof=1) / 10**0.5, (
        "ten pairs of five regions are not ten independent values"
    )


def test_random_regions_agree_as_chance_does() -> None:
    rng = np.random.default_rng(0)
    told = stability([drawn_in(rng, w=((2000,), 300)) for _ in range(12)])
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
    counts = np.bincount(np.random.default_rng(0).integers(0, 48, 48), minlength=48)
    linear = replace(found.linear, weights=torch.tensor(counts.astype(np.float32)))
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
    assert ([r.size for r in found.regions], found.examples, found.iou().shape) == ([60] * 6, 48, (6,))
    assert told.chance.high < told.low and told.iou < 1 and (found.iou() >= told.chance.mean).all()
    assert min(found.seconds) > 0 and list(again.regions) == list(found.regions[:3])
    assert torch.equal(problem.flat.theta, problem.base)


@problem_with(n=10, selection=examples(n=4, seed=2))
def test_large_regions_are_filled(problem: Problem) -> None:
    size, options = problem.d // 2, LinearizedOptions(iterations=5, candidate_share=0.01, jacobian_gib=0.01)
    assert {r.size for r in bootstrap_regions(problem, size, resamples=2, options=options).regions} == {size}


test_what_cannot_be_compared_is_refused = refused(
    BadInput,
    ("at least two", lambda: stability([of_twenty(1)])),
    ("rounds must be 1", lambda: bootstrap_regions(tiny_problem(n=4), 5, options=LinearizedOptions(rounds=2))),
    ("architectures", overlap.overlap_matrix, UNLIKE),
    ("architectures", overlap.iou_matrix, UNLIKE),
    ("of the same parameters", recovery, Region.empty({"a": (ENTRIES,)}), of(0), np.ones(ENTRIES)),
    ("of the same parameters", recovery, of(0), of(0), np.ones(ENTRIES + 1)),
    ("did not move", recovery, of(0), of(0), np.zeros(ENTRIES)),
)
