"""Tests of numbers in words, missing columns, labels that are moved apart, and printed cells: readable text on every
color, and names that plotly cannot read as markup."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.core.metrics import metric_row
from skillviz.plots.cells import (
    AGAINST,
    FOR,
    NEUTRAL,
    blended,
    broken,
    contrast,
    diverging,
    ink_on,
    printed,
    shades,
    shown,
)
from skillviz.plots.figure import centers, log_ticks, ordered, require, spread, value_range, wrapped
from skillviz.plots.theme import GROUND
from tests.plots.facts import read
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


THREE = [(0.0, "#000000"), (0.5, "#FF0000"), (1.0, "#FFFFFF")]


@pytest.mark.parametrize(("theme", "least"), [("light", 1.15), ("dark", 1.8)])
@pytest.mark.parametrize("make", [diverging, shades])
def test_every_number_can_be_read_and_no_colour_merges_with_the_page(make, theme: str, least: float) -> None:  # type: ignore[no-untyped-def]
    colours = [blended(make(theme), share) for share in np.linspace(0, 1, 101)]
    assert min(contrast(ink_on(colour), colour) for colour in colours) >= 4.5
    assert min(contrast(colour, GROUND[theme]) for colour in colours) >= least


def test_one_ink_alone_would_not_do() -> None:
    assert (ink_on(FOR["light"]), ink_on(GROUND["light"])) == ("#FFFFFF", "#000000")
    assert contrast("#000000", FOR["light"]) < 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_ends_and_the_middle_are_told_apart_without_colours(theme: str) -> None:
    greys = [blended(diverging(theme), share) for share in (0, 0.5, 1)]
    assert min(contrast(a, b) for a, b in itertools.combinations(greys, 2)) > 1.9


@pytest.mark.parametrize(("grey", "ratio"), [("#000000", 21), ("#777777", 4.478)])
def test_contrast_is_that_of_the_standard(grey: str, ratio: float) -> None:
    assert contrast(grey, "#FFFFFF") == pytest.approx(ratio, rel=2e-4)


@pytest.mark.parametrize(
    ("scale", "places", "colors"),
    [
        (THREE, (-1, 0, 0.25, 0.5), ["#000000", "#000000", "#800000", "#FF0000"]),
        (THREE, (0.75, 1, 2), ["#FF8080", "#FFFFFF", "#FFFFFF"]),
        (diverging("light"), (0,), [AGAINST["light"]]),
        (diverging("dark"), (0.5, 1), [NEUTRAL["dark"], FOR["dark"]]),
    ],
)
def test_a_scale_is_blended_between_its_stops(scale: list, places: tuple[float, ...], colors: list[str]) -> None:
    assert [blended(scale, x) for x in places] == colors


def test_a_missing_value_has_no_number() -> None:
    figure, z = go.Figure(), np.array([[0.0, np.nan], [10.0, 5.0]])
    printed(figure, z, [["a", "b"], ["c", ""]], shades("light"), 0, 10, size=9, hover=[["", ""], ["", ""]])
    found = read(figure, "data.0.zmin", "data.0.zmax", "data.1.text", "data.1.x", "data.1.y")
    assert found == [0, 10, ["a", "c"], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("name", "most", "words"),
    [("<mask>", (), "&lt;mask&gt;"), ("it's", (), "it's"), ("EducationalInstitution", (10,), "Education…")],
)
def test_names_are_cut_and_harmless(name: str, most: tuple[int, ...], words: str) -> None:
    assert shown(name, *most) == words


@pytest.mark.parametrize(
    "lines",
    ["sst2_<br>sentences", "review-<br>sentiment", "AG News", "ag_news", "a-<br>very-<br>long-<br>name-"],
)
def test_a_long_name_is_broken_behind_its_joints(lines: str) -> None:
    assert broken(lines.replace("<br>", "")) == lines and broken("SST-2 sentences") == "SST-2<br>sentences"
