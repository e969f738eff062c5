"""Tests of the gain with the lowest NLL: its place on known curves, its bootstrap interval, and its range's end."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.gain import GAINS, gain_fit
from skillviz.errors import BadData


def logits_of(scores: np.ndarray, best: float) -> np.ndarray:
    """Return logits [gain, n, 2] of grafts whose margin is `scores` times a factor that is 1 at the gain `best`."""
    step = np.log2(GAINS + 1) - np.log2(best + 1)
    margins = scores[None, :] * np.exp(step)[:, None]
    return np.stack([-margins / 2, margins / 2], axis=2)


def calibrated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the margins of a calibrated model, and labels drawn from its probabilities."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 2, n)
    return scores, (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(np.int64)


@pytest.mark.parametrize("best", [1.0, 3.0, 12.0])
def test_the_fit_is_where_the_graft_is_calibrated(best: float) -> None:
    scores, labels = calibrated(4000, 0)
    fit = gain_fit(logits_of(scores, best), labels)
    assert fit.value == pytest.approx(best, rel=0.2) and fit.low < fit.value < fit.high and fit.is_bounded


@pytest.mark.slow
def test_the_interval_covers_the_gain_of_the_population() -> None:
    covered = []
    for seed in range(60):
        fit = gain_fit(logits_of(calibrated(300, seed)[0], 4.0), calibrated(300, seed)[1])
        covered.append(fit.low <= 4.0 <= fit.high)
    assert 0.85 <= np.mean(covered) <= 1


def test_a_curve_that_still_falls_is_not_bounded() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 100)
    margins = np.where(labels == 1, 0.01, -0.01)[None, :] * (1 + GAINS)[:, None]
    fit = gain_fit(np.stack([-margins, margins], axis=2), labels)
    assert fit.value == GAINS[-1] and not fit.is_bounded and fit.low == GAINS[-1]


def test_movement_that_only_hurts_has_the_gain_0() -> None:
    labels = np.random.default_rng(2).integers(0, 2, 100)
    margins = np.where(labels == 1, -0.1, 0.1)[None, :] * GAINS[:, None]
    assert gain_fit(np.stack([-margins, margins], axis=2), labels) == (0.0, 0.0, 0.0)


def test_other_gains_than_those_tried_are_refused() -> None:
    with pytest.raises(BadData, match=f"{len(GAINS)} grafts; got 3"):
        gain_fit(np.zeros((3, 4, 2)), np.zeros(4, dtype=np.int64))
