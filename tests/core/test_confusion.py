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
from tests.refused import refused

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
    found = class_results({"grafted": z}, y, resamples=5).set_index(["class", "metric"])
    for c in range(z.shape[1]):
        for metric, wanted in zip(METRICS, slow.results(z, y, c), strict=True):
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


def test_by_hand() -> None:
    z, y = said(0, 0, 1, 2, 2), np.array([0, 1, 1, 2, 0])
    assert confusion(z, y).tolist() == [[1, 0, 1], [1, 1, 0], [0, 0, 1]]
    found = class_results({"grafted": z}, y, resamples=5)
    first = found[found["class"] == 0].set_index("metric")
    assert first.loc["precision", ["n", "predicted", "right"]].tolist() == [2, 2, 1]
    assert first.loc[list(METRICS), "value"].tolist() == pytest.approx([0.5] * 3)
    assert list(found.columns) == list(COLUMNS) and len(found) == 9


def test_where_nothing_can_be_estimated_there_is_no_result_or_no_interval() -> None:
    absent = class_results({"grafted": said(0, 1)}, np.array([0, 1]), resamples=5).query("`class` == 2")
    assert absent[["value", "low", "high"]].isna().all(axis=None) and (absent["n"] == 0).all(), "no such class"
    found = class_results({"grafted": said(1, 1, 1, 1)}, np.array([0, 0, 1, 1]), resamples=50)
    f1 = found.set_index(["class", "metric"]).loc[(0, "f1"), ["value", "low", "high"]].tolist()
    assert f1 == pytest.approx([0.0, math.nan, math.nan], nan_ok=True), "resamples that never differ"


test_bad_data = refused(
    BadData,
    ("no predictions", lambda: confusion(np.zeros((0, 2)), np.zeros(0, dtype=int))),
)
