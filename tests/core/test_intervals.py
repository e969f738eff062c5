"""Tests of intervals, also over few seeds: slow twins on the same resamples, coverage, vectorized form, exact ends."""

import math
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skillviz.core import intervals, metrics, scores
from skillviz.core.calibration_error import calibration_difference, calibration_error
from skillviz.core.seeds_interval import mean_of_intervals, seeds_and_examples
from skillviz.errors import BadData, BadInput
from tests.core.by_hand import by_hand, near, refused
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import intervals as slow_intervals
from tests.reference.calibration import TWINS

# Metrics of generated texts have scores of another shape: tests/core/test_generation.py
OF_CLASSES = [name for name in metrics.SCORED if not metrics.METRICS[name].of_text]
NAN = math.nan


def some(n: int = 60, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two models' logits and the labels; the second model is better. Values are rounded, so that some tie."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    weak, strong = (np.eye(classes)[labels] * s + random.normal(size=(n, classes)) for s in (0.5, 2.0))
    return weak.round(1), strong.round(1), labels


@pytest.mark.cases(3, 4)
@pytest.mark.parametrize("metric", OF_CLASSES)
@PROPERTY
@given(drawn=predictions())
def test_every_metric_of_every_resample_equals_its_slow_twin(metric: str, drawn: tuple) -> None:
    logits, labels = scores.checked_logits(*drawn)
    weights = next(intervals.draws(len(labels), 5, seed=len(labels)))
    expected = slow_intervals.resampled(TWINS[metric], weights, logits, labels)
    if metric == "f1" and set(labels == 1) != {True, False}:  # F1 of one class is undefined
        expected = np.full(len(weights), np.nan)
    np.testing.assert_allclose(metrics.statistic(metric, logits, labels)(weights), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", OF_CLASSES)
def test_bootstrap_and_paired_bootstrap_equal_slow_ones(metric: str) -> None:
    a, b, labels = some(30)
    weights, twin = np.concatenate(list(intervals.draws(30, 40, seed=5))), TWINS[metric]
    slow_a, slow_b = (np.array(slow_intervals.resampled(twin, weights, z, labels)) for z in (a, b))
    value, low, high = slow_intervals.interval(twin(a, labels) - twin(b, labels), slow_a - slow_b)
    there, back = (intervals.paired_bootstrap(*z, labels, metric, 40, seed=5)[:3] for z in ((a, b), (b, a)))
    assert [*intervals.bootstrap(a, labels, metric, 40, seed=5)[:3], *there, *back] == pytest.approx(
        [*slow_intervals.interval(twin(a, labels), slow_a), value, low, high, -value, -high, -low], rel=1e-9, abs=1e-12
    )
    assert back != pytest.approx((value, low, high), rel=1e-2), "an error of sign would pass"
    assert intervals.paired_bootstrap(a, a, labels, metric, 40)[:3] == (0, 0, 0)


def test_many_differences_to_one_baseline_are_those_of_each_pair() -> None:
    a, b, labels = some(40)
    others, names = (b, a[::-1].copy(), a), ("accuracy", "ece", "nll")
    found = intervals.paired_differences(a, others, labels, names, 60, seed=3)
    for other, row in zip(others, found, strict=True):
        base, right = (z.argmax(axis=1) == labels for z in (a, other))
        assert list(row) == list(names) and row["ece"] == intervals.metric_difference(other, a, labels, "ece")
        assert [*row["accuracy"], *row["nll"]] == near(
            *intervals.accuracy_difference(other, a, labels)[:4], (right & ~base).sum(), (base & ~right).sum(),
            *intervals.paired_bootstrap(other, a, labels, "nll", 60, seed=3), rel=1e-9, abs=1e-12,
        )  # fmt: skip
    assert found[0]["nll"] != found[1]["nll"]
    assert (*found[2]["nll"][:3], *found[2]["ece"][:4]) == (0,) * 7
    assert intervals.paired_differences(a, [], labels, names) == []


@pytest.mark.parametrize("metric", OF_CLASSES)
def test_each_metric_has_the_interval_that_its_row_names(metric: str) -> None:
    weak, strong, labels = some(120)
    kind, of_one, of_two = metrics.METRICS[metric].interval, intervals.metric_interval, intervals.metric_difference
    found, less = of_one(weak, labels, metric), of_two(weak, strong, labels, metric)
    value, other = (metrics.score(z, labels)[metric] for z in (weak, strong))
    assert (found.value, less.value) == pytest.approx((value, value - other), abs=1e-12)
    if kind == "calibration":
        wholes = (calibration_error(weak, labels), calibration_difference(weak, strong, labels))
        assert [found[:4], less[:4]] == [(of.value, of.low, of.high, of.debiased) for of in wholes]
        assert found.low <= found.debiased <= found.high and less.low <= less.debiased <= less.high
        few = [of_one(weak[:9], labels[:9], metric), of_two(weak[:9], strong[:9], labels[:9], metric)]
        assert np.isfinite(few[0].value) and np.isnan([one[1:] for one in few]).all()
    elif kind == "none":
        assert np.isnan([found[1:], less[1:]]).all()
    else:
        ends = intervals.bootstrap(weak, labels, metric)[1:3]
        assert found[1:3] == pytest.approx(intervals.wilson(found.value * 120, 120) if kind == "wilson" else ends)
        drawn = (
            intervals.accuracy_difference(weak, strong, labels)
            if metric == "accuracy"
            else intervals.paired_bootstrap(weak, strong, labels, metric)
        )
        assert less[:3] == drawn[:3] or (metric == "f1" and less.low <= drawn.low < drawn.high <= less.high)
        assert np.isnan([found.debiased, less.debiased]).all()


def test_resamples_depend_on_the_seed_alone_not_on_the_blocks() -> None:
    whole, blocks = (list(intervals.draws(7, 23, seed=1, **cells)) for cells in ({}, {"cells": 7 * 4}))
    drawn = np.concatenate(whole)
    assert drawn.shape == (23, 7) and (drawn.sum(axis=1) == 7).all() and drawn.dtype == np.float64
    assert [len(b) for b in blocks] == [4, 4, 4, 4, 4, 3] and np.array_equal(np.concatenate(blocks), drawn)
    assert not np.array_equal(np.concatenate(list(intervals.draws(7, 23, seed=2))), drawn)


@PROPERTY
@given(predictions(classes=2), st.sampled_from(OF_CLASSES))
def test_an_interval_holds_its_estimate(drawn: tuple, metric: str) -> None:
    value, low, high = intervals.bootstrap(*drawn, metric, resamples=20)[:3]
    assert low <= value <= high or math.isnan(value) or (math.isnan(low) and math.isnan(high))


def test_the_interval_of_a_gain_is_paired() -> None:
    """With three nested models, reordering the graft's answers (as if on other examples) widens the interval."""
    hard, labels = np.random.default_rng(0).random(400), np.zeros(400, dtype=np.int64)
    grafted, *others = (logits_of(np.where(hard < share, 0.9, 0.1)) for share in (0.8, 0.5, 0.9))
    found, apart = (
        intervals.recovered_gain(graft, *others, labels, resamples=400)
        for graft in (grafted, grafted[np.random.default_rng(1).permutation(400)])
    )
    assert apart.value == pytest.approx(found.value) and found.low < found.value < found.high
    assert apart.high - apart.low > 1.2 * (found.high - found.low)


@PROPERTY
@given(st.integers(1, 400), st.floats(0, 1))
def test_wilson_equals_its_slow_twin(n: int, share: float) -> None:
    successes = round(share * n)
    low, high = intervals.wilson(successes, n)
    assert (low, high) == pytest.approx(slow_intervals.wilson(successes, n), rel=1e-6, abs=1e-9)
    assert 0 <= low <= successes / n <= high <= 1


@pytest.mark.nightly
@PROPERTY
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 300))
def test_tango_equals_its_slow_twin(only_a: int, only_b: int, both: int) -> None:
    n = only_a + only_b + both + 1
    low, high = intervals.tango(only_a, only_b, n)
    assert -1 <= low <= (only_a - only_b) / n <= high <= 1 and low < high
    assert (low, high) == pytest.approx(slow_intervals.tango(only_a, only_b, n), abs=1e-6)
    assert intervals.tango(only_b, only_a, n) == pytest.approx((-high, -low), abs=1e-9)
    assert (low, high) != pytest.approx(slow_intervals.tango(only_a + 1, only_b, n), abs=1e-6), "a planted error"


