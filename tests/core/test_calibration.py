"""Tests of reliability and calibration error: by hand, against slow twins, at bin edges, with planted errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skillviz
from skillviz.core import calibration, metrics
from skillviz.core import calibration_error as edges_of
from skillviz.core.calibration import _bandwidth, _on_grid, _smoothed, smooth_error, smooth_reliability
from skillviz.core.intervals import wilson
from skillviz.core.scores import confidence, correct, probabilities
from skillviz.errors import BadInput
from skillviz.show import measures
from skillviz.tasks.project import PROJECT
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import calibration as slow
from tests.reference import intervals as slow_intervals
from tests.reference import smooth_calibration as slow_smooth
from tests.refused import refused


@PROPERTY
@given(predictions(), st.integers(1, 20))
def test_ece_equals_its_slow_twin(drawn: tuple, bins: int) -> None:
    assert metrics.ece(*drawn, bins=bins) == pytest.approx(slow.ece(*drawn, bins), rel=1e-9, abs=1e-12)
    fast = metrics.ece(*drawn, bins=bins, equal_mass=True)
    assert fast == pytest.approx(slow.ece_equal_mass(*drawn, bins), rel=1e-9, abs=1e-12)


@PROPERTY
@given(predictions(), st.integers(1, 20), st.booleans())
def test_the_reliability_table_adds_up_to_the_ece(drawn: tuple, bins: int, equal_mass: bool) -> None:
    table = calibration.reliability(*drawn, bins=bins, equal_mass=equal_mass)
    assert list(table) == ["bin", "lower", "upper", "count", "confidence", "accuracy", "low", "high"]
    assert len(table) == bins and table["count"].sum() == len(drawn[1])
    gaps = (table["count"] * (table["confidence"] - table["accuracy"]).abs()).sum() / len(drawn[1])
    assert gaps == pytest.approx(metrics.ece(*drawn, bins=bins, equal_mass=equal_mass), abs=1e-12)
    used, slack = table[table["count"] > 0], 1e-12
    for least, most in (("lower", "confidence"), ("confidence", "upper"), ("low", "accuracy"), ("accuracy", "high")):
        assert (used[least] <= used[most] + slack).all(), (least, most)
    assert table[table["count"] == 0][["confidence", "accuracy", "low", "high"]].isna().all(axis=None)


def test_a_perfect_predictor_has_no_error_and_a_wrong_one_all_of_it() -> None:
    logits, labels = np.array([[1e3, 0.0], [0.0, 1e3], [1e3, 0.0]]), np.array([0, 1, 0])
    cases = ((labels, False), (labels, True), (1 - labels, False))
    assert [metrics.ece(logits, y, equal_mass=equal_mass) for y, equal_mass in cases] == [0, 0, 1]


def test_two_bins_by_hand() -> None:
    logits = logits_of([0.6, 0.6, 0.6, 0.6, 0.95, 0.95])
    labels = np.array([0, 0, 1, 1, 0, 0])  # right: 2 of 4 at 0.6, 2 of 2 at 0.95
    assert metrics.ece(logits, labels, bins=10) == pytest.approx((4 * 0.1 + 2 * 0.05) / 6, rel=1e-9)
    row = calibration.reliability(logits, labels, bins=10).query("count > 0").iloc[0].drop(["bin", "confidence"])
    assert row.tolist() == pytest.approx([0.5, 0.6, 4, 0.5, *slow_intervals.wilson(2, 4)], rel=1e-9)


def test_an_off_by_one_edge_would_be_seen() -> None:
    sure, right = np.array([0.25, 0.5, 0.75, 1.0, 0.3]), [0, 1, 2, 3, 1]
    assert edges_of.bin_numbers(sure, edges_of.equal_width_edges(4)).tolist() == right
    planted = np.clip(np.searchsorted(edges_of.equal_width_edges(4), sure, side="right") - 1, 0, 3)  # [lo, hi)
    assert planted.tolist() != right
    logits, labels = np.array([[0.0, 0.0], [0.3, 0.0]]), np.array([1, 0])  # one on the edge 0.5, one above it
    together = 0.5 * abs(0.5 + slow.softmax([0.3, 0.0])[0] - 1)
    assert metrics.ece(logits, labels, bins=2) == pytest.approx(slow.ece(logits, labels, 2), rel=1e-12)
    assert abs(metrics.ece(logits, labels, bins=2) - together) > 0.1


def test_every_edge_is_the_float_nearest_to_its_share() -> None:
    edges = edges_of.equal_width_edges(15)
    assert edges.tolist() == [k / 15 for k in range(16)]
    assert edges_of.bin_numbers(np.array([0.2, 0.6, 0.8]), edges).tolist() == [2, 8, 11]


@pytest.mark.parametrize(
    ("sure", "bins", "counts"),
    [(list(np.linspace(0.51, 0.99, 30)), 15, [2] * 15), ([0.7] * 9 + [0.9], 5, [9, 1, 0, 0, 0])],
    ids=["equal counts", "ties"],
)  # fmt: skip
def test_equal_mass_bins_hold_equal_counts_and_never_part_ties(sure: list, bins: int, counts: list[int]) -> None:
    table = calibration.reliability(logits_of(sure), np.zeros(len(sure), dtype=int), bins=bins, equal_mass=True)
    assert sorted(table["count"], reverse=True) == counts


def test_the_confidence_histogram_starts_at_chance() -> None:
    logits, labels = np.array([[0.0, 0.0], [1e3, 0.0], [0.0, 1e3], [0.0, 1.0]]), np.array([0, 0, 0, 1])
    table = calibration.confidence_histogram(logits, labels, bins=2)[["lower", "upper", "count", "share", "correct"]]
    assert table.values.tolist() == [[0.5, 0.75, 2, 0.5, 2], [0.75, 1.0, 2, 0.5, 1]]


TABLES = (metrics.ece, calibration.reliability, partial(metrics.ece, equal_mass=True), calibration.confidence_histogram)
test_a_bad_number_of_bins_is_refused = refused(
    BadInput,
    *(
        ("from 1 to 1000", partial(table, np.zeros((2, 2)), np.array([0, 1]), bins=bins))
        for table in TABLES
        for bins in (0, -1, 1.5, True, 1001)
    ),
)


RELPLOT = pd.read_csv(PROJECT / "tests/reference/relplot.csv", comment="#").fillna("")
STEP = 1 / 1024  # the last step of relplot's search for the bandwidth


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
    assert abs(value - row["exact"]) < 1e-5
    assert abs(value - row["published"]) < STEP or (sure > 0.999).mean() > 0.5


@pytest.mark.parametrize("width", [0.03, 0.15, 0.6])
def test_the_error_is_that_of_kernels_written_out(width: float) -> None:
    random = np.random.default_rng(4)
    sure, right = random.uniform(0.4, 1, 25), random.random(25) < 0.5
    cells = _on_grid(sure, sure - right) / 25
    for at, wanted in ((width, np.abs(_smoothed(cells, width)).sum()), (_bandwidth(cells), _bandwidth(cells))):
        assert slow_smooth.error_at(sure, right, at) == pytest.approx(wanted, rel=2e-4)


def test_the_distance_from_the_diagonal_is_the_averaged_gap() -> None:
    curve = smooth_reliability(logits_of([0.9] * 50), np.repeat([0, 1], [30, 20]), 0.05)
    assert np.allclose(curve[["confidence", "accuracy"]], [0.9, 0.6], atol=1e-3)
    assert np.allclose(curve.loc[curve["n"].idxmax(), ["low", "high", "n"]].astype(float), [*wilson(30, 50), 50], 1e-3)


def test_an_interval_reaches_zero_for_a_calibrated_model_alone_and_needs_ten_examples() -> None:
    random = np.random.default_rng(2)
    sure = random.uniform(0.5, 1, 2000)
    logits, labels = logits_of(list(sure)), (random.random(2000) > sure).astype(int)
    fit, over = smooth_error(logits, labels), smooth_error(2.5 * logits, labels)
    few, certain = (smooth_error(logits_of([0.999] * n), np.zeros(n, dtype=int)) for n in (9, 100))
    assert fit.low == 0 < fit.value < 0.03 and fit.high < 0.05 and over.low > 0.03
    assert np.isnan(few.low) and certain.high > 0.02, "100 hits allow some errors"
