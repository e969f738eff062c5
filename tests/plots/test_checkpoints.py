"""Tests of the series of checkpoints: lines by quantity, steps on a log axis, intervals, chance of an overlap."""

from __future__ import annotations

import pytest

from skillviz.plots.checkpoints import PANELS, STEP, along_training, rows_of
from tests.plots import frames
from tests.plots.facts import Holding, facts, read

STEPS = [50, 100, 200, 400, 800]
MODELS, SEARCHES = ("fine-tuned", "graft, stagewise", "graft, top movement"), ("stagewise", "top movement")
LINES = {
    "score": {"pre-trained", *MODELS}, "calibration": set(MODELS), "needed": set(SEARCHES),
    "shared": {*SEARCHES, "by chance"}, "alike": {"stagewise", "by chance"}, "held": set(SEARCHES),
}  # fmt: skip

test_along_fine_tuning_there_is = facts(
    {
        "a mark at its step with its interval": (
            lambda: along_training(frames.checkpoints(), "score"),
            {
                "fine-tuned/y": pytest.approx([66, 71, 76, 81, 86]), "fine-tuned/error_y.array": pytest.approx([2] * 5),
                "fine-tuned/x": pytest.approx(STEPS, rel=0.06),
            },
        ),
        "a calibration error at its debiased value": (
            lambda: along_training(frames.checkpoints(), "calibration"), {"fine-tuned/y.0": pytest.approx(2)}
        ),
    }
    | {
        f"an axis with its unit for {panel}": (
            lambda panel=panel: along_training(frames.checkpoints(), panel),
            {
                "layout.xaxis.title.text": STEP, "layout.yaxis.title.text": Holding("%"),
                "layout.xaxis.type": "log", "layout.xaxis.tickvals": STEPS,
            },
        )
        for panel in PANELS
    }
)  # fmt: skip


def test_each_panel_has_its_lines() -> None:
    figures = {panel: along_training(frames.checkpoints(), panel) for panel in PANELS}
    assert {panel: {trace.name for trace in figure.data} for panel, figure in figures.items()} == LINES


def test_a_single_search_is_drawn_as_the_graft() -> None:
    every, one = frames.checkpoints(), frames.checkpoints().query("localizer != 'movement'")
    colors = [read(along_training(frame, "score"), "graft, stagewise/line.color") for frame in (every, one)]
    assert colors[0] != colors[1]


def test_a_size_that_no_graft_reached_has_no_mark() -> None:
    frame = frames.checkpoints()
    missing = frame.assign(value=frame["value"].where((frame["what"] != "needed") | (frame["step"] > 50)))
    assert set(rows_of(missing, "needed")["step"]) == set(STEPS[1:])
    assert [len(trace.x) for trace in along_training(missing, "needed").data] == [4] * len(SEARCHES)