@pytest.mark.parametrize("differ", [1, 2, 3, 5, 12])
def test_the_paired_interval_covers_where_few_predictions_differ(differ: int) -> None:
    """4,000 samples of 300: one standard error is 0.3%; the percentile bootstrap covers 50 to 92%."""
    random, n, true = np.random.default_rng(differ), 300, 0.4 * differ / 300
    counts = random.multinomial(n, [0.7 * differ / n, 0.3 * differ / n, 1 - differ / n], 4000)
    low, high = intervals.tango(counts[:, 0], counts[:, 1], n)
    assert np.mean((low <= true) & (true <= high)) >= 0.935
    low, high = np.quantile(
        [random.multinomial(n, row / n, 400) @ [1 / n, -1 / n, 0] for row in counts[:300]], [0.025, 0.975], axis=1
    )
    assert differ > 3 or ((low <= true) & (true <= high)).mean() < 0.92, "the interval from before would fail"


def test_models_that_hardly_differ_leave_some_difference_open() -> None:
    """This includes F1 and the share of the gain: a resample without differences would exclude all other values."""
    random, n = np.random.default_rng(0), 400
    labels = random.integers(0, 2, n)
    predicted = np.where(random.random(n) < 0.85, labels, 1 - labels)
    a, b = np.eye(2)[predicted], np.eye(2)[np.where(np.arange(n) < 2, 1 - predicted, predicted)]
    for metric in ("accuracy", "f1"):
        itself, same, less = (intervals.metric_difference(a, z, labels, metric) for z in (a, 2 * a, b))
        assert itself[:3] == intervals.paired_bootstrap(a, 2 * a, labels, metric)[:3] == (0, 0, 0), "the same model"
        assert same.low < -0.005 and same.high > 0.005 and same.value == 0 and less.high - less.low > 0.02
    share = intervals.recovered_gain(2 * a, np.eye(2)[np.where(random.random(n) < 0.6, labels, 1 - labels)], a, labels)
    assert share.value == 1 and share.low < 0.98 and share.high > 1.02


