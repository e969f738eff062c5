"""Tests of null movements, from a counter hash, with the interval of the value beyond them, of random controls, and of
approximate movements: slow twins, exact ends, and the bytes of their files by hand; and of the gain with the lowest
NLL: its place on known curves, its bootstrap interval, and its range's end."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from skillviz.core.architectures import KINDS
from skillviz.core.compressed import COMPRESSIONS, compressed, int8, low_rank, signs
from skillviz.core.draws import CONTROLS, MATCHED, control_of, matched, stratified, uniform
from skillviz.core.gain import GAINS, SWEEPS, gain_fit, gain_fits, gain_in
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, REVERSED, SHUFFLED, SIGNS, beyond_null, drawn_signs, sources
from skillviz.core.parameters import BIAS, Parameter, ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput, CorruptFile
from skillviz.models.null_pair import null_movement
from tests.core.by_hand import by_hand, near, refused
from tests.reference.compressed import slow_int8, slow_low_rank, slow_signs
from tests.reference.gain import gains_by_kind
from tests.reference.stratified import slow_counts


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
    _, times = np.unique([sources(np.arange(4), 4, seed, 0) for seed in range(960)], axis=0, return_counts=True)
    assert len(times) == 24 and chisquare(times).pvalue > 1e-4


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


SOME = [999, 0, 17, 17, 500]
WAYS = {"sources": lambda at, seed, tensor: sources(at, 1000, seed, tensor), "signs": drawn_signs}
GRAFT = np.array([1, 1, 1, 0, 1, 1, 0, 1.0])
DRAWS = np.array([[1, 0, 1, 0, 0, 1, 0, 0.0], [0, 0, 1, 0, 1, 1, 0, 1]])
HALF = 1.959964 * np.std(GRAFT - DRAWS[0], ddof=1) / 8**0.5
SORTED, MOVEMENT = np.repeat([0, 1, 2], [700, 200, 100]), torch.linspace(-1, 2, 300)
NULL = {
    kind: null_movement(kind, np.arange(300), 300, lambda at: MOVEMENT[torch.from_numpy(at)], 0, 0) for kind in NULLS
}
test_by_hand = by_hand(
    *((f"{name} can be computed in part", draw(np.arange(1000), 5, 2)[SOME].tolist(),
       lambda draw=draw: draw(np.array(SOME), 5, 2).tolist()) for name, draw in WAYS.items()),
    *((f"{name} differ by seed and tensor", 3, lambda draw=draw: len({
        draw(np.arange(1000), *key).tobytes() for key in ((0, 0), (1, 0), (0, 1))})) for name, draw in WAYS.items()),
    ("neighbours do not stay neighbours", (True, True), lambda found: (
        abs(np.corrcoef(np.arange(10_000), found)[0, 1]) < 0.05, (np.abs(np.diff(found)) == 1).mean() < 0.01),
     sources(np.arange(10_000), 10_000, 0, 0)),
    ("signs are fair", ({-1.0, 1.0}, True, True), lambda signs: (
        set(signs), abs(signs.mean()) < 0.02, abs((signs[1:] * signs[:-1]).mean()) < 0.02),
     drawn_signs(np.arange(100_000), 0, 0)),
    *((f"a control depends on the seed alone: {kind}", (True, False, REGION.size, REGION.shapes),
       lambda one, again, other: (one == again, one in (other, REGION), one.size, one.shapes),
       *(control_of(REGION, kind, OFFSETS, seed=seed) for seed in (1, 1, 2))) for kind in CONTROLS),
    *((f"a control has the region's counts: {kind}", kind == MATCHED, lambda one: (
        np.histogram(one.flat(), OFFSETS)[0].tolist() == np.histogram(REGION.flat(), OFFSETS)[0].tolist()),
       control_of(REGION, kind, OFFSETS, seed=1)) for kind in CONTROLS),
    ("beyond two draws", (near(0.75 - (0.375 + 0.5) / 2), near(np.std([0.375, 0.25], ddof=1)), 2, True),
     lambda of: (of.value, of.sd, of.n, of.low < of.value < of.high), beyond_null(GRAFT, DRAWS)),
    ("beyond one draw, over examples alone", near(0.375, 0.375 - HALF, 0.375 + HALF, np.nan, 1, rel=1e-5),
     lambda one: (*one[:3], one.sd, one.n), beyond_null(GRAFT, DRAWS[:1])),
    ("nulls", {SHUFFLED, REVERSED, SIGNS, LEARNED_SIGNS}, lambda: set(NULL)),
    *((f"what {kind} keeps", wanted.tolist(), lambda kind=kind, kept=kept: kept(NULL[kind]).tolist())
      for kind, kept, wanted in (
        (SHUFFLED, lambda null: null.sort().values, MOVEMENT), (REVERSED, torch.neg, MOVEMENT),
        (SIGNS, torch.abs, MOVEMENT.abs()), (LEARNED_SIGNS, torch.clone, MOVEMENT.abs()))),  # until a search has chosen
    *((f"{kind} breaks", False, torch.equal, NULL[kind], MOVEMENT) for kind in (SHUFFLED, SIGNS)),
    *((f"sources of {n}, seed {seed}, are a permutation", list(range(n)),
       lambda n=n, seed=seed: sorted(sources(np.arange(n), n, seed, 3)))
      for n in (1, 2, 3, 5, 16, 17, 255, 256, 257, 1000, 65_537) for seed in (0, 7)),
    ("a uniform draw in a file is the draw in memory", uniform(10_001, 300, 5).tolist(),
     lambda: uniform(10_001, 300, 5, in_file=True).tolist()),
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


TENSORS = ((1,), (9,), (12, 7), (7, 12), (3, 10, 12))


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", TENSORS)
@pytest.mark.parametrize(
    ("fast", "slow"),
    [
        (signs, slow_signs),
        (int8, slow_int8),
        *((partial(low_rank, rank=rank), partial(slow_low_rank, rank=rank)) for rank in (1, 2, 3, 5, 7)),
    ],
)
def test_each_equals_its_slow_twin_and_no_movement_stays_none(fast: Callable, slow: Callable, shape: tuple) -> None:
    movement = drawn(shape)
    (found, count), (expected, expected_count) = fast(movement), slow(movement.astype(np.float64))
    assert (found.dtype, found.shape, count, found) == (
        np.float32,
        shape,
        expected_count,
        pytest.approx(expected, rel=1e-4, abs=2e-5),
    )
    assert not np.array_equal(expected, movement) or np.array_equal(found, movement), "a full rank is exact"
    assert not fast(np.zeros(shape, dtype=np.float32))[0].any()


@pytest.mark.parametrize(("name", "compress"), COMPRESSIONS.items(), ids=COMPRESSIONS)
def test_a_flat_movement_is_approximated_tensor_by_tensor(name: str, compress: Callable) -> None:
    table = ParameterTable(tuple(Parameter(str(s), s, 0, "query", False) for s in TENSORS), "bert", True)
    found, count = compressed(np.concatenate([drawn(shape).ravel() for shape in TENSORS]), table, name)
    parts, sizes = zip(*(compress(drawn(shape)) for shape in TENSORS), strict=True)
    assert (found.tolist(), count) == (np.concatenate([part.ravel() for part in parts]).tolist(), sum(sizes))


def logits_of(margins: np.ndarray) -> np.ndarray:
    """Return logits [gain, n, 2] with these margins [gain, n]."""
    return np.stack([-margins / 2, margins / 2], axis=2)


def grafts(scores: np.ndarray, best: float) -> np.ndarray:
    """Return logits [gain, n, 2] of grafts whose margin is `scores` times a factor that is 1 at the gain `best`."""
    return logits_of(scores[None, :] * ((GAINS + 1) / (best + 1))[:, None] ** (1 / np.log(2)))


def calibrated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the margins of a calibrated model, and labels drawn from its probabilities."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 2, n)
    return scores, (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(np.int64)


@pytest.mark.nightly
def test_the_interval_covers_the_gain_of_the_population() -> None:
    drawn = [calibrated(300, seed) for seed in range(60)]
    fits = [gain_fit(grafts(scores, 4.0), labels) for scores, labels in drawn]
    assert 0.85 <= np.mean([fit.low <= 4.0 <= fit.high for fit in fits]) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_gains_by_kind_are_those_of_loops(seed: int) -> None:
    rng, kinds = np.random.default_rng(seed), ("query", "value", BIAS)
    parts = dict(zip(kinds, rng.normal(0, 0.2, (3, 60)) + [[0.1], [0.02], [-0.05]], strict=True))
    labels = rng.integers(0, 2, 60)

    def at(gains: Mapping[str, float]) -> np.ndarray:  # kinds disturb each other, so the order of steps counts
        moved = sum(gain * parts[kind] for kind, gain in gains.items())
        other = sum(gain * parts[kind][::-1] for kind, gain in gains.items())
        return logits_of(((2 * labels - 1) * np.tanh(moved) + 0.3 * np.sin(other) * other)[None, :])[0]

    def at_all(kind: str, gains: Mapping[str, float]) -> np.ndarray:
        return np.stack([at({**gains, kind: gain}) for gain in GAINS])

    found = {kind: fit.value for kind, fit in gain_fits(at_all, kinds, 3.0, labels, resamples=2).items()}
    twin, planted = (
        gains_by_kind(lambda gains: at(gains).tolist(), kinds, 3.0, labels.tolist(), SWEEPS, at_once)
        for at_once in (False, True)
    )
    assert found == pytest.approx(twin, rel=1e-6) and found != pytest.approx(planted, rel=1e-3)


MARGINS = np.where(np.random.default_rng(1).integers(0, 2, 100) == 1, 1, -1)
CALIBRATED = calibrated(4000, 0)
FUSED = graftable("gpt2", {"h.0.attn.c_attn.weight": (2, 6), "h.0.attn.c_attn.bias": (6,), "h.0.ln_1.weight": (2,)})
NAMED = ["query", "query", "key", "key", "value", "value"] * 2 + [BIAS] * 6 + ["LayerNorm"] * 2
test_gains_by_hand = by_hand(
    *((f"the fit is where the graft is calibrated, at {best}", (near(best, rel=0.2), True, True),
       lambda fit: (fit.value, fit.low < fit.value < fit.high, fit.is_bounded),
       gain_fit(grafts(CALIBRATED[0], best), CALIBRATED[1])) for best in (1.0, 3.0, 12.0)),
    ("movement that still helps has the gain at the range's end", (GAINS[-1], GAINS[-1], False),
     lambda fit: (fit.value, fit.low, fit.is_bounded),
     gain_fit(logits_of(0.02 * MARGINS[None, :] * (1 + GAINS[:, None])), (MARGINS + 1) // 2)),
    ("movement that only hurts has none", (0.0, 0.0, 0.0), lambda fit: (fit.value, fit.low, fit.high),
     gain_fit(logits_of(-0.2 * MARGINS[None, :] * GAINS[:, None]), (MARGINS + 1) // 2)),
    ("more bytes are nearer", True, lambda: bool((np.diff([
        np.linalg.norm(found - drawn((40, 60))) for found in (
            *(low_rank(drawn((40, 60)), rank)[0] for rank in (1, 2, 4, 8)), int8(drawn((40, 60)))[0])]) < 0).all())),
    # In a fused tensor an entry's column decides; a bias is a bias in all modules.
    *((f"entries {list(flat)} by kind",
       [(kind, [i for i, index in enumerate(flat) if NAMED[index] == kind]) for kind in (*KINDS, BIAS)
        if kind in [NAMED[index] for index in flat]],
       lambda flat=flat: [(kind, places.tolist()) for kind, places in FUSED.by_kind(np.array(flat, dtype=int)).items()])
      for flat in (range(20), (1, 3, 7, 11, 12, 19), (15,), ())),
    ("all kinds", set(NAMED), lambda: FUSED.kinds),
)  # fmt: skip


test_a_header_s_gain_is_a_number_or_one_by_kind = refused(
    CorruptFile,
    *(("it must be 0 or more", lambda gain=gain: gain_in({"gain": gain})) for gain in
      ("3", -1, True, float("nan"), {"key": "3"}, {"key": -1.0}, [3.0], None)),
)  # fmt: skip


test_bad_data_is_refused = refused(
    BadData,
    (f"{len(GAINS)} grafts; got 3", lambda: gain_fit(np.zeros((3, 4, 2)), np.zeros(4, dtype=np.int64))),
    *(
        (None, beyond_null, np.ones(8), nulls)
        for nulls in (np.zeros((0, 8)), np.zeros(8), np.zeros((2, 7)), np.full((2, 8), np.nan))
    ),
)
