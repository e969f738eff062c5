"""Tests of scores of predictions against their slow twins, at their ends, and with bad input."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from skillviz.core import scores
from skillviz.errors import BadInput
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import calibration as slow
from tests.refused import refused

TWINS = {"accuracy": slow.accuracy, "nll": slow.nll, "f1": slow.f1}


@pytest.mark.parametrize("name", TWINS)
def test_scores_equal_their_slow_twins(name: str) -> None:
    @PROPERTY
    @given(predictions())
    def equal(drawn: tuple) -> None:
        fast = getattr(scores, name)(*drawn)
        assert fast == pytest.approx(TWINS[name](*drawn), rel=1e-9, abs=1e-12, nan_ok=True)

    equal()


@PROPERTY
@given(predictions())
def test_probabilities_are_a_distribution(drawn: tuple) -> None:
    logits, _ = drawn
    probs = scores.probabilities(logits)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-12)
    sure = scores.confidence(probs)
    assert probs.dtype == np.float64 and (sure >= 1 / logits.shape[1] - 1e-12).all() and (sure <= 1).all()


@PROPERTY
@given(predictions())
def test_a_common_shift_changes_nothing(drawn: tuple) -> None:
    logits, labels = drawn[0].astype(np.float64), drawn[1]
    for metric in (scores.accuracy, scores.nll):
        assert metric(logits + 8.0, labels) == pytest.approx(metric(logits, labels), rel=1e-9, abs=1e-9)


@PROPERTY
@given(predictions())
def test_the_order_of_classes_does_not_change_a_confidence_by_a_single_bit(drawn: tuple) -> None:
    turned = drawn[0][:, np.random.default_rng(0).permutation(drawn[0].shape[1])]
    assert np.array_equal(*(scores.confidence(scores.probabilities(logits)) for logits in (drawn[0], turned)))


def test_logits_of_any_size_neither_overflow_nor_vanish() -> None:
    logits = np.array([[1e30, -1e30], [-1e30, 1e30]], dtype=np.float32)
    assert scores.probabilities(logits).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert (scores.nll(logits, [0, 1]), scores.nll(np.array([[1000.0, 0.0]]), [1])) == (0.0, 1000.0)


def test_float16_logits_are_summed_in_float64() -> None:
    logits = np.tile(np.array([[0.1, 0.2]], dtype=np.float16), (5000, 1))
    assert scores.nll(logits, np.ones(5000, dtype=int)) == pytest.approx(slow.nll(logits[:1], [1]), rel=1e-12)


@pytest.mark.parametrize(
    ("labels", "options", "wanted"),
    [
        ([1, 1, 0, 1, 0], {}, 2 / 3),
        ([1, 1, 0, 1, 0], {"positive": 0}, 0.5),
        ([0, 0, 0, 1, 1], {}, 0.0),
        ([0, 0, 0, 0, 0], {"positive": 2}, math.nan),
    ],
)
def test_f1_by_hand_and_where_it_is_undefined(labels: list[int], options: dict[str, int], wanted: float) -> None:
    logits = 4.0 * np.eye(3)[[1, 1, 1, 0, 0]]
    assert scores.f1(logits, np.array(labels), **options) == pytest.approx(wanted, nan_ok=True)


METRICS = (scores.accuracy, scores.nll, scores.f1)


BAD = (
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
test_bad_input_is_one_clear_sentence = refused(
    BadInput,
    *((words, metric, logits, labels) for logits, labels, words in BAD for metric in METRICS),
    (r"0\.\.1; got 2", lambda: scores.f1(np.zeros((2, 2)), [0, 1], positive=2)),
    ("no predictions", scores.predictions, np.empty((0, 3))),
)


@pytest.mark.parametrize("kind", [bool, float, np.float32, np.uint8])
@pytest.mark.parametrize("metric", METRICS)
def test_labels_are_class_numbers_of_any_type(kind: type, metric: Callable[..., float]) -> None:
    logits, labels = logits_of([0.9, 0.2, 0.7, 0.4]), np.array([0, 1, 0, 0])
    assert metric(logits, labels.astype(kind)) == metric(logits, labels) != metric(logits, 1 - labels)


def test_the_first_of_equal_logits_is_the_prediction() -> None:
    assert scores.predictions(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])).tolist() == [0, 1]
