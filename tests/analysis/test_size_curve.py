"""Tests of size curves: seeds are pooled, different sizes are never averaged, and each setting has its own line."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.analysis.size_curve import by_size
from skillviz.core.seeds_interval import mean_of_intervals
from tests.plots.frames import rows


def test_several_seeds_are_pooled_by_hand() -> None:
    (row,) = by_size(rows([0.70, 0.80, 0.90]), "accuracy").to_dict("records")
    assert row["value"] == pytest.approx(0.8) and row["seeds"] == 3 and row["over"] == "examples and seeds"
    wanted = mean_of_intervals([0.7, 0.8, 0.9], [0.6, 0.7, 0.8], [0.8, 0.9, 1.0])
    assert (row["low"], row["high"]) == pytest.approx((wanted.low, min(wanted.high, 1.0)))
    assert row["value"] - row["low"] > 1.5 * 1.96 * 0.1 / 3**0.5  # a normal interval over seeds would be narrower


def test_calibration_has_an_interval_where_its_debiased_value_is_stored() -> None:
    curve = rows([0.07, 0.08, 0.09]).assign(metric="ece")
    (row,) = by_size(curve, "ece").to_dict("records")
    assert pd.isna(row["low"]) and row["value"] == pytest.approx(0.08)
    known = curve.assign(low=curve["value"] - 0.05, high=curve["value"] + 0.02, debiased=curve["value"] - 0.02)
    (row,) = by_size(known, "ece").to_dict("records")
    assert row["low"] < row["debiased"] == pytest.approx(0.06) and row["debiased"] < row["high"]


def test_one_seed_keeps_its_interval_over_examples() -> None:
    (row,) = by_size(rows([0.7]), "accuracy").to_dict("records")
    assert (row["low"], row["high"], row["over"]) == (pytest.approx(0.6), pytest.approx(0.8), "examples")


def test_seeds_that_agree_exactly_do_not_claim_certainty() -> None:
    (row,) = by_size(rows([0.7, 0.7, 0.7], "movement"), "accuracy").to_dict("records")
    assert row["over"] == "examples" and row["high"] - row["low"] == pytest.approx(0.2)


def test_two_runs_of_one_seed_count_as_one_seed() -> None:
    (row,) = by_size(rows([0.70, 0.80, 0.90], seeds=[0, 0, 1]), "accuracy").to_dict("records")
    assert row["seeds"] == 2 and row["value"] == pytest.approx((0.75 + 0.90) / 2)


def test_a_size_of_its_own_is_never_averaged() -> None:
    curve = pd.concat([rows([0.7], "learned", [0], 90), rows([0.8, 0.9], "learned", [1, 2], 100)])
    assert list(by_size(curve, "accuracy")["size"]) == [90, 100, 100]
    assert list(by_size(curve, "accuracy", per_run=())["size"]) == [90, 100]


def test_size_zero_is_left_to_the_reference_line() -> None:
    curve = pd.concat([rows([0.6], size=0), rows([0.7])])
    assert list(by_size(curve, "accuracy")["size"]) == [100]


@pytest.mark.parametrize(("column", "other"), [("split", "validation"), ("dataset", "imdb")])
def test_mixed_data_are_refused(column: str, other: str) -> None:
    curve = pd.concat([rows([0.7]), rows([0.7]).assign(**{column: other})])
    with pytest.raises(ValueError, match=f"choose one {column}; given: "):
        by_size(curve, "accuracy")


def test_settings_are_lines_of_their_own_and_none_are_the_usual_ones() -> None:
    curve = pd.concat([rows([0.7, 0.8]), rows([0.9]).assign(settings="batch size 1024")])
    points = by_size(curve, "accuracy")
    assert list(zip(points["settings"], points["seeds"], strict=True)) == [("", 2), ("batch size 1024", 1)]
