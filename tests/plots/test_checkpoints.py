"""Tests of the series of checkpoints: lines by quantity, steps on a log axis, intervals, chance of an overlap."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.plots.checkpoints import PANELS, STEP, along_training, rows_of
from tests.plots import frames


def lines(panel: str) -> dict:
    return {trace.name: trace for trace in along_training(frames.checkpoints(), panel).data}


def test_each_panel_has_its_lines_and_axis_titles_with_units() -> None:
    drawn = {panel: set(lines(panel)) for panel in PANELS}
    assert drawn["score"] == {"pre-trained", "fine-tuned", "graft, stagewise", "graft, top movement"}
    assert drawn["calibration"] == drawn["score"] - {"pre-trained"}
    assert drawn["needed"] == {"stagewise", "top movement"} and drawn["shared"] == drawn["needed"] | {"by chance"}
    assert drawn["alike"] == {"stagewise", "by chance"} and drawn["held"] == drawn["needed"]
    for panel in PANELS:
        layout = along_training(frames.checkpoints(), panel).layout
        assert layout.xaxis.title.text == STEP and "%" in layout.yaxis.title.text
        assert layout.xaxis.type == "log" and list(layout.xaxis.tickvals) == [50, 100, 200, 400, 800]


def test_marks_stand_at_their_step_with_their_interval() -> None:
    line = lines("score")["fine-tuned"]
    assert np.allclose(line.y, [66, 71, 76, 81, 86]) and np.allclose(line.error_y.array, 2)
    assert np.allclose(line.x, [50, 100, 200, 400, 800], rtol=0.06)
    assert lines("calibration")["fine-tuned"].y[0] == pytest.approx(2)  # debiased, the center of its interval


def test_a_single_search_is_drawn_as_the_graft() -> None:
    frame = frames.checkpoints()
    alone = along_training(frame[frame["localizer"] != "movement"], "score")
    one = next(trace for trace in alone.data if trace.name == "graft, stagewise")
    assert one.line.color != lines("score")["graft, stagewise"].line.color


def test_a_size_that_no_graft_reached_has_no_mark() -> None:
    frame = frames.checkpoints()
    missing = frame.assign(value=frame["value"].where((frame["what"] != "needed") | (frame["step"] > 50)))
    assert set(rows_of(missing, "needed")["step"]) == {100, 200, 400, 800}
    assert all(len(trace.x) == 4 for trace in along_training(missing, "needed").data)
