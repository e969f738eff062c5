"""Tests of intervals: slow twins on the same resamples, coverage, speed of the vectorized form, exact ends."""

from __future__ import annotations

import math
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core import intervals, metrics, scores
from skillviz.core.calibration_error import calibration_difference, calibration_error
from skillviz.errors import BadInput
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import calibration as slow
from tests.reference import intervals as slow_intervals
from tests.reference.calibration import TWINS
from tests.refused import refused

# Metrics of generated texts have scores of another shape: tests/core/test_generation.py
OF_CLASSES = [name for name in metrics.SCORED if not metrics.METRICS[name].of_text]


def some(n: int = 60, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two models' logits and the labels; the second model is better. Values are rounded, so that some tie."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    signal = np.eye(classes)[labels]
    weak, strong = (signal * s + random.normal(size=(n, classes)) for s in (0.5, 2.0))
    return weak.round(1), strong.round(1), labels


@pytest.mark.cases(3, 4)
@pytest.mark.parametrize("metric", OF_CLASSES)
def test_every_metric_of_every_resample_equals_its_slow_twin(metric: str) -> None:
    @PROPERTY
    @given(predictions())
    def equal(drawn: tuple) -> None:
        logits, labels = scores.checked_logits(*drawn)
        weights = next(intervals.draws(len(labels), 5, seed=len(labels)))
        fast = metrics.statistic(metric, logits, labels)(weights)
        expected = slow_intervals.resampled(TWINS[metric], weights, logits, labels)
        if metric == "f1" and set(labels == 1) != {True, False}:  # F1 of one class is undefined
            expected = np.full(len(weights), np.nan)
        np.testing.assert_allclose(fast, expected, rtol=1e-9, atol=1e-12)

    equal()


@pytest.mark.parametrize("metric", OF_CLASSES)
def test_bootstrap_and_paired_bootstrap_equal_slow_ones(metric: str) -> None:
    a, b, labels = some(30)
    weights, twin = np.concatenate(list(intervals.draws(30, 40, seed=5))), TWINS[metric]
    slow_a, slow_b = (np.array(slow_intervals.resampled(twin, weights, z, labels)) for z in (a, b))
    alone = slow_intervals.interval(twin(a, labels), slow_a)
    value, low, high = slow_intervals.interval(twin(a, labels) - twin(b, labels), slow_a - slow_b)
    assert intervals.bootstrap(a, labels, metric, 40, seed=5)[:3] == pytest.approx(alone, rel=1e-9, abs=1e-12)
    there, back = (intervals.paired_bootstrap(*z, labels, metric, 40, seed=5)[:3] for z in ((a, b), (b, a)))
    assert there == pytest.approx((value, low, high), rel=1e-9, abs=1e-12)
    assert back == pytest.approx((-value, -high, -low), rel=1e-9, abs=1e-12)
    assert back != pytest.approx((value, low, high), rel=1e-2), "an error of sign would pass"
    assert intervals.paired_bootstrap(a, a, labels, metric, 40)[:3] == (0, 0, 0)


def test_many_differences_to_one_baseline_are_those_of_each_pair() -> None:
    a, b, labels = some(40)
    others, names = (b, a[::-1].copy(), a), ("accuracy", "ece", "nll")
    found = intervals.paired_differences(a, others, labels, names, 60, seed=3)
    for other, row in zip(others, found, strict=True):
        accuracy = intervals.accuracy_difference(other, a, labels)
        nll = intervals.paired_bootstrap(other, a, labels, "nll", 60, seed=3)
        assert list(row) == list(names)
        assert row["accuracy"][:3] == pytest.approx(accuracy[:3], rel=1e-9, abs=1e-12)
        assert row["nll"][:3] == pytest.approx(nll[:3], rel=1e-9, abs=1e-12) and np.isnan(row["nll"].gained)
        assert row["ece"] == intervals.metric_difference(other, a, labels, "ece")
        base, right = (z.argmax(axis=1) == labels for z in (a, other))
        counts = ((right & ~base).sum(), (base & ~right).sum())
        assert (row["accuracy"].gained, row["accuracy"].lost) == counts
    assert found[0]["nll"] != found[1]["nll"]
    assert found[2]["nll"][:3] == (0.0, 0.0, 0.0) and found[2]["ece"][:4] == (0.0, 0.0, 0.0, 0.0)
    assert intervals.paired_differences(a, [], labels, names) == []


@pytest.mark.parametrize("metric", OF_CLASSES)
def test_each_metric_has_the_interval_that_its_row_names(metric: str) -> None:
    weak, strong, labels = some(120)
    kind, of_one, of_two = metrics.METRICS[metric].interval, intervals.metric_interval, intervals.metric_difference
    found, less = of_one(weak, labels, metric), of_two(weak, strong, labels, metric)
    assert found.value == pytest.approx(metrics.score(weak, labels)[metric], abs=1e-12)
    assert less.value == pytest.approx(found.value - metrics.score(strong, labels)[metric], abs=1e-12)
    if kind == "calibration":
        pairs = ((found, calibration_error(weak, labels)), (less, calibration_difference(weak, strong, labels)))
        for one, whole in pairs:
            assert one[:4] == (whole.value, whole.low, whole.high, whole.debiased)
            assert one.low <= one.debiased <= one.high
        few = [of_one(weak[:9], labels[:9], metric), of_two(weak[:9], strong[:9], labels[:9], metric)]
        assert np.isfinite(few[0].value) and all(np.isnan(one[1:]).all() for one in few)
    elif kind == "none":
        assert np.isnan(found[1:]).all() and np.isnan(less[1:]).all()
    else:
        assert np.isnan(found.debiased) and np.isnan(less.debiased)
        ends = intervals.bootstrap(weak, labels, metric)[1:3]
        assert found[1:3] == pytest.approx(intervals.wilson(found.value * 120, 120) if kind == "wilson" else ends)
        paired = intervals.paired_bootstrap(weak, strong, labels, metric)
        drawn = intervals.accuracy_difference(weak, strong, labels) if metric == "accuracy" else paired
        assert less[:3] == drawn[:3] or (metric == "f1" and less.low <= drawn.low < drawn.high <= less.high)


def test_resamples_depend_on_the_seed_alone_not_on_the_blocks() -> None:
    whole, blocks = (list(intervals.draws(7, 23, seed=1, **cells)) for cells in ({}, {"cells": 7 * 4}))
    drawn = np.concatenate(whole)
    assert drawn.shape == (23, 7) and (drawn.sum(axis=1) == 7).all() and drawn.dtype == np.float64
    assert [len(b) for b in blocks] == [4, 4, 4, 4, 4, 3] and np.array_equal(np.concatenate(blocks), drawn)
    assert not np.array_equal(np.concatenate(list(intervals.draws(7, 23, seed=2))), drawn)


def test_every_example_is_drawn_equally_often() -> None:
    drawn = np.concatenate(list(intervals.draws(5, 20_000, seed=0)))
    np.testing.assert_allclose(drawn.mean(axis=0), 1.0, atol=0.03)  # sd of a mean is 0.0063
    np.testing.assert_allclose(drawn.var(axis=0), 0.8, atol=0.05)  # 5 draws, probability 1/5


@PROPERTY
@given(predictions(classes=2), st.sampled_from(OF_CLASSES))
def test_an_interval_holds_its_estimate(drawn: tuple, metric: str) -> None:
    value, low, high = intervals.bootstrap(*drawn, metric, resamples=20)[:3]
    assert low <= value <= high or math.isnan(value) or (math.isnan(low) and math.isnan(high))


def test_an_undefined_metric_has_no_interval() -> None:
    found = intervals.bootstrap(logits_of([0.9, 0.9]), np.array([0, 0]), "f1", 10)
    assert all(math.isnan(v) for v in found)


@pytest.mark.parametrize(
    ("grafted", "pretrained", "finetuned", "wanted"),
    [
        (0.7, 0.5, 0.9, 0.5), (0.5, 0.5, 0.9, 0.0), (0.9, 0.5, 0.9, 1.0), (0.4, 0.5, 0.9, -0.25), (1.0, 0.5, 0.9, 1.25),
        (0.801, 0.632, 0.864, 0.169 / 0.232),
    ],
)  # fmt: skip
def test_relative_gain_by_hand(grafted: float, pretrained: float, finetuned: float, wanted: float) -> None:
    assert float(intervals.relative_gain(grafted, pretrained, finetuned)) == pytest.approx(wanted)


def test_without_a_gain_there_is_no_share_of_one() -> None:
    found = intervals.relative_gain([0.6, 0.6, 0.75], [0.5, 0.7, 0.5], [0.5, 0.6, 1.0])
    assert found.tolist() == pytest.approx([math.nan, math.nan, 0.5], nan_ok=True)


def test_the_interval_of_a_gain_is_paired() -> None:
    """With three nested models, reordering the graft's answers (as if on other examples) widens the interval."""
    hard, labels = np.random.default_rng(0).random(400), np.zeros(400, dtype=np.int64)
    grafted, pretrained, finetuned = (logits_of(np.where(hard < share, 0.9, 0.1)) for share in (0.8, 0.5, 0.9))
    found, apart = (
        intervals.recovered_gain(graft, pretrained, finetuned, labels, resamples=400)
        for graft in (grafted, grafted[np.random.default_rng(1).permutation(400)])
    )
    assert apart.value == pytest.approx(found.value) and found.low < found.value < found.high
    assert apart.high - apart.low > 1.2 * (found.high - found.low)


def test_recovered_gain() -> None:
    weak, strong, labels = some(300)
    between = intervals.recovered_gain(weak + strong, weak, strong, labels, resamples=200)
    expected = intervals.relative_gain(*(scores.accuracy(z, labels) for z in (weak + strong, weak, strong)))
    assert between.value == pytest.approx(expected, rel=1e-12) and between.low < between.value < between.high
    ends = [intervals.recovered_gain(graft, weak, strong, labels)[:3] for graft in (weak, strong)]
    assert ends == [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0)]
    for lost in (weak, weak[::-1] - 9 * np.eye(2)[labels]):
        assert np.isnan(intervals.recovered_gain(strong, weak, lost, labels)).all(), "fine-tuning gained nothing"


