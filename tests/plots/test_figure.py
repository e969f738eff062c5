"""Tests of numbers in words, missing columns, and labels that are moved apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.metrics import metric_row
from skillviz.plots.figure import centers, log_ticks, ordered, require, spread, value_range, wrapped
from tests.refused import refused

MARKS = pd.DataFrame({"value": [0.05, 0.8], "debiased": [0.02, np.nan], "low": [0.01, 0.7], "high": [0.04, 0.9]})

test_missing_columns_are_named_beside_those_wanted_and_given = refused(
    ValueError,
    ("curve: .*no column 'low', 'high'; wanted: size, low, high; given",
     require, pd.DataFrame({"size": [1]}), ("size", "low", "high"), "curve"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "values", "ends"),
    [
        ("ece", (0.0, 50.0), (0.0, 53.0)), ("accuracy", (50.0, 100.0), (47.0, 100.0)),
        ("ece", (-10.0, 40.0), (-13, 43)), ("ece", (0.0, 110.0), (0.0, 116.6)),
        ("nll", (0.0, 1.0), (-0.06, 1.06)), ("ece", (0.0, 0.0), (0.0, 1.0)),
    ],
)  # fmt: skip
def test_an_axis_of_shares_stays_within_0_and_100_where_the_data_do(
    metric: str, values: tuple[float, float], ends: tuple[float, float]
) -> None:
    assert value_range(np.array([*values, np.nan]), metric_row(metric)) == pytest.approx(ends)


def test_known_names_come_first_in_their_order() -> None:
    assert ordered(["z", "b", "a", "b"], ["b", "c", "a"]) == ["b", "a", "z"]


def test_long_sentences_are_broken_for_a_narrow_card() -> None:
    lines = wrapped("This localizer has no steps to show, because it looks only once.").split("<br>")
    assert len(lines) == 2 and max(map(len, lines)) <= 34


@pytest.mark.parametrize("seed", range(30))
def test_spread_labels_never_overlap_and_keep_their_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = list(rng.uniform(0, 60, rng.integers(1, 9)).round(rng.integers(0, 3)))
    moved = np.array(spread(places, 15))
    assert np.diff(moved[np.argsort(places, kind="stable")]).min(initial=15) >= 15 - 1e-9
    assert np.mean(moved) == pytest.approx(np.mean(places))


@pytest.mark.parametrize(
    ("places", "least", "moved"),
    [
        ([100, 0, 40], 15, [100, 0, 40]),
        ([10, 10], 15, [2.5, 17.5]),
        ([10, 10], 14, [3, 17]),  # a spread that is too small would be seen
        ([], 15, []),
    ],
)
def test_spread_leaves_alone_what_is_apart(places: list[float], least: float, moved: list[float]) -> None:
    assert spread(places, least) == pytest.approx(moved)


@pytest.mark.parametrize(("low", "high"), [(-0.9, -0.6), (0.0, 0.5), (-2.0, 2.0), (-0.76, -0.56)])
def test_an_axis_of_a_narrow_span_has_more_than_one_tick(low: float, high: float) -> None:
    assert sum(10**low <= tick <= 10**high for tick in log_ticks(low, high)["tickvals"]) >= 2


@pytest.mark.parametrize(("rows", "at"), [(MARKS, [2.0, 80.0]), (MARKS.drop(columns="debiased"), [5.0, 80.0])])
def test_a_mark_stands_at_the_debiased_error_where_there_is_one(rows: pd.DataFrame, at: list[float]) -> None:
    assert centers(rows, 100).tolist() == pytest.approx(at)
