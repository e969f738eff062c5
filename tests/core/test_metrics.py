"""Tests of the table of metrics, of the scores of predictions and of temperatures: slow twins, ends, and bad input; and
of agreement, McNemar's test, confusion matrices and results by class."""

from collections.abc import Callable
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from skillviz.analysis.tables import task_metric
from skillviz.core import scores
from skillviz.core.agreement import agreement, agreement_interval, mcnemar
from skillviz.core.confusion import COLUMNS, class_results, confusion
from skillviz.core.intervals import bootstrap, wilson
from skillviz.core.metrics import (
    COMPARED,
    HEADLINE,
    METRICS,
    OWN,
    SCORED,
    ece,
    metric_names,
    metric_row,
    panels,
    score,
    statistic,
)
from skillviz.core.temperature import COLDEST, HOTTEST, scaled, temperature_fit
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.errors import BadData, BadInput
from skillviz.runs.record import TaskNote
from skillviz.tasks.task import Task
from tests.core.by_hand import by_hand, near, refused
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import calibration as slow


@PROPERTY
@given(predictions())
def test_the_scores_are_the_rows_of_the_table(drawn: tuple) -> None:
    found, classes = score(*drawn), drawn[0].shape[1]
    of_classes = [name for name in SCORED if not METRICS[name].of_text]
    assert list(found) == [name for name in of_classes if METRICS[name].classes in (None, classes)]
    assert set(slow.TWINS) == set(of_classes)
    wanted = {name: slow.TWINS[name](*drawn) for name in found if name != "f1"}  # F1 of one class is undefined here
    assert {name: found[name] for name in wanted} == near(wanted, rel=1e-9, abs=1e-12)
    assert found["ece"] == ece(*drawn, bins=15)
    again = {name: statistic(name, *drawn)(np.ones((1, len(drawn[1]))))[0] for name in found}
    assert found == near(again, rel=1e-9, abs=1e-12)
    ranges = {
        name: (METRICS[name].lowest - 1e-12, value, METRICS[name].highest + 1e-12) for name, value in found.items()
    }
    assert {name: of for name, of in ranges.items() if not (np.isnan(of[1]) or of[0] <= of[1] <= of[2])} == {}


def test_inputs_are_left_as_they_were() -> None:
    logits, labels = np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20, dtype=int)
    before = logits.copy()
    assert set(score(logits, labels, names=("ece", "f1"))) == {"ece"}
    assert np.array_equal(logits, before) and not labels.any()


@PROPERTY
@given(predictions())
def test_scores_equal_their_slow_twins_and_confidences_are_those_of_a_distribution(drawn: tuple) -> None:
    logits, labels = drawn
    twins = {"accuracy": slow.accuracy, "nll": slow.nll, "f1": slow.f1}
    wanted = pytest.approx({name: twin(*drawn) for name, twin in twins.items()}, rel=1e-9, abs=1e-12, nan_ok=True)
    assert {name: getattr(scores, name)(*drawn) for name in twins} == wanted
    shifted, plain = (
        [metric(logits.astype(np.float64) + shift, labels) for metric in (scores.accuracy, scores.nll)]
        for shift in (8.0, 0.0)
    )
    assert shifted == pytest.approx(plain, rel=1e-9, abs=1e-9)
    probs = scores.probabilities(logits)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-12)
    sure, turned = scores.confidence(probs), logits[:, np.random.default_rng(0).permutation(logits.shape[1])]
    assert probs.dtype == np.float64 and (sure >= 1 / logits.shape[1] - 1e-12).all() and (sure <= 1).all()
    assert np.array_equal(sure, scores.confidence(scores.probabilities(turned))), "the order of classes counts"


LARGE, HALVES = np.array([[1e30, -1e30], [-1e30, 1e30]], dtype=np.float32), np.array([[0.1, 0.2]], dtype=np.float16)
GUESSED, SURE = 4.0 * np.eye(3)[[1, 1, 1, 0, 0]], np.array([[5.0, 0.0]] * 4)
FOUR, NAN = np.array([0, 0, 0, 1]), np.nan  # at one confidence three of four are right: the best one is 3/4