@PROPERTY
@given(st.integers(1, 400), st.floats(0, 1))
def test_wilson_equals_its_slow_twin(n: int, share: float) -> None:
    successes = round(share * n)
    low, high = intervals.wilson(successes, n)
    assert (low, high) == pytest.approx(slow_intervals.wilson(successes, n), rel=1e-6, abs=1e-9)
    assert 0 <= low <= successes / n <= high <= 1


def test_wilson_by_hand_at_its_ends_and_for_arrays() -> None:
    assert intervals.wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)  # Wilson's own formula
    assert (intervals.wilson(0, 10)[0], intervals.wilson(10, 10)[1]) == (0.0, 1.0)
    both = np.transpose(intervals.wilson(np.array([0, 3]), np.array([0, 6])))
    assert np.isnan(both[0]).all() and tuple(both[1]) == intervals.wilson(3, 6)
    narrow, wide = intervals.wilson(5, 10, level=0.5), intervals.wilson(5, 10, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.nightly
@PROPERTY
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 300))
def test_tango_equals_its_slow_twin(only_a: int, only_b: int, both: int) -> None:
    n = only_a + only_b + both + 1
    found = intervals.tango(only_a, only_b, n)
    assert found == pytest.approx(slow_intervals.tango(only_a, only_b, n), abs=1e-6)
    assert -1 <= found[0] <= (only_a - only_b) / n <= found[1] <= 1 and found[0] < found[1]
    assert intervals.tango(only_b, only_a, n) == pytest.approx((-found[1], -found[0]), abs=1e-9)
    assert found != pytest.approx(slow_intervals.tango(only_a + 1, only_b, n), abs=1e-6), "a planted error"


