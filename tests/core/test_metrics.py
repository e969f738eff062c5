"""Tests of the table of metrics: every row is computed, in range, shown in its unit, and refused if not applicable."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given

from skillviz.analysis.tables import task_metric
from skillviz.core import metrics
from skillviz.core.metrics import METRICS, metric_row
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.errors import BadInput
from skillviz.runs.record import TaskNote
from skillviz.tasks.task import Task
from tests.core.drawn_predictions import PROPERTY, predictions
from tests.reference.calibration import TWINS
from tests.refused import refused


@PROPERTY
@given(predictions())
def test_the_scores_are_the_rows_of_the_table(drawn: tuple) -> None:
    scores = metrics.score(*drawn)
    classes = drawn[0].shape[1]
    of_classes = [name for name in metrics.SCORED if not METRICS[name].of_text]
    assert list(scores) == [name for name in of_classes if METRICS[name].classes in (None, classes)]
    assert set(TWINS) == set(of_classes)
    for name in scores.keys() - {"f1"}:  # F1 of one class is undefined here
        assert scores[name] == pytest.approx(TWINS[name](*drawn), rel=1e-9, abs=1e-12), name
    assert scores["ece"] == metrics.ece(*drawn, bins=15)
    for name, value in scores.items():
        whole = metrics.statistic(name, *drawn)(np.ones((1, len(drawn[1]))))[0]
        assert value == pytest.approx(whole, rel=1e-9, abs=1e-12, nan_ok=True)
        assert math.isnan(value) or METRICS[name].lowest - 1e-12 <= value <= METRICS[name].highest + 1e-12


def test_inputs_are_left_as_they_were() -> None:
    logits, labels = np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20, dtype=int)
    before = logits.copy()
    assert set(metrics.score(logits, labels, names=("ece", "f1"))) == {"ece"}
    assert np.array_equal(logits, before) and not labels.any()


test_bad_scores_are_refused = refused(
    BadInput,
    ("no predictions", lambda: metrics.ece(np.empty((0, 2)), np.empty(0, dtype=int))),
    ("'auc'.* known: accuracy, f1", lambda: metrics.score(np.zeros((2, 2)), np.array([0, 1]), "auc")),
    ("'agreement'.* known: accuracy, f1", lambda: metrics.score(np.zeros((2, 2)), np.array([0, 1]), "agreement")),
    ("two classes", lambda: metrics.score(np.zeros((2, 3)), np.array([0, 1]), "f1")),
)


def test_a_tasks_own_metric_comes_first_and_f1_only_there() -> None:
    assert metrics.HEADLINE[:3] == ("accuracy", "ece", "nll")
    names = [metrics.metric_names(own) for own in ("accuracy", "f1")]
    assert names == [list(metrics.HEADLINE), ["f1", *metrics.HEADLINE]]
    assert metrics.panels("f1")[:3] == ["f1", "ece", "nll"] and "accuracy" not in metrics.panels("f1")
    assert all(METRICS[name].help.endswith(".") for name in metrics.SCORED)  # the glossary uses them
    assert set(metrics.HEADLINE) <= set(metrics.COMPARED) <= set(metrics.SCORED)


CELLS = {
    (0.083, 0.061, 0.079, 0.07): "7.0 (6.1–7.9), plug-in 8.3",
    (0.083, None, None): "8.3",
    (None, 0.1, 0.2): "n/a",
    (0.083, 0.061, 0.096): "8.3 (6.1–9.6)",
    (0.083, 0.061, 0.096, math.nan): "8.3 (6.1–9.6)",
}
"""Cells of a calibration error, by its value, ends and debiased value."""


def test_values_are_shown_in_the_units_of_their_row() -> None:
    texts = {("accuracy", 0.8012): "80.1%", ("nll", 0.4304): "0.430 nats", ("brier", 0.25): "0.250"}
    texts |= {("ece", math.nan): "n/a", ("nll", None): "n/a", ("mcc", 0.5): "0.500"}
    assert {key: metric_row(key[0]).text(key[1]) for key in texts} == texts
    assert metric_row("nll").number(0.4304) == "0.430"
    assert [metric_row(name).axis for name in ("ece", "brier", "mcc")] == ["ECE, %", "Brier score", "mcc"]


def test_intervals_name_the_debiased_error() -> None:
    row = METRICS["ece"]
    assert {ends: row.cell(*ends) for ends in CELLS} == CELLS
    assert METRICS["accuracy"].cell(0.825, 0.793, 0.853) == "82.5 (79.3–85.3)"
    assert METRICS["accuracy"].difference(-0.029, -0.051, -0.008) == "−2.9 points (95%: −5.1 to −0.8)"
    assert row.difference(-0.029, -0.051, -0.008, -0.026) == "−2.6 points (95%: −5.1 to −0.8)"
    hover = row.hover({"value": 0.083, "debiased": 0.07, "low": 0.061, "high": 0.079})
    assert hover == "7.0% ECE<br>95%: 6.1–7.9; plug-in 8.3%", "the plug-in value is one step behind"


def test_a_difference_is_decided_only_where_its_interval_leaves_out_zero() -> None:
    ends = ((0.01, 0.02), (-0.02, -0.01), (-0.01, 0.01), (0.1, 0.1), (None, None))
    undecided = [NO_DIFFERENCE, NOT_MEASURED, NOT_MEASURED]
    found = {name: [METRICS[name].verdict(*one) for one in ends] for name in ("accuracy", "nll")}
    assert found == {"accuracy": ["better", "worse", *undecided], "nll": ["worse", "better", *undecided]}


def test_a_task_and_a_record_know_the_metrics_that_may_be_a_task_s_own() -> None:
    own = {row.name for row in metrics.OWN}
    assert [set(get_args(model.model_fields["metric"].annotation)) for model in (Task, TaskNote)] == [own, own]
    first = {("accuracy", "f1"): "f1", ("nll", "perplexity"): "perplexity", ("nll",): "accuracy"}
    first |= {("perplexity", "exact_match"): "exact_match"}
    assert {names: task_metric(names) for names in first} == first