FUNCTIONS = (scores.accuracy, scores.nll, scores.f1)


@PROPERTY
@given(predictions())
def test_no_other_temperature_is_better_and_no_prediction_changes(drawn: tuple) -> None:
    logits, labels = drawn
    fit = temperature_fit(logits, labels)
    cooled = scaled(logits, fit.value)
    assert COLDEST <= fit.value <= HOTTEST and (scores.predictions(cooled) == scores.predictions(logits)).all()
    assert (
        scores.nll(cooled, labels)
        <= min([scores.nll(scaled(logits, other), labels) for other in (*np.geomspace(COLDEST, HOTTEST, 25), 1)]) + 1e-9
    )


def test_the_temperature_equals_a_search_with_the_slow_nll() -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(200, 3)) * 4
    labels = np.array([random.choice(3, p=p) for p in scores.probabilities(logits / 3)])
    fitted = minimize_scalar(
        lambda log_t: slow.nll(logits / np.exp(log_t), labels),
        bounds=np.log([COLDEST, HOTTEST]),
        options={"xatol": 1e-9},
    )
    assert temperature_fit(logits, labels).value == pytest.approx(np.exp(fitted.x), rel=1e-6)


@PROPERTY
@given(predictions(), st.integers(0, 1000))
def test_agreement_equals_its_slow_twin(drawn: tuple, seed: int) -> None:
    a = drawn[0]
    b = a + np.random.default_rng(seed).normal(size=a.shape) * a.std()
    value, low, high = agreement_interval(a, b)[:3]
    assert value == agreement(a, b) == agreement(b, a) == pytest.approx(slow.agreement(a, b), rel=1e-12)
    assert (low, high) == pytest.approx(wilson(value * len(a), len(a)), abs=1e-12) and agreement(a, a) == 1.0


@PROPERTY
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_mcnemar_equals_counting_every_fall_of_the_coins(right: list[tuple[bool, bool]]) -> None:
    a, b = (logits_of([0.9 if r[i] else 0.1 for r in right]) for i in (0, 1))
    labels = np.zeros(len(right), dtype=int)
    p, n01, n10 = mcnemar(a, b, labels)
    assert (n01, n10) == slow.discordant(a, b, labels) and mcnemar(b, a, labels) == (p, n10, n01)
    assert p == pytest.approx(slow.exact_p(n01, n10), rel=1e-12)


def said(*classes: int) -> np.ndarray:
    return 4.0 * np.eye(3)[list(classes)]


def right(a: str, b: str) -> tuple[float, int, int]:
    """Return McNemar's test of two models, where 1 is a right answer."""
    return mcnemar(
        *(logits_of([0.9 if right == "1" else 0.1 for right in text]) for text in (a, b)), np.zeros(len(a), dtype=int)
    )


def of_class(logits: np.ndarray, labels: np.ndarray, c: int) -> pd.DataFrame:
    found = class_results({"grafted": logits}, labels, resamples=50)
    return found[found["class"] == c].set_index("metric")