def test_tango_by_hand_and_for_arrays() -> None:
    end = 1.959963984540054**2 / (600 + 1.959963984540054**2)
    assert intervals.tango(0, 0, 600) == pytest.approx((-end, end))
    assert intervals.tango(12, 9, 43)[0] == pytest.approx(-0.1410, abs=1e-4)
    both = np.transpose(intervals.tango(np.array([0, 3]), np.array([0, 1]), np.array([0, 50])))
    assert np.isnan(both[0]).all() and tuple(both[1]) == intervals.tango(3, 1, 50)
    assert intervals.tango(3, 1, 50, level=0.99)[0] < both[1, 0]


@pytest.mark.parametrize("differ", [1, 2, 3, 5, 12])
def test_the_paired_interval_covers_where_few_predictions_differ(differ: int) -> None:
    """4,000 samples of 300: one standard error is 0.3%; the percentile bootstrap covers 50 to 92%."""
    random, n, true = np.random.default_rng(differ), 300, 0.4 * differ / 300
    counts = random.multinomial(n, [0.7 * differ / n, 0.3 * differ / n, 1 - differ / n], 4000)
    low, high = intervals.tango(counts[:, 0], counts[:, 1], n)
    assert np.mean((low <= true) & (true <= high)) >= 0.935
    drawn = (random.multinomial(n, row / n, 400) @ [1 / n, -1 / n, 0] for row in counts[:300])
    ends = np.array([np.quantile(values, [0.025, 0.975]) for values in drawn])
    holds = (ends[:, 0] <= true) & (true <= ends[:, 1])
    assert differ > 3 or holds.mean() < 0.92, "the interval from before would fail"


