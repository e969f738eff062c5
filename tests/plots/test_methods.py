"""Tests of methods against touched parameters: positions on the log axis, separate marks, differences around zero."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.methods import FEW, STYLES, against_touched, method_style, rivals
from skillviz.plots.theme import GROUND
from tests.plots import study_frames as frames
from tests.plots.test_theme import contrast


def test_a_method_stands_at_the_share_that_it_touches_with_its_interval() -> None:
    figure = against_touched(frames.points())
    mark = next(t for t in figure.data if t.name == "BitFit")
    row = frames.points().query("method == 'bitfit' and metric == 'accuracy'").iloc[0]
    assert mark.x[0] / (100 * row["touched"]) == pytest.approx(1, rel=0.2)
    assert mark.y[0] == pytest.approx(100 * row["value"])
    assert mark.error_y.array[0] == pytest.approx(100 * (row["high"] - row["value"]))
    assert figure.layout.xaxis.type == "log"
    low, high = figure.layout.xaxis.range
    assert low < math.log10(0.1) and high > 2


def test_an_axis_of_shares_begins_at_0_and_has_room_for_the_levels() -> None:
    points = frames.points().assign(low=0.0)
    assert against_touched(points, "ece").layout.yaxis.range[0] == 0
    assert against_touched(points, "ece", references={"pretrained": 0.9}).layout.yaxis.range[1] > 90
    assert against_touched(points.assign(high=1.0)).layout.yaxis.range == (0, 100)


def test_methods_that_touch_equally_many_stand_side_by_side() -> None:
    marks = {t.name: t.x[0] for t in against_touched(frames.points()).data}
    assert marks["fine-tuned"] != marks["AdamW"] and abs(marks["fine-tuned"] / marks["AdamW"] - 1) < 0.3
    assert math.sqrt(marks["fine-tuned"] * marks["AdamW"]) == pytest.approx(100)


def test_several_sizes_are_a_line_and_the_untouched_model_is_a_level() -> None:
    figure = against_touched(frames.points(3), references={"pretrained": 0.6})
    graft = next(t for t in figure.data if t.name == "graft")
    assert len(graft.x) == 3 and list(graft.x) == sorted(graft.x) and graft.mode == "lines+markers"
    assert "pre-trained" not in [t.name for t in figure.data]
    assert [shape.y0 for shape in figure.layout.shapes] == [60]


def test_no_line_of_a_name_beside_its_end_is_longer_than_the_margin() -> None:
    points = frames.points()
    scaled = points[points["method"] == "ft"].assign(method="ft_scaled", value=0.7)
    few = pd.concat([points[points["method"].isin(("graft", "graft_retrain", "ft"))], scaled])
    names = [note.text for note in against_touched(few).layout.annotations if note.name == "curve"]
    assert "temperature-<br>scaled" in names and "region<br>re-trained" in names
    assert max(len(line) for name in names for line in name.split("<br>")) <= 14


def test_many_methods_of_several_sizes_stand_in_print_and_the_best_of_a_size_is_bold() -> None:
    points = frames.board()
    figure = against_touched(points, references={"pretrained": 0.6})
    cells, numbers = figure.data
    assert cells.z.shape == (10, 3) and np.isfinite(cells.z).sum() == 24
    assert list(figure.layout.xaxis.ticktext) == ["0.1%", "1%", "10.0%"]
    row = list(figure.layout.yaxis.ticktext).index("fine-tuned")
    words = dict(zip(zip(numbers.x, numbers.y, strict=True), numbers.text, strict=True))
    bold = [text for text in words.values() if "<b>" in text]
    assert len(words) == 24 and len(bold) == 3 and "<b>83.1%</b><br>81.1–85.1" in words.values()
    assert {note.y: note.text for note in figure.layout.annotations} == {0: "60.0%", row: "86.4% (84.4–88.4)"}
    twice = pd.concat([points, points.assign(touched=points["touched"] * 1.01)])
    assert len(against_touched(twice).data) == 9, "none is hidden by another of its method and size"


def test_ticks_are_written_without_exponents() -> None:
    ticks = against_touched(frames.points(3)).layout.xaxis
    assert {"0.1", "1", "10", "100"} <= set(ticks.ticktext) and max(ticks.tickvals) == 100
    assert all("e" not in word for word in ticks.ticktext)


def test_every_method_is_told_apart_by_more_than_colour_and_seen_on_both_grounds() -> None:
    for one, style in STYLES.items():
        assert all(contrast(style.color, ground) >= 3 for ground in GROUND.values()), one
    assert len({style.symbol for style in STYLES.values()}) == len(STYLES)


def test_a_graft_of_another_recipe_keeps_the_colour_and_says_so() -> None:
    style = method_style("graft", "adamw-l1", recipes={"adamw-l1": "AdamW + L1"})
    assert style.title == "graft of AdamW + L1" and style.color == STYLES["graft"].color
    assert style.symbol != STYLES["graft"].symbol


def test_differences_stand_about_a_line_at_zero_in_the_order_of_the_styles() -> None:
    figure = rivals(frames.differences())
    assert list(figure.layout.yaxis.categoryarray) == ["AdamW", "fine-tuned", "LoRA", "BitFit", "region re-trained"]
    assert figure.layout.xaxis.title.text == "accuracy: method − graft, points"
    low, high = figure.layout.xaxis.range
    assert low < 0 < high and figure.layout.shapes[0].x0 == 0
    assert "points" in figure.data[0].hovertext[0] and "95%" in figure.data[0].hovertext[0]


def test_an_interval_that_is_missing_is_said() -> None:
    table = frames.differences().assign(low=float("nan"), high=float("nan"))
    assert rivals(table, "ece").data[0].hovertext[0].endswith("no interval")


def test_many_methods_of_one_size_stay_nearer_to_it_than_to_the_next() -> None:
    """Sizes differ by a factor of three, like on a board: each mark is nearest to its own size."""
    methods = list(STYLES)[:FEW]
    row = frames.points().query("metric == 'accuracy'").iloc[0]
    points = pd.DataFrame([{**row, "method": m, "touched": size} for m in methods for size in (0.001, 0.003)])
    for trace in against_touched(points).data:
        small, large = sorted(trace.x)
        assert max(small / 0.1, 0.1 / small) < 3**0.5 > max(large / 0.3, 0.3 / large)
