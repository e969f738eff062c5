"""Tests of reliability and calibration error with its interval: by hand, slow twins, bin edges, planted errors; and of
whether confidence tells right from wrong: AUROC by all pairs, risk and coverage by all orders of ties."""

import math
from functools import partial
from operator import attrgetter

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import skillviz
from skillviz.core.calibration import (
    _bandwidth,
    _on_grid,
    _smoothed,
    confidence_histogram,
    reliability,
    smooth_error,
    smooth_reliability,
)
from skillviz.core.calibration_error import (
    Binned,
    bin_numbers,
    binned,
    calibration_difference,
    calibration_error,
    calibration_test,
    equal_width_edges,
    error_interval,
)
from skillviz.core.intervals import wilson
from skillviz.core.metrics import ece
from skillviz.core.scores import confidence, correct, probabilities
from skillviz.core.selective import POINTS, _risks, aurc_difference, risk_coverage
from skillviz.core.separation import FEWEST, auroc, auroc_difference
from skillviz.errors import BadData, BadInput
from skillviz.show import measures
from skillviz.tasks.project import PROJECT
from tests.core.by_hand import by_hand, near, refused
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import calibration as slow
from tests.reference import calibration_error as slow_interval
from tests.reference import intervals as slow_intervals


@PROPERTY
@given(predictions(), st.integers(1, 20))
def test_ece_equals_its_slow_twin(drawn: tuple, bins: int) -> None:
    found = [ece(*drawn, bins=bins, equal_mass=equal_mass) for equal_mass in (False, True)]
    assert found == near(slow.ece(*drawn, bins), slow.ece_equal_mass(*drawn, bins), rel=1e-9, abs=1e-12)


@PROPERTY
@given(predictions(), st.integers(1, 20), st.booleans())
def test_the_reliability_table_adds_up_to_the_ece(drawn: tuple, bins: int, equal_mass: bool) -> None:
    table = reliability(*drawn, bins=bins, equal_mass=equal_mass)
    assert list(table) == ["bin", "lower", "upper", "count", "confidence", "accuracy", "low", "high"]
    assert len(table) == bins and table["count"].sum() == len(drawn[1])
    gaps = (table["count"] * (table["confidence"] - table["accuracy"]).abs()).sum() / len(drawn[1])
    assert gaps == pytest.approx(ece(*drawn, bins=bins, equal_mass=equal_mass), abs=1e-12)
    used, empty = table[table["count"] > 0], table[table["count"] == 0]
    ordered = (("lower", "confidence"), ("confidence", "upper"), ("low", "accuracy"), ("accuracy", "high"))
    assert [(least, most) for least, most in ordered if (used[least] > used[most] + 1e-12).any()] == []
    assert empty[["confidence", "accuracy", "low", "high"]].isna().all(axis=None)


whole_of = attrgetter("value", "debiased", "low", "high")
SURE, RIGHT = (np.array([[1e3, 0.0], [0.0, 1e3], [1e3, 0.0]]), np.array([0, 1, 0]))
SIX = (logits_of([0.6, 0.6, 0.6, 0.6, 0.95, 0.95]), np.array([0, 0, 1, 1, 0, 0]))  # right: 2 of 4 and 2 of 2


def counts(sure: list[float], bins: int) -> list[int]:
    """Return the counts of bins of equal mass, the largest first."""
    return sorted(
        reliability(logits_of(sure), np.zeros(len(sure), dtype=int), bins=bins, equal_mass=True)["count"],
        reverse=True,
    )