def test_two_thousand_resamples_of_two_thousand_examples_take_no_loop() -> None:
    """A loop over resamples would call the statistic 2,000 times; blocks call it once for 2,000 rows."""
    counted = Mock(side_effect=lambda weights: weights.sum(axis=1))
    (values,) = intervals.resampled_values([counted], 2000, 2000, seed=0)
    assert len(values) == 2000 and [call.args[0].shape for call in counted.mock_calls] == [(2000, 2000)]


@pytest.mark.nightly
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 30.0])
def test_the_interval_over_seeds_and_examples_covers(seeds: int, spread: float) -> None:
    """Normal seeds and examples; half of the examples' noise is separate for each seed. 4,000 draws: 0.4% of error."""
    random, own = np.random.default_rng(3), 0.5 * seeds
    luck = random.normal(size=(4000, seeds)) * math.sqrt(spread * seeds + own)
    luck += random.normal(size=(4000, 1)) * 0.5**0.5
    found = [seeds_and_examples(x, 1.0) for x in luck]
    assert 0.935 <= np.mean([abs(one.value) <= one.high - one.value for one in found]) <= 0.995
    assert spread < 1 or np.mean([abs(x.mean()) <= 1.96 for x in luck]) < 0.9, "without the seeds' part it would not"


A, B, Y = some(10)
WEAK, STRONG, LABELS = some(300)
Z, PAIR = stats.norm.ppf(0.975), np.array([0, 3])
NONE, HALF = 1.959963984540054**2 / (600 + 1.959963984540054**2), 4.302653 / math.sqrt(3)
SEEDS, VALUES = [0.8, 0.82, 0.87], np.array([0.02, 0.03, 0.04])


def share_of_gain(graft: np.ndarray, finetuned: np.ndarray = STRONG) -> tuple[float, ...]:
    return intervals.recovered_gain(graft, WEAK, finetuned, LABELS, resamples=200)[:3]


def by_formula(values: list[float], sd: float) -> tuple[float, float]:
    """Return the ends of the interval over so many seeds and examples, with its degrees of freedom."""
    mean, n, seeds = np.mean(values), len(values), np.var(values, ddof=1) / len(values)
    half = stats.t.ppf(0.975, n - 1 + (((seeds + sd**2) ** 2 / (seeds**2 / (n - 1))) - n + 1) / 8) * math.sqrt(
        seeds + sd**2
    )
    return mean - half, mean + half


