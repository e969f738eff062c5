"""Tests of risk and coverage against all orders of tied examples, by hand, and of the paired difference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.scores import confidence, correct, probabilities
from skillviz.core.selective import POINTS, _risks, aurc_difference, risk_coverage
from tests.core.drawn_predictions import PROPERTY, logits_of
from tests.reference import selective as slow


def scored(logits: np.ndarray, labels: np.ndarray) -> tuple[list[float], list[bool]]:
    return list(confidence(probabilities(logits))), list(~correct(logits, labels))


@PROPERTY
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_risks_are_means_over_all_orders_of_ties(seed: int, n: int) -> None:
    random = np.random.default_rng(seed)
    logits, labels = random.integers(0, 3, (n, 3)).astype(float), random.integers(0, 3, n)
    found, wanted = risk_coverage(logits, labels, resamples=2), slow.risks(*scored(logits, labels))
    assert found.curve["coverage"].tolist() == pytest.approx([k / n for k in range(1, n + 1)])
    assert found.curve["risk"].tolist() == pytest.approx(wanted, abs=1e-12)
    assert found.aurc.value == pytest.approx(np.mean(wanted), abs=1e-12)


def test_a_resample_equals_its_examples_written_out() -> None:
    random = np.random.default_rng(3)
    logits, labels, times = random.integers(0, 4, (6, 2)).astype(float), random.integers(0, 2, 6), [0, 1, 3, 0, 2, 0]
    ((area, *risks),) = _risks(logits, labels, np.arange(1, 7))(np.array([times], dtype=float))
    copies = slow.risks(*scored(np.repeat(logits, times, axis=0), np.repeat(labels, times)))
    assert [area, *risks] == pytest.approx([np.mean(copies), *copies], abs=1e-12)


def test_by_hand_a_tie_counts_half() -> None:
    logits = logits_of([0.9, 0.8, 0.8, 0.6])
    found = risk_coverage(logits, np.array([0, 1, 0, 1]))
    assert found.curve["risk"].tolist() == pytest.approx([0, 0.25, 1 / 3, 0.5])
    assert found.aurc.value == pytest.approx((0 + 0.25 + 1 / 3 + 0.5) / 4)
    in_stored_order = np.mean([0, 1 / 2, 1 / 3, 1 / 2])
    assert abs(found.aurc.value - in_stored_order) > 0.05, "an arbitrary order of ties would be seen"


def two_models(n: int = 250) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the logits of two models of three classes that find the same examples hard, and the labels."""
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, (n, 3))
    labels = np.where(random.random(n) < probabilities(logits).max(1), logits.argmax(1), random.integers(0, 3, n))
    return logits, logits + random.normal(0, 0.8, logits.shape), labels


def test_the_curve_has_at_most_a_hundred_points_and_its_band_is_wide_without_errors() -> None:
    logits, _, labels = two_models()
    curve = risk_coverage(logits, labels).curve
    assert len(curve) == POINTS and (curve["low"] <= curve["risk"]).all() and (curve["risk"] <= curve["high"]).all()
    certain = risk_coverage(logits_of([0.9] * 20), np.zeros(20, dtype=int))
    assert certain.curve["risk"].max() == 0 and certain.curve["high"].iloc[0] > 0.5
    assert certain.aurc.value == 0 and np.isnan(certain.aurc.low), "no error says nothing about its spread"


def test_a_difference_is_paired() -> None:
    one, other, labels = two_models()
    a, b = risk_coverage(one, labels), risk_coverage(other, labels)
    less = aurc_difference(a, b)
    assert less.value == pytest.approx(a.aurc.value - b.aurc.value) and less.low < less.value < less.high
    apart = np.hypot(*(of.aurc.high - of.aurc.low for of in (a, b)))
    assert less.high - less.low < 0.8 * apart, "without pairing it would be wider"
    assert aurc_difference(a, a)[:3] == (0, 0, 0)


def test_temperature_keeps_the_order_of_two_classes_alone() -> None:
    three, _, labels = two_models()
    two, of_two = three[:, :2], labels % 2
    cold, warm = (risk_coverage(z, of_two).curve["risk"] for z in (two, two / 3))
    assert np.allclose(cold, warm, rtol=0, atol=1e-12)
    cold, warm = (risk_coverage(z, labels).curve["risk"] for z in (three, three / 3))
    assert not np.allclose(cold, warm, rtol=0, atol=1e-3)
