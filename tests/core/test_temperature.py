"""Tests of temperature scaling: known temperatures are found, bounds are reported, and accuracy never changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from skillviz.core import scores
from skillviz.core.temperature import COLDEST, HOTTEST, scaled, temperature_fit
from skillviz.errors import BadInput
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import calibration as slow
from tests.refused import refused


@PROPERTY
@given(predictions())
def test_no_other_temperature_is_better_and_no_prediction_changes(drawn: tuple) -> None:
    logits, labels = drawn
    fit = temperature_fit(logits, labels)
    cooled = scaled(logits, fit.value)
    assert COLDEST <= fit.value <= HOTTEST
    assert (scores.predictions(cooled) == scores.predictions(logits)).all()
    others = [scores.nll(scaled(logits, other), labels) for other in (*np.geomspace(COLDEST, HOTTEST, 25), 1)]
    assert scores.nll(cooled, labels) <= min(others) + 1e-9


def test_it_equals_a_golden_section_search() -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(200, 3)) * 4
    labels = np.array([random.choice(3, p=p) for p in scores.probabilities(logits / 3)])
    searched = slow.best_temperature(logits.tolist(), labels.tolist(), COLDEST, HOTTEST)
    assert temperature_fit(logits, labels).value == pytest.approx(searched, rel=1e-6)


def test_a_planted_temperature_is_found_by_hand() -> None:
    """Three of four are right at one confidence: the best confidence is 3/4, so T = margin / log 3."""
    logits, labels = np.array([[5.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    fit, turned = temperature_fit(logits, labels), temperature_fit(-logits, labels)
    assert fit.value == pytest.approx(5 / np.log(3), rel=1e-9) and not fit.at_bound
    assert turned.value != pytest.approx(fit.value, rel=1e-2)  # an error of sign


@pytest.mark.parametrize(
    ("logits", "labels", "wanted"),
    [
        (logits_of([0.9, 0.8]), [0, 0], (COLDEST, True)),
        (logits_of([0.9, 0.8]), [1, 1], (HOTTEST, True)),
        (np.full((3, 2), 7.0), [0, 1, 0], (1.0, False)),
    ],
    ids=["all right", "worse than chance", "nothing to fit"],
)
def test_bounds_are_reached_and_said(logits: np.ndarray, labels: list[int], wanted: tuple[float, bool]) -> None:
    assert temperature_fit(logits, np.array(labels)) == wanted


TEMPERATURES = (0.0, -1.0, float("nan"), float("inf"))
test_a_temperature_that_is_none_is_refused = refused(
    BadInput, *(("positive number", scaled, np.zeros((1, 2)), temperature) for temperature in TEMPERATURES)
)


test_no_predictions_are_refused = refused(
    BadInput,
    ("no predictions", lambda: temperature_fit(np.empty((0, 2)), np.empty(0, dtype=int))),
)
