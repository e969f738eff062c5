"""Tests of printed cells: readable text on every color, and names that plotly cannot read as markup."""

from __future__ import annotations

import itertools

import numpy as np
import plotly.graph_objects as go
import pytest

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
from skillviz.plots.theme import GROUND
from tests.plots.facts import read

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
