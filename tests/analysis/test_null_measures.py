"""Tests of measures that separate a graft from its nulls: each against loops, and the table against a stored run."""

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.null_measures import FIVE, MEASURES, Predictions, Reference, by_measure
from skillviz.runs.store import Store, shipped_root
from skillviz.show import beyond
from tests.core.by_hand import by_hand, near
from tests.reference.calibration import softmax
from tests.small_world import opening_run

LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
RANDOM = np.random.default_rng(0)
MODEL, TUNED = RANDOM.normal(0, 2, (12, 3)), RANDOM.normal(0, 2, (12, 3))


def twin(name: str, scale: float) -> list[float]:
    """Compute the measure of each example with loops; `scale` is the inverse temperature of the scaled measures."""
    found = []
    for z, other, label in zip(MODEL, TUNED, LABELS, strict=True):
        p, q, scaled = softmax(z), softmax(other), softmax(scale * z)
        answer, tuned = p.index(max(p)), q.index(max(q))
        found += [] if name == "shared errors" and tuned == label else [{
            "accuracy": float(answer == label),
            "NLL": np.log(p[label]),
            "NLL, scaled": np.log(scaled[label]),
            "Brier score, scaled": -sum((one - (k == label)) ** 2 for k, one in enumerate(scaled)),
            "agreement": float(answer == tuned),
            "shared probability": 1 - sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2,
            "shared errors": float(answer == tuned),
        }[name]]  # fmt: skip
    return found


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_what_its_formula_says(name: str) -> None:
    score, reference = MEASURES[name].score, Reference(LABELS, TUNED)
    assert score(Predictions(MODEL, 0.5 * MODEL), reference) == pytest.approx(twin(name, 0.5), rel=1e-9)
    assert (score(Predictions(MODEL, None), reference) is None) == name.endswith("scaled")


test_by_hand = by_hand(
    *((f"the fine-tuned model has all of its own {name}", near(1), MEASURES[name].score, Predictions(TUNED, None),
       Reference(LABELS, TUNED)) for name in ("agreement", "shared probability", "shared errors")),
    ("few errors have no share", None, MEASURES["shared errors"].score, Predictions(TUNED, None),
     Reference(LABELS, np.where(np.arange(len(LABELS))[:, None] < FIVE - 1, -1, 1) * np.eye(3)[LABELS])),
)  # fmt: skip


def test_accuracy_and_loss_are_those_that_the_run_stores() -> None:
    run = opening_run()
    found, note = by_measure(run).set_index("measure"), run.record.null("test")
    assert note is not None and set(found.index) == set(MEASURES)
    stored = [note.beyond["test"][metric] for metric in ("accuracy", "nll")]
    np.testing.assert_allclose(
        found.loc[["accuracy", "NLL"], ["beyond", "low", "high"]],
        [[one.value, one.low, one.high] for one in stored],
        atol=1e-6,
    )
    assert (found["draws"] == note.draws).all() and found.loc["shared errors", "examples"] < found["examples"].max()
    error = (found["high"] - found["low"]) / (2 * 1.959964)
    assert found["standard_errors"].tolist() == pytest.approx((found["beyond"] / error).tolist())


def test_the_graft_is_read_in_the_order_of_its_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    run = opening_run()
    expected = by_measure(run)
    turned = pd.concat([rows[::-1] for _, rows in run.nulls().groupby(["null", "draw", "split"])])
    monkeypatch.setattr(type(run), "nulls", lambda self: turned)
    pd.testing.assert_frame_equal(by_measure(run), expected, rtol=1e-9)


def test_a_run_without_nulls_has_no_measures_and_says_nothing() -> None:
    found = by_measure(next(run for run in Store(shipped_root()).list() if not run.record.nulls))
    assert found.empty and beyond.likeness(found) == "" and beyond.measures(found).empty
