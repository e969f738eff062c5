"""Tests of zero-shot scores by task: dots, intervals and levels are in the right place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.transfer import graft_minus_finetuned, zero_shot
from tests.plots.facts import Between, Holding, facts, read
from tests.plots.wise_frames import differences, tasks

NAMES = ("task-0", "task-1", "task-2")
LEVELS = {"chance": {"task-0": 0.5, "task-2": 0.25, "task-9": 0.1}}
NEAR = {"chance": {"task-0": 0.5}, "majority": {"task-0": 0.505}}
FAR = {"chance": dict.fromkeys(NAMES, 0.01)}
DOTS = "graft − fine-tuned, paired"
GRAFT = tasks().query("dataset == 'task-1' and state == 'grafted'")["value"].iloc[0]


def notes(figure: go.Figure, name: str) -> pd.DataFrame:
    """Return the annotations with this name."""
    found = [note for note in figure.layout.annotations if note.name == name]
    return pd.DataFrame(
        {"text": [n.text for n in found], "x": [n.x for n in found], "ground": [n.bgcolor for n in found]}
    )


test_each_task_has = facts(
    {
        "its place from the top, and its values with intervals": (
            lambda: zero_shot(tasks(), NAMES),
            {
                "layout.yaxis.ticktext": list(NAMES), "layout.yaxis.tickvals": [0, -1, -2],
                "grafted/x.1": pytest.approx(100 * GRAFT), "grafted/error_x.array.1": pytest.approx(3),
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


def test_states_do_not_cover_one_another() -> None:
    states = ("pre-trained", "grafted", "fine-tuned", "temperature-scaled")
    heights = read(zero_shot(tasks(), NAMES), *(f"{name}/y.0" for name in states))
    assert np.diff(heights).max() < -0.1 and np.ptp(heights) < 1


@pytest.mark.slow
def test_fourteen_tasks_are_taller_than_one() -> None:
    assert zero_shot(tasks(14)).layout.height > 1000 > 400 > zero_shot(tasks(1)).layout.height >= 150


@pytest.mark.parametrize("shift", [-0.2, 0.0, 0.2])
def test_the_line_of_no_difference_is_never_at_the_edge(shift: float) -> None:
    frame = differences()
    frame[["value", "low", "high"]] += shift
    low, high = graft_minus_finetuned(frame, NAMES).layout.xaxis.range
    ends = 100 * frame[["value", "low", "high"]].to_numpy(float)
    assert low < min(0, np.nanmin(ends)) and high > max(0, np.nanmax(ends))


def test_every_mark_has_its_value_within_the_axis_and_its_name_in_the_legend() -> None:
    figure = zero_shot(tasks(), NAMES, references=NEAR)
    assert {t.name for t in figure.data if t.showlegend} == {t.name for t in figure.data if t.mode == "markers"}
    labels, (low, high) = notes(figure, "dot"), figure.layout.xaxis.range
    assert len(labels) == sum(len(t.x) for t in figure.data if t.mode == "markers")
    value, half = read(figure, "grafted/x.0", "grafted/error_x.array.0")
    assert labels["text"][np.isclose(labels["x"], value + half)].iloc[0] == f"{value:.1f}"
    assert low < labels["x"].min() and high - labels["x"].max() > 0.1 * (high - low)


def test_the_line_at_zero_does_not_cross_the_number_of_a_difference() -> None:
    labels = notes(graft_minus_finetuned(differences(), NAMES), "difference")
    assert labels["ground"].all() and len(labels) == 3
    assert labels["text"].tolist()[:2] == ["\N{MINUS SIGN}3.0", "+1.0 (\N{MINUS SIGN}1.0 to 3.5)"]


def test_near_levels_share_one_label_and_one_far_below_is_named_at_the_left_end() -> None:
    near, far = (zero_shot(tasks(), NAMES, references=levels) for levels in (NEAR, FAR))
    assert notes(near, "level")["text"].tolist() == ["chance 50.0, majority 50.5"]
    assert notes(far, "level")[["text", "x"]].values.tolist() == [["← chance 1.0", far.layout.xaxis.range[0]]]