RELPLOT = pd.read_csv(PROJECT / "tests/reference/relplot.csv", comment="#").fillna("")


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidences and outcomes on which relplot was run with this seed."""
    random = np.random.default_rng(seed)
    n, (a, b, power) = int(random.integers(60, 2500)), random.uniform([1, 0.8, 0.7], [8, 3, 2])
    share = random.beta(a, b, n)
    sure = (0.99 if seed % 2 else 1.0) * (0.5 + 0.5 * share if seed % 3 else share)
    return sure, random.random(n) < sure**power


def stored(run: str, state: str) -> tuple[np.ndarray, np.ndarray]:
    of = skillviz.open_run(str(PROJECT / "cached_runs" / run))
    logits, labels = measures.state_logits(of.predictions(), of.record, "test", (state,))
    return confidence(probabilities(logits[state])), correct(logits[state], labels)


@pytest.mark.parametrize("row", RELPLOT.to_dict("records"), ids=lambda row: f"{row['sample']} {row['state']}".strip())
def test_it_equals_relplot_which_halves_confidences_near_1(row: dict) -> None:
    sure, right = stored(row["sample"], row["state"]) if row["state"] else drawn(int(row["sample"]))
    value = _bandwidth(_on_grid(sure, sure - right) / len(sure))
    # 1 / 1024 is the last step of relplot's search for the bandwidth.
    assert abs(value - row["exact"]) < 1e-5
    assert abs(value - row["published"]) < 1 / 1024 or (sure > 0.999).mean() > 0.5


def test_an_interval_reaches_zero_for_a_calibrated_model_alone_and_needs_ten_examples() -> None:
    logits, labels = model(2000)
    fit, over = smooth_error(logits, labels), smooth_error(2.5 * logits, labels)
    few, certain = (smooth_error(logits_of([0.999] * n), np.zeros(n, dtype=int)) for n in (9, 100))
    assert fit.low == 0 < fit.value < 0.03 and fit.high < 0.05 and over.low > 0.03
    assert np.isnan(few.low) and certain.high > 0.02, "100 hits allow some errors"


def model(n: int, classes: int = 2, heat: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits [n, classes] and labels: calibrated at heat 1, overconfident above."""
    random = np.random.default_rng(seed)
    logits = 2 * random.normal(size=(n, classes))
    return heat * logits, (random.random((n, 1)) > probabilities(logits).cumsum(axis=1)[:, :-1]).sum(axis=1)


@pytest.mark.nightly
@pytest.mark.parametrize("bins", [1, 4, 15])
@PROPERTY
@given(drawn=predictions())
def test_the_plug_in_is_the_ece_to_the_last_bit(drawn: tuple, bins: int) -> None:
    logits, labels = np.concatenate([drawn[0]] * 10), np.concatenate([drawn[1]] * 10)
    assert calibration_error(logits, labels, bins).value == ece(logits, labels, bins)


@pytest.mark.cases(9, 9)
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("n", [30, 300, 1200])
@pytest.mark.parametrize("heat", [0.5, 1.0, 2.5])
def test_the_interval_equals_its_slow_twin(classes: int, n: int, heat: float) -> None:
    """The twin bisects to the end; fourteen steps and a linear one come within a thousandth of the interval's width."""
    logits, labels = model(n, classes, heat, seed=n)
    sure, right = confidence(probabilities(logits)), correct(logits, labels)
    for bins in (15, 7, 1):
        found, edges = calibration_error(logits, labels, bins), equal_width_edges(bins)
        wanted = slow_interval.interval(sure, right, edges)
        assert (found.debiased, found.low, found.high) == pytest.approx(wanted, abs=2e-3 * (wanted[2] - wanted[1]))
        gaps = [math.fsum(c - r for c, r in part) for part in slow_interval.bins_of(sure, right, edges)]
        assert found.value == pytest.approx(math.fsum(map(abs, gaps)) / n, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("n", "heat"), [(40, 1.0), (300, 1.3), (900, 4.0)])
def test_ends_are_in_order_and_differences_turn_round(n: int, heat: float) -> None:
    logits, labels = model(n, 3, heat, seed=n)
    other = logits * 0.4 + np.random.default_rng(1).normal(size=logits.shape) * 0.3
    one = calibration_error(logits, labels)
    assert 0 <= one.low <= one.debiased <= one.high <= 1 and (one.n, one.bins) == (n, 15)
    there, back = (calibration_difference(*both, labels) for both in ((logits, other), (other, logits)))
    assert there.low <= there.debiased <= there.high
    assert [there.value, there.debiased, there.low] == pytest.approx(
        [-back.value, -back.debiased, -back.high], abs=1e-12
    )
    assert whole_of(calibration_difference(logits, logits, labels)) == (0, 0, 0, 0)


