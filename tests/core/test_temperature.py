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


@PROPERTY
@given(predictions())
def test_the_fit_never_worsens_nll_nor_changes_a_prediction(drawn: tuple) -> None:
    logits, labels = drawn
    fit = temperature_fit(logits, labels)
    assert COLDEST <= fit.value <= HOTTEST
    cooled = scaled(logits, fit.value)
    assert scores.nll(cooled, labels) <= scores.nll(logits, labels) + 1e-12
    assert (scores.predictions(cooled) == scores.predictions(logits)).all()


@PROPERTY
@given(predictions())
def test_no_other_temperature_is_better(drawn: tuple) -> None:
    logits, labels = drawn
    best = scores.nll(scaled(logits, temperature_fit(logits, labels).value), labels)
    for other in np.geomspace(COLDEST, HOTTEST, 25):
        assert scores.nll(scaled(logits, other), labels) >= best - 1e-9


def test_it_equals_a_golden_section_search() -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(200, 3)) * 4
    labels = np.array([random.choice(3, p=p) for p in scores.probabilities(logits / 3)])
    searched = slow.best_temperature(logits.tolist(), labels.tolist(), COLDEST, HOTTEST)
    assert temperature_fit(logits, labels).value == pytest.approx(searched, rel=1e-6)


def test_a_planted_temperature_is_found_by_hand() -> None:
    """Three of four are right at one confidence: the best confidence is 3/4, so T = margin / log 3."""
    logits, labels = np.array([[5.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    fit = temperature_fit(logits, labels)
    assert fit.value == pytest.approx(5 / np.log(3), rel=1e-9) and not fit.at_bound
    assert scores.probabilities(scaled(logits, fit.value))[0, 0] == pytest.approx(0.75, rel=1e-9)
    assert temperature_fit(-logits, labels).value != pytest.approx(fit.value, rel=1e-2)  # an error of sign


def test_bounds_are_reached_and_said() -> None:
    sure = logits_of([0.9, 0.8])
    assert temperature_fit(sure, np.array([0, 0])) == (COLDEST, True)
    worse_than_chance = temperature_fit(sure, np.array([1, 1]))
    assert (worse_than_chance.value, worse_than_chance.at_bound) == (HOTTEST, True)


def test_equal_logits_leave_nothing_to_fit() -> None:
    fit = temperature_fit(np.full((3, 2), 7.0), np.array([0, 1, 0]))
    assert (fit.value, fit.at_bound) == (1.0, False)


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="no predictions"):
        temperature_fit(np.empty((0, 2)), np.empty(0, dtype=int))
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="positive number"):
            scaled(np.zeros((1, 2)), temperature)
