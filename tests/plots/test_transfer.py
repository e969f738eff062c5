"""Tests of zero-shot scores by task: dots, intervals and levels are in the right place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.transfer import graft_minus_finetuned, zero_shot
from tests.plots.facts import Between, Holding, Of, facts, read
from tests.plots.wise_frames import differences, tasks

NAMES = ("task-0", "task-1", "task-2")
LEVELS = {"chance": {"task-0": 0.5, "task-2": 0.25, "task-9": 0.1}}
NEAR = {"chance": {"task-0": 0.5}, "majority": {"task-0": 0.505}}
FAR = {"chance": dict.fromkeys(NAMES, 0.01)}
ENDS = ["value", "low", "high"]
STATES = ["pre-trained", "grafted", "fine-tuned", "temperature-scaled"]
HEIGHTS = [0.255, 0.085, -0.085, -0.255]
DOTS = "graft − fine-tuned, paired"
GRAFT = tasks().query("dataset == 'task-1' and state == 'grafted'")["value"].iloc[0]


def levels(of: list[Any]) -> list[str]:
    return [note.text for note in of if note.name == "level"]


def moved(shift: float) -> pd.DataFrame:
    frame = differences()
    return frame.assign(**{end: frame[end] + shift for end in ENDS})


test_each_task_has = facts(
    {
        "its place from the top, and its values with intervals": (
            lambda: zero_shot(tasks(), NAMES),
            {
                "layout.yaxis.ticktext": list(NAMES), "layout.yaxis.tickvals": [0, -1, -2],
                "grafted/x.1": pytest.approx(100 * GRAFT), "grafted/error_x.array.1": pytest.approx(3),
            },
        ),
        "states that do not cover one another": (
            lambda: zero_shot(tasks(), NAMES),
            {f"{name}/y.0": pytest.approx(height) for name, height in zip(STATES, HEIGHTS, strict=True)},
        ),
        **{
            f"the line of no difference within the axis of differences moved by {shift}": (
                lambda shift=shift: graft_minus_finetuned(moved(shift), NAMES),
                {
                    "layout.xaxis.range.0": Between(-np.inf, min(0, 100 * np.nanmin(moved(shift)[ENDS]))),
                    "layout.xaxis.range.1": Between(max(0, 100 * np.nanmax(moved(shift)[ENDS])), np.inf),
                },
            )
            for shift in (-0.2, 0.0, 0.2)
        },
        "numbers of differences that the line at zero does not cross": (
            lambda: graft_minus_finetuned(differences(), NAMES),
            {
                "layout.annotations": Of(
                    lambda of: [(note.text, bool(note.bgcolor)) for note in of if note.name == "difference"][:2],
                    [("\N{MINUS SIGN}3.0", True), ("+1.0 (\N{MINUS SIGN}1.0 to 3.5)", True)],
                )
            },
        ),
        "one label of two levels so near": (
            lambda: zero_shot(tasks(), NAMES, references=NEAR),
            {"layout.annotations": Of(levels, ["chance 50.0, majority 50.5"])},
        ),
        "the name of a level far below at the left end": (
            lambda: zero_shot(tasks(), NAMES, references=FAR),
            {
                "layout.annotations": Of(levels, ["← chance 1.0"]),
                "layout.annotations.-1.x": zero_shot(tasks(), NAMES).layout.xaxis.range[0],
            },
        ),
        "its levels in its band": (
            lambda: zero_shot(tasks(), NAMES, references=LEVELS),
            {
                "chance/x": [50, 50, None, 25, 25, None], "chance/y.3": pytest.approx(-2.42),
                "chance/y.4": pytest.approx(-1.58),
            },
        ),
        "no row if it was not asked for": (
            lambda: zero_shot(tasks(), ("task-2", "task-7")),
            {"layout.yaxis.ticktext": ["task-2"], "grafted/x": [Between(0, 100)]},
        ),
        "its difference with sign, unit and interval": (
            lambda: graft_minus_finetuned(differences(), NAMES),
            {
                f"{DOTS}/x": pytest.approx([-3, 1, 5]), f"{DOTS}/hovertext.0": Holding("no interval"),
                f"{DOTS}/hovertext.1": Holding("+1.0 points", "−1.0 to 3.5"), "layout.shapes.*.x0": Holding(0),
                "layout.xaxis.title.text": "accuracy: graft − fine-tuned, points",
            },
        ),
        "a difference of losses in nats": (
            lambda: graft_minus_finetuned(differences().assign(metric="nll"), NAMES, "nll"),
            {"layout.xaxis.title.text": Holding(", nats"), f"{DOTS}/x.2": pytest.approx(0.05)},
        ),
        "an axis of one point about zero if nothing differs": (
            lambda: graft_minus_finetuned(differences().assign(value=0.0, low=0.0, high=0.0)),
            {"layout.xaxis.range": [-1, 1]},
        ),
        "its long name broken": (
            lambda: zero_shot(tasks(1).assign(dataset="restaurant-reviews")),
            {"layout.yaxis.ticktext": ["restaurant-<br>reviews"]},
        ),
        "no level far below, and the axis that it has without one": (
            lambda: zero_shot(tasks(), NAMES, references=FAR),
            {"chance/*.x": [], "layout.xaxis.range": list(zero_shot(tasks(), NAMES).layout.xaxis.range)},
        ),
    }
)  # fmt: skip


@pytest.mark.slow
def test_fourteen_tasks_are_taller_than_one() -> None:
    assert zero_shot(tasks(14)).layout.height > 1000 > 400 > zero_shot(tasks(1)).layout.height >= 150


def test_every_mark_has_its_value_within_the_axis_and_its_name_in_the_legend() -> None:
    figure = zero_shot(tasks(), NAMES, references=NEAR)
    assert {t.name for t in figure.data if t.showlegend} == {t.name for t in figure.data if t.mode == "markers"}
    labels = {note.x: note.text for note in figure.layout.annotations if note.name == "dot"}
    value, half, (low, high) = read(figure, "grafted/x.0", "grafted/error_x.array.0", "layout.xaxis.range")
    assert len(labels) == sum(len(t.x) for t in figure.data if t.mode == "markers")
    assert labels[value + half] == f"{value:.1f}"
    assert low < min(labels) and high - max(labels) > 0.1 * (high - low)