@pytest.mark.parametrize("n", [100, 2000])
def test_models_that_predict_nearly_alike_are_nearly_equal(n: int) -> None:
    """The models differ only by rounding: no gap can differ by more than the effect of a few examples."""
    logits, labels = model(n, 3)
    found = calibration_difference(logits, logits + 0.1, labels)
    assert max(-found.low, found.high) <= 4 / n + 1e-9 and found.value == pytest.approx(0, abs=1e-12)


def test_a_difference_is_that_of_its_models_and_pairing_helps() -> None:
    logits, labels = model(1500, 2, 3.0)
    there = calibration_difference(logits, logits * 0.9, labels)
    one, near = (calibration_error(z, labels) for z in (logits, logits * 0.9))
    assert there.value == pytest.approx(one.value - near.value, abs=1e-12)
    assert there.debiased - there.low < 0.7 * math.hypot(one.debiased - one.low, near.high - near.debiased)


def test_it_does_not_depend_on_the_order_of_examples_or_classes() -> None:
    logits, labels = model(200, 3, 2.0)
    order = np.random.default_rng(0).permutation(200)
    cases = ((logits, labels), (logits[order], labels[order]), (logits[:, ::-1], 2 - labels))
    wanted, *others = (whole_of(calibration_error(z, y)) for z, y in cases)
    assert others == [pytest.approx(wanted, rel=1e-6)] * 2


def test_samples_are_solved_together_as_alone() -> None:
    drawn = [model(250, 2, 1.5, seed) for seed in range(5)]
    parts = [binned(confidence(probabilities(z)), correct(z, y), equal_width_edges(15)) for z, y in drawn]
    together = error_interval(Binned(*(np.stack(column) for column in zip(*parts, strict=True))))
    np.testing.assert_allclose(np.stack(together, axis=1), [error_interval(part) for part in parts], rtol=1e-9)


def coverage(heat: float, repetitions: int = 300, n: int = 300) -> tuple[float, float, float]:
    """Return the share of intervals that hold the truth, the mean debiased error and the mean plug-in error.

    There are two classes, and the labels are redrawn.
    """
    random, edges = np.random.default_rng(7), equal_width_edges(15)
    sure = np.sort(random.uniform(0.5, 1, 2000))
    chance = np.clip(sure - heat, 0, 1)
    true = np.abs(np.bincount(np.searchsorted(edges, sure) - 1, weights=sure - chance)).sum() / 2000
    drawn = random.integers(0, 2000, (repetitions, n))
    found = [
        error_interval(binned(sure[d], r, edges))
        for d, r in zip(drawn, random.random(drawn.shape) < chance[drawn], strict=True)
    ]
    each = [(e.low <= true + 1e-12 and true <= e.high, e.debiased - true, e.value - true) for e in found]
    return tuple(np.mean(each, axis=0))


@pytest.mark.nightly
@pytest.mark.parametrize("heat", [0.0, 0.03, 0.12])
def test_the_interval_covers(heat: float) -> None:
    """With 300 samples, a coverage of 95% is estimated below 92% in one of 100 cases; the seed is fixed."""
    holds, debiased, plug_in = coverage(heat)
    assert holds >= 0.93
    assert abs(debiased) < max(0.4 * plug_in, 0.014), "less biased than the plug-in, where that is biased at all"


@pytest.mark.nightly
def test_a_planted_error_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the folding term, the interval is above the truth, like the bootstrap's."""
    assert coverage(0.0)[0] >= 0.93
    monkeypatch.setattr("skillviz.core.calibration_error._Solved._fold", lambda self, gaps, *rest: np.zeros_like(gaps))
    assert coverage(0.0)[0] < 0.5


@pytest.mark.slow
def test_the_test_has_its_size_and_power() -> None:
    found = [calibration_test(*model(150, seed=s), draws=99, seed=s).p_value <= 0.05 for s in range(400)]
    assert 0.02 < np.mean(found) < 0.085  # 5% of 400, three standard errors
    assert calibration_test(*model(600, heat=2.0)).p_value < 0.01
    again = [calibration_test(*model(150), seed=3) for _ in range(2)]
    assert again[0] == again[1] and again[0].statistic == pytest.approx(slow.ece(*model(150), 15), rel=1e-9)


