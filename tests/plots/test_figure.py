"""Tests of numbers in words, missing columns, labels that are moved apart, and printed cells: readable text on every
color, and names that plotly cannot read as markup."""

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
from tests.core.by_hand import by_hand, near, refused
from tests.plots.facts import Between, Of, read

MARKS = pd.DataFrame({"value": [0.05, 0.8], "debiased": [0.02, np.nan], "low": [0.01, 0.7], "high": [0.04, 0.9]})

test_missing_columns_are_named_beside_those_wanted_and_given = refused(
    ValueError,
    ("curve: .*no column 'low', 'high'; wanted: size, low, high; given",
     require, pd.DataFrame({"size": [1]}), ("size", "low", "high"), "curve"),
)  # fmt: skip


THREE = [(0.0, "#000000"), (0.5, "#FF0000"), (1.0, "#FFFFFF")]

test_by_hand = by_hand(
    *(
        (f"an axis of {metric} from {low} to {high} stays within 0 and 100 where the data do",
         near(*ends), value_range, np.array([low, high, np.nan]), metric_row(metric))
        for metric, low, high, ends in (
            ("ece", 0.0, 50.0, (0.0, 53.0)), ("accuracy", 50.0, 100.0, (47.0, 100.0)), ("ece", -10.0, 40.0, (-13, 43)),
            ("ece", 0.0, 110.0, (0.0, 116.6)), ("nll", 0.0, 1.0, (-0.06, 1.06)), ("ece", 0.0, 0.0, (0.0, 1.0)),
        )
    ),
    ("known names come first in their order", ["b", "a", "z"], ordered, ["z", "b", "a", "b"], ["b", "c", "a"]),
    ("spread leaves alone what is apart", [100, 0, 40], spread, [100, 0, 40], 15),
    ("spread moves equal places", near(2.5, 17.5), spread, [10, 10], 15),
    ("a spread that is too small would be seen", near(3, 17), spread, [10, 10], 14),
    ("spread of nothing", [], spread, [], 15),
    ("a mark at the debiased error where there is one", near(2.0, 80.0), lambda: tuple(centers(MARKS, 100))),
    ("a mark without one", near(5.0, 80.0), lambda: tuple(centers(MARKS.drop(columns="debiased"), 100))),
    ("contrast of black is that of the standard", near(21, rel=2e-4), contrast, "#000000", "#FFFFFF"),
    ("contrast of grey is that of the standard", near(4.478, rel=2e-4), contrast, "#777777", "#FFFFFF"),
    *(
        (f"a scale is blended between its stops: {color} at {place}", color, blended, scale, place)
        for scale, places in (
            (THREE, {-1: "#000000", 0: "#000000", 0.25: "#800000", 0.5: "#FF0000", 0.75: "#FF8080", 1: "#FFFFFF",
                     2: "#FFFFFF"}),
            (diverging("light"), {0: AGAINST["light"]}),
            (diverging("dark"), {0.5: NEUTRAL["dark"], 1: FOR["dark"]}),
        )
        for place, color in places.items()
    ),
    ("a harmless name", "&lt;mask&gt;", shown, "<mask>"),
    ("a name with an apostrophe", "it's", shown, "it's"),
    ("a name that is cut", "Education…", shown, "EducationalInstitution", 10),
    *(
        (f"a long name is broken behind its joints: {lines}", lines, broken, lines.replace("<br>", ""))
        for lines in ("sst2_<br>sentences", "review-<br>sentiment", "AG News", "ag_news",
                      "a-<br>very-<br>long-<br>name-")
    ),
    ("a long name of two words", "SST-2<br>sentences", broken, "SST-2 sentences"),
    ("ink on a colour for", "#FFFFFF", ink_on, FOR["light"]),
    ("ink on the ground", "#000000", ink_on, GROUND["light"]),
    ("one ink alone would not do", Between(1, 4.5), contrast, "#000000", FOR["light"]),
    ("long sentences are broken for a narrow card",
     Of(lambda text: [len(line) <= 34 for line in text.split("<br>")], [True, True]),
     wrapped, "This localizer has no steps to show, because it looks only once."),
)  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_spread_labels_never_overlap_and_keep_their_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = list(rng.uniform(0, 60, rng.integers(1, 9)).round(rng.integers(0, 3)))
    moved = np.array(spread(places, 15))
    assert np.diff(moved[np.argsort(places, kind="stable")]).min(initial=15) >= 15 - 1e-9
    assert np.mean(moved) == pytest.approx(np.mean(places))


@pytest.mark.parametrize(("low", "high"), [(-0.9, -0.6), (0.0, 0.5), (-2.0, 2.0), (-0.76, -0.56)])
def test_an_axis_of_a_narrow_span_has_more_than_one_tick(low: float, high: float) -> None:
    assert sum(10**low <= tick <= 10**high for tick in log_ticks(low, high)["tickvals"]) >= 2


@pytest.mark.parametrize(("theme", "least"), [("light", 1.15), ("dark", 1.8)])
@pytest.mark.parametrize("make", [diverging, shades])
def test_every_number_can_be_read_and_no_colour_merges_with_the_page(make, theme: str, least: float) -> None:  # type: ignore[no-untyped-def]
    colours = [blended(make(theme), share) for share in np.linspace(0, 1, 101)]
    assert min(contrast(ink_on(colour), colour) for colour in colours) >= 4.5
    assert min(contrast(colour, GROUND[theme]) for colour in colours) >= least


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_ends_and_the_middle_are_told_apart_without_colours(theme: str) -> None:
    greys = [blended(diverging(theme), share) for share in (0, 0.5, 1)]
    assert min(contrast(a, b) for a, b in itertools.combinations(greys, 2)) > 1.9


def test_a_missing_value_has_no_number() -> None:
    figure, z = go.Figure(), np.array([[0.0, np.nan], [10.0, 5.0]])
    printed(figure, z, [["a", "b"], ["c", ""]], shades("light"), 0, 10, size=9, hover=[["", ""], ["", ""]])
    found = read(figure, "data.0.zmin", "data.0.zmax", "data.1.text", "data.1.x", "data.1.y")
    assert found == [0, 10, ["a", "c"], [0, 0], [0, 1]]
