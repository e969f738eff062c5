"""Tests of the overlap map: cells in percent with chance below, rows from the top, empty regions blank."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.cells import CIVIDIS, blended, contrast
from skillviz.plots.overlap import COLUMNS, FEW, LINE, overlap_map
from tests.plots import compare_frames as several


def heat(frame: pd.DataFrame, kind: str = "iou"):
    return overlap_map(frame, kind).data[0]


def test_a_cell_has_its_share_and_what_chance_would_give() -> None:
    frame = pd.DataFrame(
        [
            ("A", "A", 1.0, 0.0005, 0.0, 0.001),
            ("A", "B", 0.25, 0.0005, 0.0, 0.0012),
            ("B", "A", 0.5, 0.002, np.nan, np.nan),
            ("B", "B", 1.0, np.nan, np.nan, np.nan),
        ],
        columns=list(COLUMNS),
    )
    drawn = heat(frame, "overlap")
    assert np.array(drawn.z).tolist() == [[100, 25], [50, 100]]
    assert list(overlap_map(frame, "overlap").data[1].text)[1:] == [
        "25.0<br>chance<br>0\N{EN DASH}0.1",
        "50.0<br>chance<br>0.2",
        "100.0",
    ]
    assert drawn.hovertext[0][1].replace("\xa0", " ") == (
        "of B's entries, 25.0% are in A too<br>by chance: 0.05% (95%: 0.0–0.12%)"
    )
    frame.loc[1, "chance"] = np.nan
    assert heat(frame, "overlap").hovertext[0][1].endswith("by chance: n/a")


def test_a_region_beside_itself_has_no_chance() -> None:
    rows = [(a, b, 1.0, 0.005, 0.004, 0.006) for a in ("one", "repeat") for b in ("one", "repeat")]
    figure = overlap_map(pd.DataFrame(rows, columns=list(COLUMNS)))
    own, other = ("100.0", "100.0<br>chance<br>0.4\N{EN DASH}0.6")
    assert list(figure.data[1].text) == [own, other, other, own], "an equal region of another run has one"
    assert figure.data[0].hovertext[0][0] == "one: the same region" and "chance" in figure.data[0].hovertext[0][1]


def test_a_mean_over_seeds_below_one_is_not_a_region_beside_itself() -> None:
    figure = overlap_map(pd.DataFrame([("a", "a", 0.9, 0.01, 0.008, 0.012)], columns=list(COLUMNS)))
    assert "chance" in figure.data[1].text[0]


def test_the_first_run_is_at_the_top_left_and_the_scale_is_whole() -> None:
    figure = overlap_map(several.shares())
    assert figure.layout.yaxis.autorange == "reversed"
    assert list(figure.data[0].x) == list(figure.data[0].y) == list(several.KEYS)
    assert (figure.data[0].zmin, figure.data[0].zmax) == (0, 100)


def test_an_empty_region_has_empty_cells() -> None:
    frame = several.shares()
    frame.loc[frame["column"] == several.KEYS[1], "value"] = np.nan
    assert overlap_map(frame).data[1].text[1] == "" == heat(frame).hovertext[0][1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_share_can_be_read_on_its_colour(theme: str) -> None:
    shares = np.linspace(0, 1, 5)
    rows = [(a, b, shares[(i + j) % 5], 0.1, 0.05, 0.2) for i, a in enumerate("ABCDE") for j, b in enumerate("ABCDE")]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    drawn, printed = overlap_map(frame, theme=theme).data
    for share, ink in zip(np.array(drawn.z).ravel() / 100, printed.textfont.color, strict=True):
        assert contrast(ink, blended(CIVIDIS, float(share))) >= 4.5


def test_rows_and_columns_may_be_of_different_kinds() -> None:
    rows = [
        ("a", "x", 0.1, 0.0, 0.0, 0.0),
        ("a", "y", 0.2, 0.0, 0.0, 0.0),
        ("b", "x", 0.3, 0.0, 0.0, 0.0),
        ("b", "y", 0.4, 0.0, 0.0, 0.0),
        ("c", "y", 0.5, 0.0, 0.0, 0.0),
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    figure = overlap_map(frame, axes=("found by", "region of"))
    drawn = np.array(figure.data[0].z)
    assert drawn.shape == (3, 2) and drawn[:2].tolist() == [[10, 20], [30, 40]] and np.isnan(drawn[2, 0])
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("found by", "region of")
    assert list(figure.layout.xaxis.ticktext) == ["x", "y"] and list(figure.layout.yaxis.ticktext) == ["a", "b", "c"]


def test_many_regions_leave_chance_to_the_hover() -> None:
    names = [f"task_{number}" for number in range(FEW + 1)]
    rows = [(a, b, 0.256, 0.1, 0.05, 0.2) for a in names for b in names]
    figure = overlap_map(pd.DataFrame(rows, columns=list(COLUMNS)))
    assert set(figure.data[1].text) == {"26"} and "by chance: 10.0%" in figure.data[0].hovertext[0][0]


def test_a_row_has_room_for_its_name_and_the_cells_for_those_of_the_columns() -> None:
    short, long = ("a", "b", "c", "d"), tuple(f"stagewise, AG News · minilm-l6, seed {n}" for n in range(4))
    heights, lines = [], []
    for names in (short, long):
        rows = [(a, b, 0.5, 0.01, 0.008, 0.012) for a in names for b in names]
        layout = overlap_map(pd.DataFrame(rows, columns=list(COLUMNS))).layout
        heights.append(layout.height)
        lines.append(1 + max(tick.count("<br>") for tick in layout.xaxis.ticktext))
    assert lines[0] == 1 and lines[1] > 3
    assert heights[1] >= heights[0] + LINE * (lines[1] - 2) and heights[1] > 4 * LINE * lines[1]


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="'share' is not known; it is 'overlap' or 'iou'"):
        overlap_map(several.shares(), "share")


def test_what_is_compared_can_be_named_and_long_names_are_broken() -> None:
    names = ["sst2_sentences", "cr", "qnli", "mnli"]
    frame = pd.DataFrame([(a, b, 0.5, 0.1, 0.05, 0.2) for a in names for b in names], columns=list(COLUMNS))
    figure = overlap_map(frame, "overlap", of="region")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("entries of region", "also in region")
    assert "sst2_<br>sentences" in figure.layout.xaxis.ticktext
