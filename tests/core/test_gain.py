"""Tests of the gain with the lowest NLL: its place on known curves, its bootstrap interval, and its range's end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from skillviz.core.architectures import KINDS
from skillviz.core.gain import GAINS, SWEEPS, gain_fit, gain_fits, gain_in
from skillviz.core.parameters import BIAS, graftable
from skillviz.errors import BadData, CorruptFile
from tests.reference.gain import gains_by_kind
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


@pytest.mark.parametrize("seed", range(3))
def test_gains_by_kind_are_those_of_loops(seed: int) -> None:
    rng, kinds = np.random.default_rng(seed), ("query", "value", BIAS)
    parts = dict(zip(kinds, rng.normal(0, 0.2, (3, 60)) + [[0.1], [0.02], [-0.05]], strict=True))
    labels = rng.integers(0, 2, 60)

    def at(gains: Mapping[str, float]) -> np.ndarray:  # kinds disturb each other, so the order of steps counts
        moved = sum(gain * parts[kind] for kind, gain in gains.items())
        other = sum(gain * parts[kind][::-1] for kind, gain in gains.items())
        return logits_of(((2 * labels - 1) * np.tanh(moved) + 0.3 * np.sin(other) * other)[None, :])[0]

    def at_all(kind: str, gains: Mapping[str, float]) -> np.ndarray:
        return np.stack([at({**gains, kind: gain}) for gain in GAINS])

    found = {kind: fit.value for kind, fit in gain_fits(at_all, kinds, 3.0, labels, resamples=2).items()}
    twin, planted = (
        gains_by_kind(lambda gains: at(gains).tolist(), kinds, 3.0, labels.tolist(), SWEEPS, at_once)
        for at_once in (False, True)
    )
    assert found == pytest.approx(twin, rel=1e-6) and found != pytest.approx(planted, rel=1e-3)


def test_entries_by_kind_are_each_once_in_their_own() -> None:
    """In a fused tensor an entry's column decides; a bias is a bias in all modules."""
    table = graftable("gpt2", {"h.0.attn.c_attn.weight": (2, 6), "h.0.attn.c_attn.bias": (6,), "h.0.ln_1.weight": (2,)})
    named = ["query", "query", "key", "key", "value", "value"] * 2 + [BIAS] * 6 + ["LayerNorm"] * 2
    for flat in (np.arange(20), np.array([1, 3, 7, 11, 12, 19]), np.array([15]), np.array([], dtype=np.int64)):
        kinds = [named[index] for index in flat]
        wanted = {kind: [i for i, own in enumerate(kinds) if own == kind] for kind in (*KINDS, BIAS) if kind in kinds}
        assert [(kind, places.tolist()) for kind, places in table.by_kind(flat).items()] == list(wanted.items())
    assert table.kinds == set(named)


test_a_header_s_gain_is_a_number_or_one_by_kind = refused(
    CorruptFile,
    *(("it must be 0 or more", lambda gain=gain: gain_in({"gain": gain})) for gain in
      ("3", -1, True, float("nan"), {"key": "3"}, {"key": -1.0}, [3.0], None)),
)  # fmt: skip


test_other_gains_than_those_tried_are_refused = refused(
    BadData,
    (f"{len(GAINS)} grafts; got 3", lambda: gain_fit(np.zeros((3, 4, 2)), np.zeros(4, dtype=np.int64))),
)