Z, Y = model(50)
P, RAGGED = probabilities(Z), [[1, 2], [3]] * 10


def third(*row: float) -> np.ndarray:
    return np.where(np.arange(len(Z))[:, None] == 3, row, np.column_stack([Z, np.zeros(50)])[:, : len(row)])


HOT, MASKED = model(50, heat=2.0)[0], np.full(50, -np.inf)


test_what_cannot_be_used_is_refused = refused(
    BadInput,
    ("one label for each", lambda: calibration_error(Z, Y[:-1])),
    ("number of bins", lambda: calibration_error(Z, Y, bins=0)),
    ("logits_b has 49 predictions, and labels has 50", lambda: calibration_difference(Z, Z[:-1], Y)),
    ("logits_a has 49 predictions, and labels has 50", lambda: calibration_difference(Z[:-1], Z, Y)),
    ("at least 19", lambda: calibration_test(Z, Y, draws=5)),
    ("whole number from 0; got -1", lambda: calibration_test(Z, Y, seed=-1)),
    ("logits must be an array of numbers", lambda: calibration_error(RAGGED, [0, 1] * 10)),
    ("logits_b must be an array of numbers", lambda: calibration_difference(Z, RAGGED, Y)),
    ("logits must be real numbers; got complex128", lambda: calibration_error(Z + 1j, Y)),
    ("labels are needed", lambda: calibration_error(Z, None)),
    ("logits is an array with masked", lambda: calibration_error(np.ma.masked_equal(Z, Z[0, 0]), Y)),
    ("labels is an array with masked", lambda: calibration_error(Z, np.ma.masked_equal(Y, 1))),
    (r"x\.detach\(\)\.float", lambda: calibration_error(torch.tensor(Z, requires_grad=True), Y)),
    ("BFloat16.* give x", lambda: calibration_error(torch.tensor(Z).bfloat16(), Y)),
    ("labels cannot be read by NumPy", lambda: calibration_error(Z, torch.tensor(Y).bfloat16())),
    ("are probabilities", lambda: calibration_error(torch.tensor(P).bfloat16().float().numpy(), Y)),
    ("are probabilities", lambda: calibration_error(P.round(2), Y)),
    ("logits are probabilities: every row", lambda: calibration_error(P, Y)),
    ("logits_b are probabilities", lambda: calibration_difference(Z, P, Y)),
    ("one shape, those of the same classes", lambda: calibration_difference(np.eye(3)[Y], Z, Y)),
    *(
        ("from 1 to 1000", partial(table, np.zeros((2, 2)), np.array([0, 1]), bins=bins))
        for table in (ece, reliability, partial(ece, equal_mass=True), confidence_histogram)
        for bins in (0, -1, 1.5, True, 1001)
    ),
)


def test_a_difference_leaves_out_half_of_an_error_that_may_be_zero() -> None:
    """Only where the error's own interval reaches 0."""
    halved = 0
    for seed in range(30):
        logits, labels = model(1000, 3, 1.0, seed)
        calibrated, off, far = (calibration_error(heat * logits, labels) for heat in (1, 4, 8))
        halves = calibrated.low == 0 < calibrated.debiased
        wanted = {(4, 8): off.debiased - far.debiased} | (
            {(1, 4): calibrated.debiased / 2 - off.debiased} if halves else {}
        )
        found = {(a, b): calibration_difference(a * logits, b * logits, labels).debiased for a, b in wanted}
        assert found == pytest.approx(wanted, abs=1e-9) and min(off.low, far.low) > 0.05, seed
        halved += halves
    assert halved


NORMAL = 1.959963984540054


