"""Tests of size curves: seeds are pooled, different sizes are never averaged, and each setting has its own line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.size_curve import by_size
from skillviz.core.seeds_interval import mean_of_intervals
from tests.plots.frames import rows

BOTH = "examples and seeds"


@pytest.mark.parametrize(
    ("values", "seeds", "wanted", "over"),
    [
        ([0.7, 0.8, 0.9], None, None, BOTH),  # the three intervals joined
        ([0.7], None, (0.7, 0.6, 0.8), "examples"),
        ([0.7] * 3, None, (0.7, 0.6, 0.8), "examples"),  # seeds that agree exactly do not claim certainty
        ([0.7, 0.8, 0.9], [0, 0, 1], (0.825, 0.0, 1.0), BOTH),  # two runs of one seed are one seed
    ],
    ids=["three seeds", "one", "three alike", "one of them twice"],
)  # fmt: skip
def test_seeds_are_pooled_by_hand(
    values: list[float], seeds: list[int] | None, wanted: tuple | None, over: str
) -> None:
    (row,) = by_size(rows(values, **({"seeds": seeds} if seeds else {})), "accuracy").to_dict("records")
    value, low, high, *_ = wanted or mean_of_intervals(values, np.subtract(values, 0.1), np.add(values, 0.1))
    assert (row["value"], row["low"], row["high"]) == pytest.approx((value, low, min(high, 1.0)))
    assert (row["seeds"], row["over"]) == (len(set(seeds or range(len(values)))), over)


def test_calibration_has_an_interval_where_its_debiased_value_is_stored() -> None:
    curve = rows([0.07, 0.08, 0.09]).assign(metric="ece")
    known = curve.assign(low=curve["value"] - 0.05, high=curve["value"] + 0.02, debiased=curve["value"] - 0.02)
    (row,), (with_ends,) = (by_size(frame, "ece").to_dict("records") for frame in (curve, known))
    assert pd.isna(row["low"]) and row["value"] == pytest.approx(0.08)
    assert with_ends["debiased"] == pytest.approx(0.06) and with_ends["low"] < 0.06 < with_ends["high"]


@pytest.mark.parametrize(
    ("curves", "options", "sizes"),
    [
        ([rows([0.7], "learned", [0], 90), rows([0.8, 0.9], "learned", [1, 2], 100)], {}, [90, 100, 100]),
        ([rows([0.7], "learned", [0], 90), rows([0.8, 0.9], "learned", [1, 2], 100)], {"per_run": ()}, [90, 100]),
        ([rows([0.6], size=0), rows([0.7])], {}, [100]),
    ],
    ids=["a size of its own is never averaged", "unless it may be", "size zero is the reference line's"],
)
def test_the_sizes_of_a_curve(curves: list[pd.DataFrame], options: dict, sizes: list[int]) -> None:
    assert list(by_size(pd.concat(curves), "accuracy", **options)["size"]) == sizes


@pytest.mark.parametrize(("column", "other"), [("split", "validation"), ("dataset", "imdb")])
def test_mixed_data_are_refused(column: str, other: str) -> None:
    curve = pd.concat([rows([0.7]), rows([0.7]).assign(**{column: other})])
    with pytest.raises(ValueError, match=f"choose one {column}; given: "):
        by_size(curve, "accuracy")


def test_settings_are_lines_of_their_own_and_none_are_the_usual_ones() -> None:
    curve = pd.concat([rows([0.7, 0.8]), rows([0.9]).assign(settings="batch size 1024")])
    points = by_size(curve, "accuracy")
    assert list(zip(points["settings"], points["seeds"], strict=True)) == [("", 2), ("batch size 1024", 1)]
