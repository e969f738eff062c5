"""Tests of risk and coverage against all orders of tied examples, by hand, and of the paired difference."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.scores import confidence, correct, probabilities
from skillviz.core.selective import POINTS, _risks, aurc_difference, risk_coverage
from tests.core.drawn_predictions import logits_of
from tests.reference import selective as slow


@pytest.mark.parametrize("n", range(1, 8))
def test_risks_are_means_over_all_orders_of_ties_also_those_of_a_resample(n: int) -> None:
    random = np.random.default_rng(n)
    for times in (np.ones(n, dtype=int), *random.multinomial(n, [1 / n] * n, 4)):
        logits, labels = random.integers(0, 3, (n, 3)).astype(float), random.integers(0, 3, n)
        (found,) = _risks(logits, labels, np.arange(1, n + 1))(times[None].astype(float))
        z, y = (np.repeat(part, times, axis=0) for part in (logits, labels))
        wanted = slow.risks(list(confidence(probabilities(z))), list(~correct(z, y)))
        assert found.tolist() == pytest.approx([np.mean(wanted), *wanted], abs=1e-12)


def test_by_hand_a_tie_counts_half_and_no_error_gives_a_band_but_no_interval_of_the_area() -> None:
    found = risk_coverage(logits_of([0.9, 0.8, 0.8, 0.6]), np.array([0, 1, 0, 1]))
    assert np.allclose(found.curve[["coverage", "risk"]].T, [[0.25, 0.5, 0.75, 1], [0, 0.25, 1 / 3, 0.5]])
    assert abs(found.aurc.value - np.mean([0, 1 / 2, 1 / 3, 1 / 2])) > 0.05, "the stored order of ties would be seen"
    certain = risk_coverage(logits_of([0.9] * 20), np.zeros(20, dtype=int))
    assert certain.curve["high"].iloc[0] > 0.5 and certain.aurc.value == 0 and np.isnan(certain.aurc.low)


def test_a_difference_is_paired() -> None:
    random = np.random.default_rng(0)
    one = random.normal(0, 2, (250, 3))
    labels = np.where(random.random(250) < probabilities(one).max(1), one.argmax(1), random.integers(0, 3, 250))
    a, b = (risk_coverage(z, labels) for z in (one, one + random.normal(0, 0.8, one.shape)))
    less, apart = aurc_difference(a, b), np.hypot(*(of.aurc.high - of.aurc.low for of in (a, b)))
    assert less.low < less.value == a.aurc.value - b.aurc.value < less.high and len(a.curve) == POINTS
    assert less.high - less.low < 0.8 * apart, "without pairing it would be wider"
    assert aurc_difference(a, a)[:3] == (0, 0, 0)
