"""Tests of reliability and calibration error: by hand, against slow twins, at bin edges, with planted errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core import bins as edges_of
from skillviz.core import calibration, metrics
from skillviz.errors import BadInput
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import calibration as slow
from tests.reference import intervals as slow_intervals


@PROPERTY
@given(predictions(), st.integers(1, 20))
def test_ece_equals_its_slow_twin(drawn: tuple, bins: int) -> None:
    assert metrics.ece(*drawn, bins=bins) == pytest.approx(slow.ece(*drawn, bins), rel=1e-9, abs=1e-12)
    fast = metrics.ece(*drawn, bins=bins, equal_mass=True)
    assert fast == pytest.approx(slow.ece_equal_mass(*drawn, bins), rel=1e-9, abs=1e-12)


@PROPERTY
@given(predictions(), st.booleans())
def test_ece_is_bounded_and_does_not_depend_on_order(drawn: tuple, equal_mass: bool) -> None:
    logits, labels = drawn
    value = metrics.ece(logits, labels, equal_mass=equal_mass)
    turned = np.random.default_rng(1).permutation(len(labels))
    assert 0 <= value <= 1
    assert metrics.ece(logits[turned], labels[turned], equal_mass=equal_mass) == pytest.approx(value, abs=1e-12)


@PROPERTY
@given(predictions(), st.integers(1, 20), st.booleans())
def test_the_reliability_table_adds_up_to_the_ece(drawn: tuple, bins: int, equal_mass: bool) -> None:
    table = calibration.reliability(*drawn, bins=bins, equal_mass=equal_mass)
    assert list(table) == ["bin", "lower", "upper", "count", "confidence", "accuracy", "low", "high"]
    assert len(table) == bins and table["count"].sum() == len(drawn[1])
    gaps = (table["count"] * (table["confidence"] - table["accuracy"]).abs()).sum() / len(drawn[1])
    assert gaps == pytest.approx(metrics.ece(*drawn, bins=bins, equal_mass=equal_mass), abs=1e-12)
    used = table[table["count"] > 0]
    assert (used["lower"] < used["confidence"] + 1e-12).all() and (used["confidence"] <= used["upper"] + 1e-12).all()
    assert (used["low"] <= used["accuracy"]).all() and (used["accuracy"] <= used["high"]).all()
    assert table[table["count"] == 0][["confidence", "accuracy", "low", "high"]].isna().all(axis=None)


def test_a_perfect_predictor_has_no_error() -> None:
    logits, labels = np.array([[1e3, 0.0], [0.0, 1e3], [1e3, 0.0]]), np.array([0, 1, 0])
    for equal_mass in (False, True):
        assert metrics.ece(logits, labels, equal_mass=equal_mass) == 0.0
    assert metrics.ece(logits, 1 - labels) == 1.0


def test_two_bins_by_hand() -> None:
    logits = logits_of([0.6, 0.6, 0.6, 0.6, 0.95, 0.95])
    labels = np.array([0, 0, 1, 1, 0, 0])  # right: 2 of 4 at 0.6, 2 of 2 at 0.95
    assert metrics.ece(logits, labels, bins=10) == pytest.approx((4 * 0.1 + 2 * 0.05) / 6, rel=1e-9)
    table = calibration.reliability(logits, labels, bins=10)
    row = table[table["count"] > 0].iloc[0]
    assert (row["lower"], row["upper"], row["count"], row["accuracy"]) == (0.5, 0.6, 4, 0.5)
    assert (row["low"], row["high"]) == pytest.approx(slow_intervals.wilson(2, 4), rel=1e-9)


@pytest.mark.parametrize("bins", [2, 4])
def test_a_confidence_on_an_edge_counts_in_the_lower_bin(bins: int) -> None:
    table = calibration.reliability(np.zeros((3, 2)), np.array([0, 0, 1]), bins=bins)  # confidence exactly 0.5
    assert table.loc[table["count"] == 3, "upper"].tolist() == [0.5]


def test_an_off_by_one_edge_would_be_seen() -> None:
    sure = np.array([0.25, 0.5, 0.75, 1.0, 0.3])
    edges = edges_of.equal_width_edges(4)
    assert edges_of.bin_numbers(sure, edges).tolist() == [0, 1, 2, 3, 1]
    planted = np.clip(np.searchsorted(edges, sure, side="right") - 1, 0, 3)  # [lo, hi)
    assert planted.tolist() != [0, 1, 2, 3, 1]
    logits, labels = np.array([[0.0, 0.0], [0.3, 0.0]]), np.array([1, 0])  # one on the edge 0.5, one above it
    apart, together = slow.ece(logits, labels, 2), 0.5 * abs(0.5 + slow.softmax([0.3, 0.0])[0] - 1)
    assert metrics.ece(logits, labels, bins=2) == pytest.approx(apart, rel=1e-12)
    assert abs(apart - together) > 0.1


def test_every_edge_is_the_float_nearest_to_its_share() -> None:
    assert edges_of.equal_width_edges(15).tolist() == [k / 15 for k in range(16)]
    assert edges_of.bin_numbers(np.array([0.2, 0.6, 0.8]), edges_of.equal_width_edges(15)).tolist() == [2, 8, 11]


def test_equal_mass_bins_hold_equal_counts_and_never_part_ties() -> None:
    logits = logits_of(list(np.linspace(0.51, 0.99, 30)))
    assert calibration.reliability(logits, np.zeros(30, dtype=int), equal_mass=True)["count"].tolist() == [2] * 15
    tied = logits_of([0.7] * 9 + [0.9])
    counts = calibration.reliability(tied, np.zeros(10, dtype=int), bins=5, equal_mass=True)["count"]
    assert sorted(counts, reverse=True) == [9, 1, 0, 0, 0]


def test_the_confidence_histogram_starts_at_chance() -> None:
    logits, labels = np.array([[0.0, 0.0], [1e3, 0.0], [0.0, 1e3], [0.0, 1.0]]), np.array([0, 0, 0, 1])
    table = calibration.confidence_histogram(logits, labels, bins=2)
    assert table["lower"].tolist() == [0.5, 0.75] and table["upper"].tolist() == [0.75, 1.0]
    assert table["count"].tolist() == [2, 2] and table["share"].tolist() == [0.5, 0.5]
    assert table["correct"].tolist() == [2, 1]


def test_inputs_are_left_as_they_were() -> None:
    logits, labels = np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20, dtype=int)
    kept = logits.copy()
    assert isinstance(calibration.reliability(logits, labels), pd.DataFrame)
    assert np.array_equal(logits, kept) and not labels.any()


@pytest.mark.parametrize("bins", [0, -1, 1.5, True, 1001])
def test_a_bad_number_of_bins_is_refused(bins: object) -> None:
    for of in (metrics.ece, calibration.reliability, calibration.confidence_histogram):
        for options in ({}, {"equal_mass": True}) if of is not calibration.confidence_histogram else ({},):
            with pytest.raises(BadInput, match="from 1 to 1000"):
                of(np.zeros((2, 2)), np.array([0, 1]), bins=bins, **options)
