"""Tests of metrics by hand, of intervals that contain the value, and of missing numbers."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.intervals import Interval, wilson
from skillviz.core.metrics import COMPARED, WITHOUT_INTERVAL, metric_names
from skillviz.runs.held_out import fitted
from skillviz.runs.metrics import (
    SCALED,
    curve_rows,
    estimate,
    graft_row,
    graft_row_of,
    metrics,
    split_scores,
)
from skillviz.runs.record import TaskNote

TASK = TaskNote(name="t", labels=("no", "yes"))
THREE = TaskNote(name="t", labels=("a", "b", "c"))
F1 = TaskNote(name="t", labels=("no", "yes"), metric="f1", positive=1)


def data(n: int = 80, classes: int = 2, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return logits of the four states, the fine-tuned one accurate but overconfident, and the labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    signal = np.eye(classes)[labels]
    strengths = {"pretrained": (0.2, 1), "finetuned": (1.5, 6), "grafted": (1.4, 2), "complement": (0.4, 1)}
    logits = {
        state: (sure * (strength * signal + rng.normal(size=(n, classes)))).astype(np.float32)
        for state, (strength, sure) in strengths.items()
    }
    return logits, labels


def test_every_value_lies_in_its_interval() -> None:
    logits, labels = data()
    for name, found in metrics(logits["grafted"], labels, TASK).items():
        if name in WITHOUT_INTERVAL:
            assert found.low is None and found.high is None
        else:
            assert found.low <= found.value <= found.high, name


def test_accuracy_has_wilsons_interval() -> None:
    logits = np.array([[1.0, 0.0]] * 7 + [[0.0, 1.0]] * 3)
    found = metrics(logits, np.zeros(10, dtype=int), TASK)["accuracy"]
    assert found.value == 0.7
    assert (found.low, found.high) == wilson(7, 10)


def test_f1_is_there_for_two_labels_only() -> None:
    logits, labels = data(classes=3)
    assert "f1" not in metrics(logits["grafted"], labels, THREE)
    logits, labels = data()
    assert "f1" in metrics(logits["grafted"], labels, TASK)


def test_differences_are_grafted_less_finetuned() -> None:
    logits, labels = data()
    found = split_scores(logits, labels, F1, fitted(logits, labels, True).value)
    assert list(found.differences) == metric_names("f1", COMPARED)
    for name, difference in found.differences.items():
        expected = found.states["grafted"][name].value - found.states["finetuned"][name].value
        assert difference.value == pytest.approx(expected)
        assert difference.low <= difference.value <= difference.high
    against_scaled = found.scaled_differences["nll"].value
    assert against_scaled == pytest.approx(found.states["grafted"]["nll"].value - found.states[SCALED]["nll"].value)
    assert found.differences["ece"].value < 0  # the fine-tuned model here is very overconfident


def test_a_temperature_changes_calibration_and_nothing_else() -> None:
    logits, labels = data()
    temperature = fitted(logits, labels, True).value
    assert temperature is not None and temperature > 1
    found = split_scores(logits, labels, TASK, temperature).states
    assert found[SCALED]["accuracy"] == found["finetuned"]["accuracy"]
    assert found[SCALED]["nll"].value < found["finetuned"]["nll"].value
    assert SCALED not in split_scores(logits, labels, TASK).states


def test_what_is_known_is_not_scored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = data()
    known = {"finetuned": metrics(logits["grafted"], labels, TASK)}
    assert split_scores(logits, labels, TASK, known=known).states["finetuned"] == known["finetuned"]


def test_agreement_and_recovered_gain_of_the_ends() -> None:
    logits, labels = data()
    same = split_scores({**logits, "grafted": logits["finetuned"]}, labels, TASK)
    assert same.agreement.value == 1 and same.recovered.value == 1
    assert all(d.value == d.low == d.high == 0 for d in same.differences.values())
    none = split_scores({**logits, "grafted": logits["pretrained"]}, labels, TASK)
    assert none.recovered.value == 0


def test_a_gain_of_nothing_is_undefined_and_not_a_number() -> None:
    logits, labels = data()
    flat = split_scores({**logits, "pretrained": logits["finetuned"]}, labels, TASK)
    assert flat.recovered is not None
    assert flat.recovered.value is None and flat.recovered.low is None
    assert estimate(Interval(float("nan"), 0.0, float("inf"))).model_dump() == {"value": None, "low": 0.0, "high": None}


def test_a_split_with_one_state_has_no_comparison() -> None:
    logits, labels = data()
    found = split_scores({"pretrained": logits["pretrained"]}, labels, TASK)
    assert found.differences == {} and found.agreement is None and found.recovered is None


def test_the_curve_says_the_same_by_both_ways() -> None:
    logits, labels = data()
    row = graft_row(logits, labels, TASK)
    assert row == graft_row_of(split_scores(logits, labels, TASK))
    rows = curve_rows(row, size=5)
    assert {r["metric"] for r in rows} >= {"accuracy", "ece", "agreement", "recovered"}
    assert all(r["size"] == 5 for r in rows)
