"""Tests of the constants of a search: rates first, then searches with a given size; a series per choice; log sizes."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.plots.sensitivity import FREE, SIZED, by_setting
from skillviz.plots.theme import GROUND
from tests.plots import study_frames as frames
from tests.plots.test_theme import contrast


def test_rates_stand_first_and_searches_told_their_size_beside_them() -> None:
    figure = by_setting(frames.settings())
    words = ["10<sup>6</sup>", "10<sup>7</sup>", "10<sup>8</sup>", "stagewise", "learned,<br>ranked"]
    assert list(figure.layout.xaxis.ticktext) == words
    assert [shape.x0 for shape in figure.layout.shapes] == [2.5]


def test_a_choice_of_constants_is_a_series_and_the_learned_mask_s_are_lines() -> None:
    marks = {trace.name: trace for trace in by_setting(frames.settings()).data}
    assert list(marks) == [
        "25 steps, bias 5", "100 steps, bias 5", "25 steps, bias 10", "100 steps, bias 10",
        "25 steps, batch 32", "100 steps, batch 32", "25 steps, batch 128", "100 steps, batch 128",
    ]  # fmt: skip
    assert marks["25 steps, bias 5"].mode == "lines+markers" and len(marks["25 steps, bias 5"].x) == 3
    assert marks["25 steps, batch 32"].mode == "markers" and len(marks["25 steps, batch 32"].x) == 2
    assert len({(t.line.color, t.marker.symbol) for t in marks.values()}) == len(marks)


def test_marks_of_one_place_stand_apart_and_near_it() -> None:
    at = np.array([trace.x[0] for trace in by_setting(frames.settings()).data[:4]])
    assert len(set(at)) == 4 and (np.abs(at) < 0.4).all()


def test_sizes_are_on_a_log_axis_with_their_ends_and_scores_are_not() -> None:
    figure = by_setting(frames.settings())
    row = frames.settings().query("metric == 'size'").iloc[0]
    assert figure.data[0].y[0] == pytest.approx(100 * row["value"])
    assert figure.data[0].error_y.array[0] == pytest.approx(100 * (row["high"] - row["value"]))
    low, high = figure.layout.yaxis.range
    assert figure.layout.yaxis.type == "log" and low < np.log10(100 * row["value"]) < high
    assert "0.016%" in figure.data[0].hovertext[0] and "rate 10<sup>6</sup>" in figure.data[0].hovertext[0]
    scores = by_setting(frames.settings(), "accuracy")
    assert scores.layout.yaxis.type is None and scores.layout.yaxis.title.text == "accuracy, %"


def test_searches_told_their_size_alone_have_no_line_between() -> None:
    figure = by_setting(frames.settings().query("localizer != 'learned'"), "accuracy")
    assert not figure.layout.shapes and len(figure.data) == 4


def test_colours_are_seen_on_both_grounds() -> None:
    assert all(contrast(color, ground) >= 3 for color in (*FREE, *SIZED) for ground in GROUND.values())
