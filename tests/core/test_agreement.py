"""Tests of agreement, McNemar's test, confusion matrices and results by class: slow twins and by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.agreement import agreement, agreement_interval, mcnemar
from skillviz.core.confusion import COLUMNS, class_results, confusion
from skillviz.core.intervals import bootstrap, wilson
from skillviz.errors import BadData, BadInput
from tests.core.by_hand import by_hand, near
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import agreement as slow
from tests.refused import refused


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
    both = (logits_of([0.9 if right == "1" else 0.1 for right in text]) for text in (a, b))
    return mcnemar(*both, np.zeros(len(a), dtype=int))


def of_class(logits: np.ndarray, labels: np.ndarray, c: int) -> pd.DataFrame:
    found = class_results({"grafted": logits}, labels, resamples=50)
    return found[found["class"] == c].set_index("metric")


A, FIVE, WRONG = np.zeros((3, 2)), (said(0, 0, 1, 2, 2), np.array([0, 1, 1, 2, 0])), np.array([0, 0, 1, 1])
ENDS = ["value", "low", "high"]
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
    ("resamples that never differ", near(0.0, math.nan, math.nan),
     lambda: of_class(said(1, 1, 1, 1), WRONG, 0).loc["f1", ENDS].tolist()),
    ("a matrix", [[1, 0, 1], [1, 1, 0], [0, 0, 1]], lambda: confusion(*FIVE).tolist()),
)  # fmt: skip
test_bad_input = refused(
    BadInput,
    (r"\(3, 2\) and \(2, 2\)", agreement, A, A[:2]),
    ("no predictions", agreement, A[:0], A[:0]),
    ("one label for each", mcnemar, A, A[:2], [0, 0, 0]),
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
            assert value == pytest.approx(math.nan if wanted is None else wanted, rel=1e-12, nan_ok=True)
            no_interval = math.isnan(low) and math.isnan(high)
            assert no_interval if wanted is None else low <= value <= high or (metric == "f1" and no_interval)


def test_intervals_are_wilsons_and_the_bootstraps() -> None:
    rng = np.random.default_rng(3)
    y, states = rng.integers(0, 3, 60), {name: rng.normal(size=(60, 3)) for name in ("grafted", "finetuned")}
    found = class_results(states, y, resamples=200).set_index(["state", "class", "metric"])
    for key, of in ((("grafted", 1, "recall"), "n"), (("finetuned", 2, "precision"), "predicted")):
        assert tuple(found.loc[key, ["low", "high"]]) == wilson(*found.loc[key, ["right", of]]), key
    for state, logits in states.items():
        own = bootstrap(logits, y, "f1", resamples=200, positive=2)
        assert found.loc[(state, 2, "f1"), ["value", "low", "high"]].tolist() == pytest.approx(own[:3], rel=1e-12)
