"""Tests of smECE and its curve against kernels written out, against relplot, and of the interval's limits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import skillviz
from skillviz.core.calibration import _bandwidth, _on_grid, _smoothed, smooth_error, smooth_reliability
from skillviz.core.intervals import wilson
from skillviz.core.scores import confidence, correct, probabilities
from skillviz.show import measures
from skillviz.tasks.project import PROJECT
from tests.core.drawn_predictions import logits_of
from tests.reference import smooth_calibration as slow

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
        assert slow.error_at(sure, right, at) == pytest.approx(wanted, rel=2e-4)


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
