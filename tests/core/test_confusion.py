"""Tests of confusion matrices and per-class results against their slow twins and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from skillviz.core.confusion import COLUMNS, class_results, confusion
from skillviz.core.intervals import bootstrap, wilson
from skillviz.errors import BadData
from tests.core.drawn_predictions import PROPERTY, predictions
from tests.reference import confusion as slow

METRICS = ("precision", "recall", "f1")


def said(*classes: int, of: int = 3) -> np.ndarray:
    """Return logits [n, of] that predict these classes."""
    return 4.0 * np.eye(of)[list(classes)]


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
    found = class_results({"grafted": z}, y, resamples=5)
    for c in range(z.shape[1]):
        rows = found[found["class"] == c].set_index("metric")
        for metric, wanted in zip(METRICS, slow.results(z, y, c), strict=True):
            value, low, high = rows.loc[metric, ["value", "low", "high"]]
            if wanted is None:
                assert math.isnan(value) and math.isnan(low) and math.isnan(high)
            else:
                assert value == pytest.approx(wanted, rel=1e-12)
                assert low <= value <= high or (metric == "f1" and math.isnan(low) and math.isnan(high))


def test_intervals_are_wilsons_and_the_bootstraps() -> None:
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    other = rng.normal(size=(60, 3))
    found = class_results({"grafted": z, "finetuned": other}, y, resamples=200).set_index(["state", "class", "metric"])
    row = found.loc[("grafted", 1, "recall")]
    assert (row["low"], row["high"]) == wilson(row["right"], row["n"])
    row = found.loc[("finetuned", 2, "precision")]
    assert (row["low"], row["high"]) == wilson(row["right"], row["predicted"])
    for state, logits in (("grafted", z), ("finetuned", other)):
        own = bootstrap(logits, y, "f1", resamples=200, positive=2)
        assert found.loc[(state, 2, "f1"), ["value", "low", "high"]].tolist() == pytest.approx(own[:3], rel=1e-12)


def test_by_hand() -> None:
    z, y = said(0, 0, 1, 2, 2), np.array([0, 1, 1, 2, 0])
    assert confusion(z, y).tolist() == [[1, 0, 1], [1, 1, 0], [0, 0, 1]]
    found = class_results({"grafted": z}, y, resamples=5)
    first = found[found["class"] == 0].set_index("metric")
    assert first.loc["precision", ["n", "predicted", "right"]].tolist() == [2, 2, 1]
    assert [first.loc[m, "value"] for m in METRICS] == pytest.approx([0.5, 0.5, 0.5])
    assert list(found.columns) == list(COLUMNS) and len(found) == 9


def test_a_class_that_is_never_seen_nor_said_has_no_results() -> None:
    found = class_results({"grafted": said(0, 1)}, np.array([0, 1]), resamples=5)
    absent = found[found["class"] == 2]
    assert absent[["value", "low", "high"]].isna().all(axis=None) and (absent["n"] == 0).all()


def test_resamples_that_never_differ_give_no_interval() -> None:
    found = class_results({"grafted": said(1, 1, 1, 1)}, np.array([0, 0, 1, 1]), resamples=50)
    row = found[(found["class"] == 0) & (found["metric"] == "f1")].iloc[0]
    assert row["value"] == 0.0 and math.isnan(row["low"]) and math.isnan(row["high"])


def test_bad_data() -> None:
    with pytest.raises(BadData, match="no predictions"):
        confusion(np.zeros((0, 2)), np.zeros(0, dtype=int))
