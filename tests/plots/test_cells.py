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


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("make", [diverging, shades])
def test_every_number_can_be_read(make, theme: str) -> None:  # type: ignore[no-untyped-def]
    colours = [blended(make(theme), share) for share in np.linspace(0, 1, 101)]
    assert min(contrast(ink_on(colour), colour) for colour in colours) >= 4.5


def test_one_ink_alone_would_not_do() -> None:
    assert ink_on(FOR["light"]) == "#FFFFFF" and contrast("#000000", FOR["light"]) < 4.5
    assert ink_on(GROUND["light"]) == "#000000"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_ends_and_the_middle_are_told_apart_without_colours(theme: str) -> None:
    greys = [blended(diverging(theme), share) for share in (0, 0.5, 1)]
    assert min(contrast(a, b) for a, b in itertools.combinations(greys, 2)) > 1.9


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.478, abs=1e-3)


def test_a_scale_is_blended_between_its_stops() -> None:
    scale = [(0.0, "#000000"), (0.5, "#FF0000"), (1.0, "#FFFFFF")]
    assert [blended(scale, x) for x in (-1, 0, 0.25, 0.5, 0.75, 1, 2)] == [
        "#000000", "#000000", "#800000", "#FF0000", "#FF8080", "#FFFFFF", "#FFFFFF"
    ]  # fmt: skip
    assert blended(diverging("light"), 0) == AGAINST["light"] and blended(diverging("dark"), 1) == FOR["dark"]
    assert blended(diverging("dark"), 0.5) == NEUTRAL["dark"]


@pytest.mark.parametrize(("theme", "least"), [("light", 1.15), ("dark", 1.8)])
@pytest.mark.parametrize("make", [diverging, shades])
def test_no_colour_of_a_scale_merges_with_the_page(make, theme: str, least: float) -> None:  # type: ignore[no-untyped-def]
    colours = [blended(make(theme), share) for share in np.linspace(0, 1, 101)]
    assert min(contrast(colour, GROUND[theme]) for colour in colours) >= least


def test_a_missing_value_has_no_number() -> None:
    figure = go.Figure()
    z = np.array([[0.0, np.nan], [10.0, 5.0]])
    printed(figure, z, [["a", "b"], ["c", ""]], shades("light"), 0, 10, size=9, hover=[["", ""], ["", ""]])
    cells, numbers = figure.data
    assert (cells.zmin, cells.zmax) == (0, 10) and list(numbers.text) == ["a", "c"]
    assert list(zip(numbers.x, numbers.y, strict=True)) == [(0, 0), (0, 1)]


def test_names_are_cut_and_harmless() -> None:
    assert shown("<mask>") == "&lt;mask&gt;" and shown("it's") == "it's"
    assert shown("EducationalInstitution", 10) == "Education…"


def test_a_long_name_is_broken_behind_its_joints() -> None:
    assert broken("sst2_sentences") == "sst2_<br>sentences" and broken("review-sentiment") == "review-<br>sentiment"
    assert broken("SST-2 sentences") == "SST-2<br>sentences" and broken("AG News") == "AG News"
    assert broken("ag_news") == "ag_news" and broken("a-very-long-name-") == "a-<br>very-<br>long-<br>name-"
