"""Tests of smECE and its curve against kernels written out, against relplot, and of the interval's limits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

import skillviz
from skillviz.core.scores import confidence, correct, probabilities
from skillviz.core.smooth_calibration import GRID, _bandwidth, _on_grid, _smoothed, smooth_error, smooth_reliability
from skillviz.show import measures
from skillviz.tasks.project import PROJECT
from tests.core.drawn_predictions import logits_of
from tests.reference import smooth_calibration as slow

RELPLOT = pd.read_csv(PROJECT / "tests/reference/relplot.csv", comment="#").fillna("")
STEP = 1 / 1024
"""The last step of relplot's search for the bandwidth."""


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidences and outcomes on which relplot was run with this seed."""
    random = np.random.default_rng(seed)
    n, (a, b, power) = int(random.integers(60, 2500)), random.uniform([1, 0.8, 0.7], [8, 3, 2])
    share = random.beta(a, b, n)
    sure = (0.99 if seed % 2 else 1.0) * (0.5 + 0.5 * share if seed % 3 else share)
    return sure, random.random(n) < sure**power


@cache
def stored(run: str, state: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits and labels of a stored run."""
    of = skillviz.open_run(str(PROJECT / "cached_runs" / run))
    logits, labels = measures.state_logits(of.predictions(), of.record, "test", (state,))
    return logits[state], labels


@pytest.mark.parametrize("row", RELPLOT[RELPLOT["state"] == ""].to_dict("records"), ids=lambda row: row["sample"])
def test_it_equals_relplot_on_random_samples(row: dict) -> None:
    sure, right = drawn(int(row["sample"]))
    value = _bandwidth(_on_grid(sure, sure - right) / len(sure))
    assert value == pytest.approx(row["exact"], abs=1e-5)
    assert value == pytest.approx(row["published"], abs=STEP)


@pytest.mark.parametrize("row", RELPLOT[RELPLOT["state"] != ""].to_dict("records"), ids=lambda row: row["state"])
def test_it_equals_relplot_on_real_predictions(row: dict) -> None:
    """relplot counts confidences near 1 half, so its error can be far off if most are there."""
    logits, labels = stored(row["sample"], row["state"])
    sure, found = confidence(probabilities(logits)), smooth_error(logits, labels)
    assert found.value == pytest.approx(row["exact"], abs=1e-5)
    assert found.low <= found.value <= found.high
    assert abs(found.value - row["published"]) < STEP or (sure > 0.999).mean() > 0.5
    curve = smooth_reliability(logits, labels, found.value)
    at = np.interp(row["confidence"], curve["confidence"], curve["accuracy"])
    assert at == pytest.approx(row["accuracy"], abs=0.01)


@pytest.mark.parametrize("width", [0.03, 0.15, 0.6])
def test_error_and_curve_are_those_of_kernels_written_out(width: float) -> None:
    random = np.random.default_rng(4)
    logits, labels = random.normal(0, 2, (25, 2)), random.integers(0, 2, 25)
    sure, right = confidence(probabilities(logits)), correct(logits, labels)
    cells = _on_grid(sure, sure - right) / 25
    fast, wanted = np.abs(_smoothed(cells, width)).sum(), slow.error_at(sure, right, width)
    assert fast == pytest.approx(wanted, rel=2e-4) and _smoothed(cells, width).sum() == pytest.approx(cells.sum())
    value = _bandwidth(cells)
    assert slow.error_at(sure, right, value) == pytest.approx(value, rel=1e-4)
    curve = smooth_reliability(logits, labels, min(width, 0.15))
    t = [t for t in np.linspace(0, 1, 201) if sum(slow.kernel(t, s, min(width, 0.15)) for s in sure)][-1]
    for column, values in (("confidence", sure), ("accuracy", right)):
        assert curve[column].iloc[-1] == pytest.approx(
            slow.mean_under_kernel(t, sure, values, min(width, 0.15)), abs=1e-3
        )


def test_gaps_of_one_sign_give_their_mean_and_opposite_ones_less_than_ece() -> None:
    always = smooth_error(logits_of([0.9] * 50), np.ones(50, dtype=int))
    assert always.value == pytest.approx(0.9, abs=1e-6)
    near = smooth_error(logits_of([0.6] * 50 + [0.61] * 50), np.repeat([0, 1], 50))
    assert near.value < 0.25 < 0.5  # ECE in two bins would be 0.505


def test_an_interval_reaches_zero_for_a_calibrated_model_and_needs_ten_examples() -> None:
    random = np.random.default_rng(2)
    sure = random.uniform(0.5, 1, 2000)
    labels = (random.random(2000) > sure).astype(int)
    found = smooth_error(logits_of(list(sure)), labels)
    assert found.low == 0 and 0 < found.value < 0.03 and found.high < 0.05
    over = smooth_error(2.5 * logits_of(list(sure)), labels)
    assert over.low > 0.03
    few = smooth_error(logits_of([0.7] * 9), np.zeros(9, dtype=int))
    assert few.value > 0 and np.isnan(few.low)
    assert smooth_error(logits_of([0.999] * 100), np.zeros(100, dtype=int)).high > 0.02, "100 hits allow some errors"


def test_ends_of_the_grid_count_whole() -> None:
    for place in (0, GRID // 2, GRID - 1):
        cells = np.eye(GRID)[place]
        assert _smoothed(cells, 0.05).sum() == pytest.approx(1), "counted once, an end would lose a half"
