"""Tests of the panels, lines and levels of the figure of stages."""

from __future__ import annotations

import pytest

from skillviz.plots import continual
from skillviz.plots.cells import broken
from tests.plots import task_frames as frames
from tests.plots.every_figure import draw

ORDER = list(frames.TASKS[:3])


def test_a_panel_a_task_in_the_order_of_learning() -> None:
    figure = draw("by_stage")
    titles = [note.text for note in figure.layout.annotations if note.text[:1].isdigit()]
    assert titles == [f"{number}. {broken(task)}" for number, task in enumerate(ORDER, start=1)]
    assert continual.order_of(frames.stages()) == ORDER


def test_each_line_begins_with_its_task_s_own_stage() -> None:
    figure = continual.by_stage(frames.stages())
    naive = [trace for trace in figure.data if trace.legendgroup == "naive"]
    assert [len(trace.x) for trace in naive] == [3, 2, 1]
    assert list(naive[0].y) == pytest.approx([90, 82, 74])
    assert naive[0].error_y.array[0] == pytest.approx(2) and naive[0].line.dash != "solid"
    names = [note for note in figure.layout.annotations if note.name == "line"]
    assert [note.text.replace("<br>", " ") for note in names] == [t.name for t in figure.data if t.xaxis == "x3"]
    assert not figure.layout.showlegend


def test_a_model_of_its_own_and_the_pretrained_one_are_levels() -> None:
    figure = continual.by_stage(frames.stages(), start={ORDER[0]: 0.5})
    levels = [trace for trace in figure.data if trace.name == continual.ALONE]
    assert len(levels) == 3 and list(levels[0].y) == [90, 90]
    (pretrained,) = [trace for trace in figure.data if trace.name == continual.PRETRAINED]
    assert list(pretrained.y) == [50, 50] and pretrained.line.dash != levels[0].line.dash


def test_lines_and_levels_of_a_calibration_error_stand_at_its_debiased_value() -> None:
    figure = continual.by_stage(frames.stages().assign(metric="ece", debiased=0.02), "ece")
    assert all("2.0% ECE<br>95%: " in str(trace.hovertext or trace.hovertemplate) for trace in figure.data)
    lines = [trace for trace in figure.data if trace.name != continual.PRETRAINED]
    assert {y for trace in lines for y in trace.y} == {2.0} and continual.ALONE in {trace.name for trace in lines}


def test_a_study_of_one_mode_has_one_line_a_task() -> None:
    frame = frames.stages()
    figure = continual.by_stage(frame[frame["mode"] == "grafting"])
    assert {trace.legendgroup for trace in figure.data} == {"grafting"}
