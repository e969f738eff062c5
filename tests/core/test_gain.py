"""Tests of the gain with the lowest NLL: its place on known curves, its bootstrap interval, and its range's end."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.gain import GAINS, gain_fit
from skillviz.errors import BadData
from tests.refused import refused


def logits_of(margins: np.ndarray) -> np.ndarray:
    """Return logits [gain, n, 2] with these margins [gain, n]."""
    return np.stack([-margins / 2, margins / 2], axis=2)


def grafts(scores: np.ndarray, best: float) -> np.ndarray:
    """Return logits [gain, n, 2] of grafts whose margin is `scores` times a factor that is 1 at the gain `best`."""
    return logits_of(scores[None, :] * ((GAINS + 1) / (best + 1))[:, None] ** (1 / np.log(2)))


def calibrated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the margins of a calibrated model, and labels drawn from its probabilities."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 2, n)
    return scores, (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(np.int64)


@pytest.mark.parametrize("best", [1.0, 3.0, 12.0])
def test_the_fit_is_where_the_graft_is_calibrated(best: float) -> None:
    scores, labels = calibrated(4000, 0)
    fit = gain_fit(grafts(scores, best), labels)
    assert fit.value == pytest.approx(best, rel=0.2) and fit.low < fit.value < fit.high and fit.is_bounded


@pytest.mark.nightly
def test_the_interval_covers_the_gain_of_the_population() -> None:
    drawn = [calibrated(300, seed) for seed in range(60)]
    fits = [gain_fit(grafts(scores, 4.0), labels) for scores, labels in drawn]
    assert 0.85 <= np.mean([fit.low <= 4.0 <= fit.high for fit in fits]) <= 1


@pytest.mark.parametrize(
    ("margin", "gains", "ends"), [(0.02, 1 + GAINS, (GAINS[-1], GAINS[-1])), (-0.2, GAINS, (0.0, 0.0))],
    ids=["still falls", "only hurts"],
)  # fmt: skip
def test_movement_that_only_helps_or_hurts_has_the_gain_at_the_range_s_end(
    margin: float, gains: np.ndarray, ends: tuple
) -> None:
    labels = np.random.default_rng(1).integers(0, 2, 100)
    fit = gain_fit(logits_of(np.where(labels == 1, margin, -margin)[None, :] * gains[:, None]), labels)
    assert (fit.value, fit.low) == ends and (not fit.is_bounded if margin > 0 else fit.high == 0)


test_other_gains_than_those_tried_are_refused = refused(
    BadData,
    (f"{len(GAINS)} grafts; got 3", lambda: gain_fit(np.zeros((3, 4, 2)), np.zeros(4, dtype=np.int64))),
)
