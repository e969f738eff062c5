"""Tests that published and measured values are separate: hollow marks, named in the legend, deviations labeled."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.plots.paper import SAYS, beside, comparisons
from tests.plots import study_frames as frames


def test_published_marks_are_hollow_and_measured_ones_filled() -> None:
    figure = beside(frames.published(), ["SST-2", "QNLI to MNLI (0/1)", "AGNews"])
    symbols = {t.name: t.marker.symbol for t in figure.data}
    assert symbols == {
        "graft, here": "diamond", "graft, published": "diamond-open", "fine-tuned, here": "circle",
        "fine-tuned, published": "circle-open",
    }  # fmt: skip


def test_tasks_stand_in_the_order_that_was_asked_for() -> None:
    figure = beside(frames.published(), ["AGNews", "SST-2"])
    assert list(figure.layout.yaxis.ticktext) == ["AGNews", "SST-2"]
    assert [len(t.x) for t in figure.data] == [1, 2, 1, 2]


def test_marks_of_a_task_do_not_hide_each_other() -> None:
    figure = beside(frames.published(), ["SST-2"])
    assert len({round(float(t.y[0]), 6) for t in figure.data}) == 4
    assert all(-0.5 < t.y[0] < 0.5 for t in figure.data)


def test_a_published_bracket_is_told_as_a_deviation_and_its_absence_too() -> None:
    figure = beside(frames.published(), ["SST-2", "QNLI to MNLI (0/1)"])
    printed = next(t for t in figure.data if t.name == "graft, published")
    assert "standard deviation" in printed.hovertext[0] and "no deviation is printed" in printed.hovertext[1]
    assert "95%" in next(t for t in figure.data if t.name == "graft, here").hovertext[0]


def test_the_axis_of_a_share_ends_where_shares_do() -> None:
    rows = frames.published().assign(low=0.0, high=1.0)
    assert beside(rows, ["SST-2"]).layout.xaxis.range == (0, 100)


def test_what_a_comparison_says_is_told_by_its_mark_and_not_by_its_colour() -> None:
    figure = comparisons(frames.claim(), "points", (0.0,))
    assert {trace.name: trace.marker.symbol for trace in figure.data} == SAYS and len(set(SAYS.values())) == len(SAYS)
    assert len({trace.marker.color for trace in figure.data}) == 1
    assert list(figure.layout.yaxis.ticktext) == list(frames.claim()["where"])


def test_the_limits_of_a_claim_are_lines_in_its_unit_and_in_sight() -> None:
    figure = comparisons(frames.claim(), "percent", (0.95,))
    (line,) = figure.layout.shapes
    low, high = figure.layout.xaxis.range
    assert line.x0 == pytest.approx(95) and low < 95 < high
    assert len(comparisons(frames.claim(), "points", (-0.03, 0.03)).layout.shapes) == 2


def test_the_mark_of_a_calibration_error_stands_within_its_interval() -> None:
    rows = frames.claim()
    rows = rows.assign(debiased=[0.045, *[float("nan")] * (len(rows) - 1)])
    supports = comparisons(rows, "points", (0.0,)).data[0]
    assert supports.x[0] == pytest.approx(4.5) and supports.error_x.array[0] == pytest.approx(2.5)


def test_our_calibration_error_is_the_plug_in_one_with_a_stroke_where_its_interval_stands() -> None:
    rows = frames.published().assign(debiased=np.nan)
    ours = rows.index[(rows["source"] == "here") & (rows["method"] == "graft") & (rows["task"] == "SST-2")]
    rows.loc[ours, "debiased"] = rows.loc[ours, "value"] - 0.01
    assert len(ours) == 1 and len(beside(frames.published(), ["SST-2"]).data) == 4, "without a debiased value no stroke"
    (stroke,) = (t for t in beside(rows, ["SST-2"]).data if t.marker.symbol == "line-ns-open")
    (mark,) = (t for t in beside(rows, ["SST-2"]).data if t.name == "graft, here")
    assert stroke.x[0] == pytest.approx(mark.x[0] - 1) and stroke.y == mark.y
    assert "plug-in" in mark.hovertext[0] and "debiased" in stroke.hovertext[0]