def test_models_that_hardly_differ_leave_some_difference_open() -> None:
    """This includes F1 and the share of the gain: a resample without differences would exclude all other values."""
    random, n = np.random.default_rng(0), 400
    labels = random.integers(0, 2, n)
    predicted = np.where(random.random(n) < 0.85, labels, 1 - labels)
    a, b = np.eye(2)[predicted], np.eye(2)[np.where(np.arange(n) < 2, 1 - predicted, predicted)]
    for metric in ("accuracy", "f1"):
        itself, same, less = (intervals.metric_difference(a, z, labels, metric) for z in (a, 2 * a, b))
        assert itself[:3] == (0, 0, 0), "the same model"
        assert same.low < -0.005 and same.high > 0.005 and same.value == 0 and less.high - less.low > 0.02
        assert intervals.paired_bootstrap(a, 2 * a, labels, metric)[:3] == (0, 0, 0)
    weak = np.eye(2)[np.where(random.random(n) < 0.6, labels, 1 - labels)]
    share = intervals.recovered_gain(2 * a, weak, a, labels)
    assert share.value == 1 and share.low < 0.98 and share.high > 1.02


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 31])
def test_an_interval_over_seeds_cuts_off_the_mass_it_should(n: int) -> None:
    found = intervals.seeds_interval(np.arange(n))
    t = (found.high - found.value) / found.sd * math.sqrt(n)
    assert slow_intervals.t_central_mass(t, n - 1) == pytest.approx(0.95, abs=1e-8)


def test_an_interval_over_seeds() -> None:
    half = 4.302653 / math.sqrt(3)
    assert intervals.seeds_interval([80.0, 81.0, 82.0]) == pytest.approx((81, 81 - half, 81 + half, 1, 3), abs=1e-5)
    nan = math.nan
    assert intervals.seeds_interval([80.0]) == pytest.approx((80, nan, nan, nan, 1), nan_ok=True)


def test_two_thousand_resamples_of_two_thousand_examples_take_no_loop() -> None:
    """A loop over resamples would call the statistic 2,000 times; blocks call it once for 2,000 rows."""
    counted = Mock(side_effect=lambda weights: weights.sum(axis=1))
    (values,) = intervals.resampled_values([counted], 2000, 2000, seed=0)
    assert len(values) == 2000 and [call.args[0].shape for call in counted.mock_calls] == [(2000, 2000)]


A, B, Y = some(10)


test_bad_input = refused(
    BadInput,
    ("no predictions", lambda: intervals.bootstrap(A[:0], Y[:0], "ece")),
    ("'auc' is not a metric; known: accuracy", lambda: intervals.bootstrap(A, Y, "auc")),
    ("number of resamples", lambda: intervals.bootstrap(A, Y, "ece", resamples=0)),
    ("between 0 and 1", lambda: intervals.bootstrap(A, Y, "ece", level=95)),
    ("one label for each of the 5", lambda: intervals.paired_bootstrap(A, B[:5], Y, "ece")),
    ("between 0 and n", lambda: intervals.wilson(11, 10)),
    ("together at most n", lambda: intervals.tango(-1, 0, 5)),
    ("together at most n", lambda: intervals.tango(0, -1, 5)),
    ("together at most n", lambda: intervals.tango(3, 3, 5)),
    ("over seeds", lambda: intervals.seeds_interval([])),
    ("over seeds", lambda: intervals.seeds_interval([1.0, math.nan])),
)