A, FIVE, WRONG = np.zeros((3, 2)), (said(0, 0, 1, 2, 2), np.array([0, 1, 1, 2, 0])), np.array([0, 0, 1, 1])
DRAW = np.random.default_rng(3)
OF_STATES, STATES = DRAW.integers(0, 3, 60), {name: DRAW.normal(size=(60, 3)) for name in ("grafted", "finetuned")}
RESULTS = class_results(STATES, OF_STATES, resamples=200).set_index(["state", "class", "metric"])
ENDS, MIXED = ["value", "low", "high"], (logits_of([0.9, 0.2, 0.7, 0.4]), np.array([0, 1, 0, 0]))
test_by_hand = by_hand(
    ("one better", (2 / 2**5, 5, 0), right, "0000011111", "1111111111"),
    ("the same", (1.0, 0, 0), right, "1111111111", "1111111111"),
    ("many, one better: 2^-19999 is no float", (0.0, 0, 20_000), right, "1" * 20_000, "0" * 20_000),
    ("many, level", (1.0, 10_000, 10_000), right, "10" * 10_000, "01" * 10_000),
    ("results", (9, list(COLUMNS)), lambda: (len(class_results({"a": FIVE[0]}, FIVE[1], resamples=5)),
                                             list(class_results({"a": FIVE[0]}, FIVE[1], resamples=5)))),
    ("counts of class 0", [2, 2, 1], lambda: of_class(*FIVE, 0).loc["precision", ["n", "predicted", "right"]].tolist()),
    ("values of class 0", near(0.5, 0.5, 0.5), lambda: of_class(*FIVE, 0)["value"].tolist()),
    ("no such class", True, lambda: of_class(said(0, 1), np.array([0, 1]), 2)[ENDS].isna().all(axis=None)),
    ("no example of it", [0, 0, 0], lambda: of_class(said(0, 1), np.array([0, 1]), 2)["n"].tolist()),
    ("resamples that never differ", near(0.0, np.nan, np.nan),
     lambda: of_class(said(1, 1, 1, 1), WRONG, 0).loc["f1", ENDS].tolist()),
    ("a matrix", [[1, 0, 1], [1, 1, 0], [0, 0, 1]], lambda: confusion(*FIVE).tolist()),
    ("huge logits", [[1.0, 0.0], [0.0, 1.0]], lambda: scores.probabilities(LARGE).tolist()),
    ("the NLL of huge logits", 0.0, scores.nll, LARGE, [0, 1]),
    ("the NLL of a wrong one", 1000.0, scores.nll, np.array([[1000.0, 0.0]]), [1]),
    ("float16 is summed in float64", near(slow.nll(HALVES, [1]), rel=1e-12), scores.nll, np.tile(HALVES, (5000, 1)),
     np.ones(5000, dtype=int)),
    ("F1", near(2 / 3), scores.f1, GUESSED, np.array([1, 1, 0, 1, 0])),
    ("F1 of class 0", near(0.5), scores.f1, GUESSED, np.array([1, 1, 0, 1, 0]), 0),
    ("F1 without a hit", near(0.0), scores.f1, GUESSED, np.array([0, 0, 0, 1, 1])),
    ("F1 of an absent class", near(NAN), scores.f1, GUESSED, np.zeros(5, dtype=int), 2),
    ("the first of equal logits", [0, 1], lambda: scores.predictions(np.array([[1.0, 1, 0], [0, 2, 2]])).tolist()),
    ("a temperature", (near(5 / np.log(3), rel=1e-9), False), temperature_fit, SURE, FOUR),
    ("a temperature of an error of sign", (HOTTEST, True), temperature_fit, -SURE, FOUR),
    ("all right", (COLDEST, True), temperature_fit, logits_of([0.9, 0.8]), np.array([0, 0])),
    ("worse than chance", (HOTTEST, True), temperature_fit, logits_of([0.9, 0.8]), np.array([1, 1])),
    ("nothing to fit", (1.0, False), temperature_fit, np.full((3, 2), 7.0), np.array([0, 1, 0])),
    ("the first panels", ["f1", "ece", "nll"], lambda: panels("f1")[:3]),
    ("no panel of accuracy beside F1", False, lambda: "accuracy" in panels("f1")),
    ("metrics of accuracy", list(HEADLINE), metric_names, "accuracy"),
    ("metrics of F1", ["f1", *HEADLINE], metric_names, "f1"),
    *((f"{name} as a text", text, lambda name=name, value=value: metric_row(name).text(value)) for name, value, text in
      (("accuracy", 0.8012, "80.1%"), ("nll", 0.4304, "0.430 nats"), ("brier", 0.25, "0.250"), ("ece", NAN, "n/a"),
       ("nll", None, "n/a"), ("mcc", 0.5, "0.500"))),
    ("a number", "0.430", metric_row("nll").number, 0.4304),
    *((f"axis of {name}", axis, lambda name=name: metric_row(name).axis) for name, axis in
      (("ece", "ECE, %"), ("brier", "Brier score"), ("mcc", "mcc"))),
    ("cell with the plug-in", "7.0 (6.1–7.9), plug-in 8.3", METRICS["ece"].cell, 0.083, 0.061, 0.079, 0.07),
    ("cell without an interval", "8.3", METRICS["ece"].cell, 0.083, None, None),
    ("cell without a value", "n/a", METRICS["ece"].cell, None, 0.1, 0.2),
    ("cell", "8.3 (6.1–9.6)", METRICS["ece"].cell, 0.083, 0.061, 0.096),
    ("cell not debiased", "8.3 (6.1–9.6)", METRICS["ece"].cell, 0.083, 0.061, 0.096, NAN),
    ("cell of accuracy", "82.5 (79.3–85.3)", METRICS["accuracy"].cell, 0.825, 0.793, 0.853),
    ("difference", "−2.9 points (95%: −5.1 to −0.8)", METRICS["accuracy"].difference, -0.029, -0.051, -0.008),
    ("debiased difference", "−2.6 points (95%: −5.1 to −0.8)", METRICS["ece"].difference, -0.029, -0.051, -0.008,
     -0.026),
    ("hover", "7.0% ECE<br>95%: 6.1–7.9; plug-in 8.3%", METRICS["ece"].hover,
     {"value": 0.083, "debiased": 0.07, "low": 0.061, "high": 0.079}),
    *((f"{metric.__name__} of labels of type {kind.__name__}", metric(*MIXED), metric, MIXED[0], MIXED[1].astype(kind))
      for metric in FUNCTIONS for kind in (bool, float, np.float32, np.uint8)),
    *((f"{metric.__name__} of other labels is another", False, lambda metric=metric: (
        metric(*MIXED) == metric(MIXED[0], 1 - MIXED[1]))) for metric in FUNCTIONS),
    *((f"the interval of {metric} is Wilson's", wilson(*RESULTS.loc[(state, c, metric), ["right", of]]),
       lambda key=(state, c, metric): tuple(RESULTS.loc[key, ["low", "high"]]))
      for state, c, metric, of in (("grafted", 1, "recall", "n"), ("finetuned", 2, "precision", "predicted"))),
    *((f"the interval of F1 is the bootstrap's, {state}",
       near(list(bootstrap(logits, OF_STATES, "f1", resamples=200, positive=2)[:3]), rel=1e-12),
       lambda state=state: RESULTS.loc[(state, 2, "f1"), ENDS].tolist()) for state, logits in STATES.items()),
    ("the first headline metrics", ("accuracy", "ece", "nll"), lambda: HEADLINE[:3]),
    ("all have help, which the glossary uses", [], lambda: [m for m in SCORED if not METRICS[m].help.endswith(".")]),
    ("the lists of metrics hold each other", True, lambda: set(HEADLINE) <= set(COMPARED) <= set(SCORED)),
    # A difference is decided only where its interval leaves out zero.
    *((f"{name} of {low} to {high}", said, METRICS[name].verdict, low, high)
      for name, above, below in (("accuracy", "better", "worse"), ("nll", "worse", "better"))
      for low, high, said in ((0.01, 0.02, above), (-0.02, -0.01, below), (-0.01, 0.01, NO_DIFFERENCE),
                              (0.1, 0.1, NOT_MEASURED), (None, None, NOT_MEASURED))),
    *((f"the metrics that may be a task's own, {model.__name__}", {row.name for row in OWN},
       lambda model=model: set(get_args(model.model_fields["metric"].annotation))) for model in (Task, TaskNote)),
    *((f"own metric of {names}", own, task_metric, names) for names, own in
      ((("accuracy", "f1"), "f1"), (("nll", "perplexity"), "perplexity"), (("nll",), "accuracy"),
       (("perplexity", "exact_match"), "exact_match"))),
)  # fmt: skip
test_bad_input_is_one_clear_sentence = refused(
    BadInput,
    (r"\(3, 2\) and \(2, 2\)", agreement, A, A[:2]),
    ("no predictions", agreement, A[:0], A[:0]),
    ("one label for each", mcnemar, A, A[:2], [0, 0, 0]),
    *(
        (words, metric, logits, labels)
        for logits, labels, words in (
            (np.empty((0, 2)), np.empty(0, dtype=int), "no predictions"),
            (np.zeros(3), [0, 0, 0], r"\[examples, classes\]"),
            (np.zeros((3, 2)), [0, 1], "one label for each of the 3"),
            (np.zeros((2, 2)), [0, 2], "label 2 is not a class"),
            (np.zeros((2, 2)), [-1, 0], "label -1 is not a class"),
            (np.zeros((2, 2)), [0.0, 0.5], r"whole class numbers; got 0\.5"),
            (np.zeros((2, 2)), [0.0, np.nan], "whole class numbers; got nan"),
            (np.zeros((2, 2)), [0.0, 2.0], "label 2 is not a class"),
            (np.zeros((2, 2)), ["0", "1"], "whole class numbers; got <U1"),
            (np.array([[0.0, 1.0], [np.nan, 0.0]]), [0, 1], "example 1 are not finite; the model's numbers overflowed"),
            (np.array([[0.0, 1.0], [-np.inf, np.inf]]), [0, 1], "overflowed"),
            (np.array([[0.0, 1.0], [-np.inf, 0.0]]), [0, 1], "example 1 are not finite; -inf masks a class; use a low"),
        )
        for metric in FUNCTIONS
    ),
    (r"0\.\.1; got 2", lambda: scores.f1(np.zeros((2, 2)), [0, 1], positive=2)),
    ("no predictions", scores.predictions, np.empty((0, 3))),
    ("no predictions", lambda: ece(np.empty((0, 2)), np.empty(0, dtype=int))),
    ("'auc'.* known: accuracy, f1", lambda: score(np.zeros((2, 2)), np.array([0, 1]), "auc")),
    ("'agreement'.* known: accuracy, f1", lambda: score(np.zeros((2, 2)), np.array([0, 1]), "agreement")),
    ("two classes", lambda: score(np.zeros((2, 3)), np.array([0, 1]), "f1")),
    *(("positive number", scaled, np.zeros((1, 2)), temperature) for temperature in (0.0, -1.0, NAN, np.inf)),
    ("no predictions", temperature_fit, np.empty((0, 2)), np.empty(0, dtype=int)),
)
test_no_predictions_are_refused = refused(BadData, ("no predictions", confusion, A[:0], np.zeros(0, dtype=int)))


@PROPERTY
@given(predictions())
def test_the_matrix_equals_its_slow_twin(drawn: tuple) -> None:
    z, y = drawn
    found = confusion(z, y)
    assert found.tolist() == slow.confusion(z, y, z.shape[1]) and found.sum() == len(y)


@pytest.mark.nightly
@PROPERTY
@given(predictions())
def test_class_results_equal_their_slow_twin(drawn: tuple) -> None:
    z, y = drawn
    found = class_results({"grafted": z}, y, resamples=5).set_index(["class", "metric"])
    for c in range(z.shape[1]):
        for metric, wanted in zip(("precision", "recall", "f1"), slow.results(z, y, c), strict=True):
            value, low, high = found.loc[(c, metric), ["value", "low", "high"]]
            assert value == pytest.approx(np.nan if wanted is None else wanted, rel=1e-12, nan_ok=True)
            no_interval = np.isnan(low) and np.isnan(high)
            assert no_interval if wanted is None else low <= value <= high or (metric == "f1" and no_interval)