def two_groups(seed: int, n: int, m: int, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return two groups of confidences, the first larger on average."""
    random = np.random.default_rng(seed)
    inside, outside = random.beta(4, 1.5, n), random.beta(2, 2, m)
    return (inside.round(1), outside.round(1)) if ties else (inside, outside)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "m"), [(10, 10), (37, 12), (60, 81)])
def test_value_and_ends_are_those_of_all_pairs(n: int, m: int, ties: bool) -> None:
    groups = two_groups(n, n, m, ties)
    fast, value, variance = auroc(*groups), slow.auroc(*groups), slow.covariance(groups, groups)
    sd = math.sqrt(variance)
    logit, reach = math.log(value / (1 - value)), NORMAL * sd / (value * (1 - value))
    assert (fast.value, fast.low, fast.high) == pytest.approx(
        [value, *[1 / (1 + math.exp(-end)) for end in (logit - reach, logit + reach)]], rel=1e-10
    )
    assert abs(sd - math.sqrt(variance / 2)) > 1e-3, "a variance of half the size would be seen"


@pytest.mark.parametrize("ties", [False, True])
def test_a_difference_takes_what_both_models_share_off(ties: bool) -> None:
    one, random = two_groups(1, 50, 40, ties), np.random.default_rng(5)
    other = tuple(part + 0.1 * random.standard_normal(len(part)) for part in one)
    fast, value = auroc_difference(*one, *other), slow.auroc(*one) - slow.auroc(*other)
    unpaired = slow.covariance(one, one) + slow.covariance(other, other)
    variance = unpaired - 2 * slow.covariance(one, other)
    half = NORMAL * math.sqrt(variance)
    assert (fast.value, fast.low, fast.high) == pytest.approx((value, value - half, value + half), rel=1e-9, abs=1e-12)
    assert unpaired > 1.5 * variance, "without the covariance it would be wider"


FAR, NEAR, NAN = np.arange(20) + 100.0, np.arange(20), math.nan
GROUPS = two_groups(3, 30, 30, False)


DRAW = np.random.default_rng(4)
KERNELS = (DRAW.uniform(0.4, 1, 25), DRAW.random(25) < 0.5)
CELLS = _on_grid(KERNELS[0], KERNELS[0] - KERNELS[1]) / 25
MEASURED = (
    pd.read_csv(PROJECT / "benchmarks/results/coverage_other.csv")
    .query("quantity.str.startswith('AUROC')")["coverage"]
)  # fmt: skip
OVERSURE = (logits_of([0.8] * 400), np.repeat([0, 1], [280, 120]))
ONE_BIN = calibration_error(*OVERSURE)
TIES = risk_coverage(logits_of([0.9, 0.8, 0.8, 0.6]), np.array([0, 1, 0, 1]))
CURVE = smooth_reliability(logits_of([0.9] * 50), np.repeat([0, 1], [30, 20]), 0.05)
test_by_hand = by_hand(
    *((f"AUROC {value}", value, lambda pair=pair: auroc(*pair).value) for *pair, value in
      (([3, 4], [1, 2], 1.0), ([1, 2], [3, 4], 0.0), ([1, 1], [1, 1, 1], 0.5), ([2, 4], [1, 3], 0.75))),
    ("apart", near(1, NAN, NAN), lambda: auroc(FAR, NEAR)[:3]),
    ("few", near(14.5 / 30, NAN, NAN), lambda: auroc(np.arange(FEWEST - 1), np.arange(30) - 10.0)[:3]),
    ("the same", (0, 0, 0), lambda: auroc_difference(*GROUPS, *GROUPS)[:3]),
    ("halved, in the same order", (0, 0, 0), lambda: auroc_difference(*GROUPS, *(part / 2 for part in GROUPS))[:3]),
    ("always", near(1, NAN, NAN), lambda: auroc_difference(FAR, NEAR, NEAR, FAR)[:3]),
    ("the docs name the lowest coverage that was measured", (True, True), lambda: (
        f"(lowest coverage of {len(MEASURED)} cells: {100 * MEASURED.min():.1f}%)"
        in (PROJECT / "docs/statistics.md").read_text(), MEASURED.min() >= 0.93)),
    *((f"the error is that of kernels of width {width} written out",
       near(np.abs(_smoothed(CELLS, width)).sum(), rel=2e-4), slow.error_at, *KERNELS, width)
      for width in (0.03, 0.15, 0.6)),
    ("the bandwidth is the error at it", near(_bandwidth(CELLS), rel=2e-4), slow.error_at, *KERNELS, _bandwidth(CELLS)),
    # 400 examples of confidence 0.8, 280 right: the gap is 10 points; Wilson's score is nearly normal far from 0.
    ("one bin", near(0.1), lambda: ONE_BIN.value),
    ("one bin, debiased", near(0.1, abs=1e-4), lambda: ONE_BIN.debiased),
    ("the interval of one bin", near(*(
        2.1 * math.sqrt((0.8 - end) * (0.2 + end) / 400) for end in (ONE_BIN.low, ONE_BIN.high)), abs=5e-4),
     lambda: (0.1 - ONE_BIN.low, ONE_BIN.high - 0.1)),
    ("the test of one bin", 0.001, lambda: calibration_test(*OVERSURE).p_value),
    ("the error of a perfect model, in 300 as Wilson's", (0, 0, 0, near(2.1**2 / (300 + 2.1**2), rel=1e-2)),
     lambda: whole_of(calibration_error(logits_of([1.0] * 300), np.full(300, 0)))),
    ("the error of a hopeless one", (near(1), near(1), near(1), True),
     lambda of: (of.value, of.debiased, of.high, of.low > 0.97),
     calibration_error(logits_of([1.0] * 300), np.full(300, 1))),
    ("risk by coverage: a tie counts half", near(np.array([[0.25, 0.5, 0.75, 1], [0, 0.25, 1 / 3, 0.5]])),
     lambda: TIES.curve[["coverage", "risk"]].to_numpy().T),
    ("the stored order of ties would be seen", True,
     lambda: abs(TIES.aurc.value - np.mean([0, 1 / 2, 1 / 3, 1 / 2])) > 0.05),
    ("no error gives a band but no interval of the area", (True, 0, near(NAN)),
     lambda of: (of.curve["high"].iloc[0] > 0.5, of.aurc.value, of.aurc.low),
     risk_coverage(logits_of([0.9] * 20), np.zeros(20, dtype=int))),
    # The distance from the diagonal is the averaged gap.
    ("a curve", True, lambda: np.allclose(CURVE[["confidence", "accuracy"]], [0.9, 0.6], atol=1e-3)),
    ("a band", near(*wilson(30, 50), 50, rel=1e-3, abs=1e-8),
     lambda: CURVE.loc[CURVE["n"].idxmax(), ["low", "high", "n"]].astype(float).tolist()),
    ("perfect", 0, ece, SURE, RIGHT),
    ("perfect, equal mass", 0, partial(ece, equal_mass=True), SURE, RIGHT),
    ("all wrong", 1, ece, SURE, 1 - RIGHT),
    ("two bins", near((4 * 0.1 + 2 * 0.05) / 6, rel=1e-9), partial(ece, bins=10), *SIX),
    ("a row", near(0.5, 0.6, 4, 0.5, *slow_intervals.wilson(2, 4), rel=1e-9),
     lambda: reliability(*SIX, bins=10).query("count > 0").iloc[0][
         ["lower", "upper", "count", "accuracy", "low", "high"]].tolist()),
    ("an edge belongs to the bin below", [0, 1, 2, 3, 1],
     lambda: bin_numbers(np.array([0.25, 0.5, 0.75, 1.0, 0.3]), equal_width_edges(4)).tolist()),
    ("one on an edge is apart from one above", near((0.5 + 1 - slow.softmax([0.3, 0.0])[0]) / 2, rel=1e-12),
     partial(ece, bins=2), np.array([[0.0, 0.0], [0.3, 0.0]]), np.array([1, 0])),
    ("edges are the nearest floats", [k / 15 for k in range(16)], lambda: equal_width_edges(15).tolist()),
    ("on such edges", [2, 8, 11],
     lambda: bin_numbers(np.array([0.2, 0.6, 0.8]), equal_width_edges(15)).tolist()),
    ("equal counts", [2] * 15, counts, list(np.linspace(0.51, 0.99, 30)), 15),
    ("ties stay together", [9, 1, 0, 0, 0], counts, [0.7] * 9 + [0.9], 5),
    ("a histogram starts at chance", [[0.5, 0.75, 2, 0.5, 2], [0.75, 1.0, 2, 0.5, 1]],
     lambda *four: confidence_histogram(*four, bins=2)[["lower", "upper", "count", "share", "correct"]].values.tolist(),
     np.array([[0.0, 0.0], [1e3, 0.0], [0.0, 1e3], [0.0, 1.0]]), np.array([0, 0, 0, 1])),
    ("a masked class", calibration_error(Z, Y), lambda: calibration_error(np.column_stack([Z, MASKED]), Y)),
    ("a third class counts", False,
     lambda: calibration_error(np.column_stack([Z, np.zeros(50)]), Y) == calibration_error(Z, Y)),
    ("a masked class in a difference", calibration_difference(Z, HOT, Y),
     lambda: calibration_difference(*(np.column_stack([z, MASKED]) for z in (Z, HOT)), Y)),
    ("a masked class in a test", calibration_test(Z, Y), lambda: calibration_test(np.column_stack([Z, MASKED]), Y)),
    *((f"labels as {kind.__name__}", calibration_error(Z, Y), calibration_error, Z, Y.astype(kind))
      for kind in (bool, float)),
    *((f"labels of a difference as {kind.__name__}", calibration_difference(Z, -Z, Y), calibration_difference, Z, -Z,
       Y.astype(kind)) for kind in (bool, float)),
    ("log-probabilities", near(calibration_error(Z, Y).high), lambda: calibration_error(np.log(P), Y).high),
    ("rows of 0 and 1 may be logits", True, lambda: calibration_error(np.eye(2)[Y], Y).value > 0),
)  # fmt: skip


test_bad_data_is_refused = refused(
    BadData,
    ("at least one value", lambda: auroc([], [0.1, 0.2])),
    ("at least one value", lambda: auroc([math.nan] * 12, [0.1, 0.2])),
    ("the same examples", lambda: auroc_difference([0.1], [0.2], [0.1, 0.3], [0.2])),
    ("at least 10 examples; got 9", lambda: calibration_error(Z[:9], Y[:9])),
    ("example 3 are not finite", lambda: calibration_error(third(0, np.nan), Y)),
    ("logits_b of example 3 are not finite", lambda: calibration_difference(Z, third(0, np.nan), Y)),
    ("must be 0..1", lambda: calibration_error(Z, Y + 1)),
    ("example 3 are -inf; at least one", lambda: calibration_error(third(*[-np.inf] * 3), Y)),
    ("example 3 are not finite.*overflowed", lambda: calibration_error(third(-np.inf, np.inf, 0.0), Y)),
)


@pytest.mark.parametrize("n", range(1, 8))
def test_risks_are_means_over_all_orders_of_ties_also_those_of_a_resample(n: int) -> None:
    random = np.random.default_rng(n)
    for times in (np.ones(n, dtype=int), *random.multinomial(n, [1 / n] * n, 4)):
        logits, labels = random.integers(0, 3, (n, 3)).astype(float), random.integers(0, 3, n)
        (found,) = _risks(logits, labels, np.arange(1, n + 1))(times[None].astype(float))
        z, y = (np.repeat(part, times, axis=0) for part in (logits, labels))
        wanted = slow.risks(list(confidence(probabilities(z))), list(~correct(z, y)))
        assert found.tolist() == pytest.approx([np.mean(wanted), *wanted], abs=1e-12)


def test_a_difference_is_paired() -> None:
    random = np.random.default_rng(0)
    one = random.normal(0, 2, (250, 3))
    labels = np.where(random.random(250) < probabilities(one).max(1), one.argmax(1), random.integers(0, 3, 250))
    a, b = (risk_coverage(z, labels) for z in (one, one + random.normal(0, 0.8, one.shape)))
    less, apart = aurc_difference(a, b), np.hypot(*(of.aurc.high - of.aurc.low for of in (a, b)))
    assert less.low < less.value == a.aurc.value - b.aurc.value < less.high and len(a.curve) == POINTS
    assert less.high - less.low < 0.8 * apart, "without pairing it would be wider"
    assert aurc_difference(a, a)[:3] == (0, 0, 0)
