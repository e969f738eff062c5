"""Tests of the panels, lines and levels of the figure of stages."""

from __future__ import annotations

import pytest

from skillviz.plots import continual
from skillviz.plots.cells import broken
from tests.plots import task_frames as frames
from tests.plots.every_figure import draw
from tests.plots.facts import Of, facts, read

ORDER = list(frames.TASKS[:3])

test_levels_are = facts(
    {
        "a model of its own and the pre-trained one": (
            lambda: continual.by_stage(frames.stages(), start={ORDER[0]: 0.5}),
            {
                f"{continual.ALONE}/*.xaxis": ["x", "x2", "x3"], f"{continual.ALONE}/0.y": [90, 90],
                f"{continual.PRETRAINED}/*.y": [[50, 50]],
            },
        ),
        "none in a study of one mode": (
            lambda: continual.by_stage(frames.stages().query("mode == 'grafting'")),
            {"data.*.legendgroup": Of(set, {"grafting"})},
        ),
    }
)  # fmt: skip


def test_a_panel_a_task_in_the_order_of_learning() -> None:
    titles = [note.text for note in draw("by_stage").layout.annotations if note.text[:1].isdigit()]
    assert titles == [f"{number}. {broken(task)}" for number, task in enumerate(ORDER, start=1)]
    assert continual.order_of(frames.stages()) == ORDER


def test_each_line_begins_with_its_task_s_own_stage_and_is_named_in_the_last_panel() -> None:
    figure = continual.by_stage(frames.stages(), start={ORDER[0]: 0.5})
    naive = [trace for trace in figure.data if trace.legendgroup == "naive"]
    assert [len(trace.x) for trace in naive] == [3, 2, 1] and list(naive[0].y) == pytest.approx([90, 82, 74])
    assert naive[0].error_y.array[0] == pytest.approx(2) and naive[0].line.dash != "solid"
    names = [note.text.replace("<br>", " ") for note in figure.layout.annotations if note.name == "line"]
    assert names == [t.name for t in figure.data if t.xaxis == "x3"] and not figure.layout.showlegend
    alone, pretrained = read(figure, f"{continual.ALONE}/0.line.dash", f"{continual.PRETRAINED}/line.dash")
    assert alone != pretrained


def test_lines_and_levels_of_a_calibration_error_stand_at_its_debiased_value() -> None:
    figure = continual.by_stage(frames.stages().assign(metric="ece", debiased=0.02), "ece")
    lines = {trace.name: set(trace.y) for trace in figure.data if trace.name != continual.PRETRAINED}
    assert lines == dict.fromkeys(lines, {2.0}) and continual.ALONE in lines
    said = [str(trace.hovertext or trace.hovertemplate) for trace in figure.data]
    assert [hover for hover in said if "2.0% ECE<br>95%: " not in hover] == []
