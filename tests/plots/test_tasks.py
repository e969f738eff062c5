"""Tests of the texts on cells and marks of the figures about several tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots import tasks
from skillviz.plots.cells import CIVIDIS, blended, broken, contrast
from tests.plots import task_frames as frames
from tests.plots.every_figure import draw

ONE, TWO = frames.TASKS[:2]


def tasks_interval(ends: str) -> str:
    """Return an interval in the form below its number, in smaller letters."""
    return f'<span style="font-size:{tasks.SMALL}px">{ends}</span>'


def test_a_cell_has_its_share_its_interval_and_chance_in_the_hover() -> None:
    frame = frames.overlap()
    figure = tasks.overlap_of_tasks(frame, order=frames.TASKS)
    cells, numbers = figure.data
    row = frame[(frame["row_task"] == ONE) & (frame["column_task"] == TWO) & (frame["kind"] == "overlap")].iloc[0]
    assert cells.z[0][1] == pytest.approx(100 * row["value"])
    ends = f"{100 * row['low']:.1f}<br>to {100 * row['high']:.1f}"
    assert numbers.text[1] == f"{100 * row['value']:.1f}<br>{tasks_interval(ends)}"
    assert (
        "by chance: 1% (95%: 0.5–2%)" in cells.hovertext[0][1]
        and f"of the entries of {TWO}'s region" in cells.hovertext[0][1]
    )
    assert "other mask seeds" in cells.hovertext[0][0]
    assert cells.colorscale[0][1] == "#00224e", "Cividis"


def test_tasks_stand_in_the_order_asked_for() -> None:
    order = tuple(reversed(frames.TASKS))
    figure = tasks.overlap_of_tasks(frames.overlap(), order=order)
    assert list(figure.layout.yaxis.ticktext) == [broken(name) for name in order]
    alphabet = tasks.overlap_of_tasks(frames.overlap())
    assert list(alphabet.layout.yaxis.ticktext) == [broken(name) for name in sorted(frames.TASKS)]


def test_many_tasks_leave_the_intervals_to_the_hover() -> None:
    frame = frames.overlap()
    wide = frame.assign(row_task=frame["row_task"] + "2", column_task=frame["column_task"] + "2")
    both = pd.concat([frame, wide], ignore_index=True)
    many = tasks.overlap_of_tasks(both)
    assert not any("<br>" in text for text in many.data[1].text)


def test_a_row_is_as_high_as_its_longest_name_needs() -> None:
    """All rows of a heatmap have the same height, so one long name makes all of them higher."""
    gain = frames.gain()
    short = gain[gain["region_tasks"].map(len) == 1]
    long = short.assign(region_tasks=[frames.TASKS if of == (ONE,) else of for of in short["region_tasks"]])
    rows = short["region_tasks"].nunique()
    more = tasks.gain_of_regions(long).layout.height - tasks.gain_of_regions(short).layout.height
    assert more == rows * (4 * tasks.LINE + 8 - tasks.CELL)


def test_a_large_union_is_named_by_its_first_tasks_and_whole_in_the_hover() -> None:
    of = tuple("abcdef")
    assert tasks.region_name(of) == "a +<br>b +<br>4 more" and tasks.region_name(tuple("abcd")).count("<br>") == 3
    frame = frames.gain()
    frame = frame.assign(region_tasks=[of] * len(frame))
    assert "the union of a, b, c, d, e, f on" in tasks.gain_of_regions(frame).data[0].hovertext[0][0]


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="'cosine' is not known"):
        tasks.overlap_of_tasks(frames.overlap(), "cosine")


def test_gains_are_bold_where_the_region_was_made_for_the_task() -> None:
    figure = draw("gain_of_regions")
    cells, numbers = figure.data
    names, columns = list(figure.layout.yaxis.ticktext), list(cells.x)
    assert len(columns) == len(frames.TASKS) and names[0] == broken(sorted(frames.TASKS)[0])
    bold = np.array([text.startswith("<b>") for text in numbers.text]).reshape(len(names), len(columns))
    assert bold[: len(frames.TASKS)].sum() == len(frames.TASKS), "a single region is one task's"
    assert bold[names.index(" +<br>".join((ONE, TWO)))].sum() == 2
    assert (cells.zmin, cells.zmax) == (0, 100)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_number_can_be_read_on_its_colour(theme: str) -> None:
    cells, numbers = tasks.gain_of_regions(frames.gain(), theme=theme).data
    shares = np.clip(np.asarray(cells.z).ravel() / 100, 0, 1)
    for share, ink in zip(shares, numbers.textfont.color, strict=True):
        assert contrast(ink, blended(CIVIDIS, float(share))) >= 4.5


def test_minus_nought_is_nought() -> None:
    frame = frames.gain().assign(value=-0.0004, low=-0.12, high=0.2)
    assert tasks.gain_of_regions(frame).data[1].text[0] == f"<b>0</b><br>{tasks_interval('−12<br>to 20')}"
    frame = frame.assign(low=-0.09)
    assert tasks.gain_of_regions(frame).data[1].text[0] == f"<b>0.0</b><br>{tasks_interval('−9.0<br>to 20.0')}"


def test_a_gain_that_is_not_defined_says_so() -> None:
    frame = frames.gain()
    frame.loc[frame["task"] == sorted(frames.TASKS)[0], ["value", "low", "high"]] = np.nan
    cells, numbers = tasks.gain_of_regions(frame).data
    assert numbers.text[0] == "n/a" and "gains nothing there" in cells.hovertext[0][0]


def test_without_any_gain_there_are_no_cells_and_no_axes() -> None:
    for figure in (
        tasks.gain_of_regions(frames.gain().assign(value=np.nan)),
        tasks.union_gain(frames.union().assign(value=np.nan)),
    ):
        assert not figure.data and tasks.NO_GAIN in {note.text for note in figure.layout.annotations}


def test_a_task_on_which_nothing_is_defined_has_no_row_in_a_union() -> None:
    frame = frames.union()
    frame.loc[frame["task"] == ONE, "value"] = np.nan
    names = list(tasks.union_gain(frame).layout.yaxis.ticktext)
    assert len(names) == len(frames.TASKS) - 1 and ONE not in names


def test_a_union_stands_between_the_two_models() -> None:
    figure = draw("union_gain")
    assert {trace.name for trace in figure.data} == {
        "union", "union, purified", "the task's own region alone"
    }  # fmt: skip
    assert {shape.x0 for shape in figure.layout.shapes} == {0, 100}
    assert {"pre-trained", "multi-task"} == {note.text for note in figure.layout.annotations}


def test_stability_has_chance_as_a_tick() -> None:
    figure = draw("stability_of_regions")
    assert figure.data[-1].name == "by chance" and list(figure.data[-1].x) == pytest.approx([1.5] * 4)
    assert figure.data[-1].error_x.array[0] == pytest.approx(0.5)
    assert figure.data[0].error_x.array[0] == pytest.approx(5)