THREE, FOUR = np.array([0.80, 0.83, 0.86]), np.array([0.70, 0.75, 0.71, 0.72])
LESS, APART = np.subtract.outer(THREE, FOUR), THREE.mean() - FOUR.mean()
OF_SETS = [stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)) for x in (THREE, FOUR)]
BOTH = math.hypot(*OF_SETS, 1.959964 * 0.01)
BETWEEN, DRAWN = share_of_gain(WEAK + STRONG), np.concatenate(list(intervals.draws(5, 20_000, seed=0)))
JOINED = mean_of_intervals(VALUES, VALUES - [0.02, 0.02, 0.02], VALUES + [0.03, 0.04, 0.05])
test_by_hand = by_hand(
    ("half", near(0.5), intervals.relative_gain, 0.7, 0.5, 0.9),
    ("nothing", near(0.0), intervals.relative_gain, 0.5, 0.5, 0.9),
    ("all", near(1.0), intervals.relative_gain, 0.9, 0.5, 0.9),
    ("a loss", near(-0.25), intervals.relative_gain, 0.4, 0.5, 0.9),
    ("beyond", near(1.25), intervals.relative_gain, 1.0, 0.5, 0.9),
    ("published", near(0.169 / 0.232), intervals.relative_gain, 0.801, 0.632, 0.864),
    ("no gain", near(NAN, NAN, 0.5), intervals.relative_gain, [0.6, 0.6, 0.75], [0.5, 0.7, 0.5], [0.5, 0.6, 1.0]),
    ("graft as base", (0.0, 0.0, 0.0), share_of_gain, WEAK),
    ("a graft between", (near(intervals.relative_gain(*(
        scores.accuracy(z, LABELS) for z in (WEAK + STRONG, WEAK, STRONG))), rel=1e-12), True),
     lambda: (BETWEEN[0], BETWEEN[1] < BETWEEN[0] < BETWEEN[2])),
    ("every example is drawn equally often", near(np.ones(5), abs=0.03), lambda: DRAWN.mean(axis=0)),  # sd 0.0063
    ("5 draws of probability 1/5", near(np.full(5, 0.8), abs=0.05), lambda: DRAWN.var(axis=0)),
    ("graft as fine-tuned", (1.0, 1.0, 1.0), share_of_gain, STRONG),
    ("base as fine-tuned", near(NAN, NAN, NAN), share_of_gain, STRONG, WEAK),
    ("worse than the base", near(NAN, NAN, NAN), share_of_gain, STRONG, WEAK[::-1] - 9 * np.eye(2)[LABELS]),
    ("undefined", near([NAN] * 6), intervals.bootstrap, logits_of([0.9, 0.9]), np.array([0, 0]), "f1", 10),
    ("Wilson's", near(0.4901625, 0.9433178, abs=1e-6), intervals.wilson, 8, 10),
    ("Wilson's of none", 0.0, lambda: intervals.wilson(0, 10)[0]),
    ("Wilson's of all", 1.0, lambda: intervals.wilson(10, 10)[1]),
    ("Wilson's at 50%", near(0.3957, 0.6043, abs=1e-4), intervals.wilson, 5, 10, 0.5),
    ("Wilson's at 99%", near(0.18423, 0.81577, abs=1e-4), intervals.wilson, 5, 10, 0.99),
    ("Wilson's of arrays", near(NAN, 0.187616, NAN, 0.812384, abs=1e-6),
     lambda: [*np.ravel(intervals.wilson(PAIR, 2 * PAIR))]),
    ("Tango's of no pair", near(-NONE, NONE), intervals.tango, 0, 0, 600),
    ("Tango's", near(-0.1410, abs=1e-4), lambda: intervals.tango(12, 9, 43)[0]),
    ("Tango's of arrays", near(NAN, intervals.tango(3, 1, 50)[0], NAN, intervals.tango(3, 1, 50)[1], rel=0, abs=0),
     lambda: [*np.ravel(intervals.tango(PAIR, PAIR // 3, 50 * (PAIR > 0)))]),
    ("Tango's at 99% is wider", True, lambda: intervals.tango(3, 1, 50, level=0.99)[0] < intervals.tango(3, 1, 50)[0]),
    ("over seeds", near(81, 81 - HALF, 81 + HALF, 1, 3, abs=1e-5), intervals.seeds_interval, [80.0, 81.0, 82.0]),
    *((f"mass within the interval over {n} seeds", near(0.95, abs=1e-8),
       lambda of: 1 - 2 * stats.t.sf((of.high - of.value) / of.sd * math.sqrt(of.n), of.n - 1),
       intervals.seeds_interval(np.arange(n)))
      for n in (2, 3, 4, 5, 10, 31)),
    ("over one seed", near(80, NAN, NAN, NAN, 1), intervals.seeds_interval, [80.0]),
    ("over seeds alone", near(intervals.seeds_interval(SEEDS)), lambda: seeds_and_examples(SEEDS, 0.0)[:5]),
    ("over examples", near(0.8, 0.8 - Z / 100, 0.8 + Z / 100), lambda: seeds_and_examples([0.8] * 3, 0.01)[:3]),
    ("of one seed", near(0.8, 0.8 - Z / 100, 0.8 + Z / 100, NAN, 1), lambda: seeds_and_examples([0.8], 0.01)[:5]),
    ("of both", near(by_formula(SEEDS, 0.05)), lambda: seeds_and_examples(SEEDS, 0.05)[1:3]),
    ("of four seeds", near(by_formula([0.1, 0.4, 0.3, 0.2], 0.05)),
     lambda: seeds_and_examples([0.1, 0.4, 0.3, 0.2], 0.05)[1:3]),
    ("of two seeds", near(math.hypot(stats.t.ppf(0.975, 1) * 0.05, Z * 0.02)),
     lambda: seeds_and_examples([0.8, 0.9], 0.02).high - 0.85),
    ("joined, of one seed", near(0.02, 0.0, 0.05), lambda: mean_of_intervals([0.02], [0.0], [0.05])[:3]),
    # Two sets of seeds that do not belong together each count by their spread.
    ("two sets of seeds", near(APART, APART - BOTH, APART + BOTH, 4, rel=1e-5), lambda found: (*found[:3], found.n),
     seeds_and_examples(LESS, 0.01)),
    ("two sets of seeds joined", near(math.hypot(*OF_SETS, 0.02), rel=1e-5),
     lambda joined: joined.value - joined.low, mean_of_intervals(LESS, LESS - 0.02, LESS + 0.01)),
    ("one seed alone is held fixed", near(seeds_and_examples(THREE - FOUR[0], 0.01)[1:3]),
     lambda: seeds_and_examples(LESS[:, :1], 0.01)[1:3]),
    ("intervals of single seeds joined", near(0.03, *(
        getattr(seeds_and_examples(VALUES, half / Z), end) for half, end in ((0.02, "low"), (0.04, "high")))),
     lambda: JOINED[:3]),
    ("at least as wide as the seeds' own", True, lambda: JOINED.low < 0.01 and JOINED.high > 0.07),
    ("joined, far off", near(0.5, 0.1, 0.6), lambda: mean_of_intervals([0.5], [0.1], [0.6])[:3]),
)  # fmt: skip


test_bad_input = refused(
    BadInput,
    ("no predictions", intervals.bootstrap, A[:0], Y[:0], "ece"),
    ("'auc' is not a metric; known: accuracy", intervals.bootstrap, A, Y, "auc"),
    ("number of resamples", lambda: intervals.bootstrap(A, Y, "ece", resamples=0)),
    ("between 0 and 1", lambda: intervals.bootstrap(A, Y, "ece", level=95)),
    ("one label for each of the 5", intervals.paired_bootstrap, A, B[:5], Y, "ece"),
    ("between 0 and n", intervals.wilson, 11, 10),
    *(("together at most n", intervals.tango, *counts) for counts in ((-1, 0, 5), (0, -1, 5), (3, 3, 5))),
    *(("over seeds", intervals.seeds_interval, values) for values in ([], [1.0, NAN])),
    ("0.95; got 95", lambda: seeds_and_examples([0.1, 0.2], 0.1, level=95)),
    ("both ends", mean_of_intervals, [0.1], [0.0], [0.2, 0.3]),
)
test_seeds_that_cannot_be_used_are_refused = refused(
    BadData, *((None, seeds_and_examples, *one) for one in (([], 0.1), ([0.1, NAN], 0.1), ([0.1], -1.0), ([0.1], NAN)))
)
