"""Tests of zero-shot scores by task: dots, intervals and levels are in the right place."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.plots.transfer import graft_minus_finetuned, zero_shot
from tests.plots.wise_frames import differences, tasks

NAMES = ("task-0", "task-1", "task-2")


def trace(figure, name: str):
    (found,) = [trace for trace in figure.data if trace.name == name]
    return found


def test_the_first_task_is_at_the_top_and_states_do_not_cover_one_another() -> None:
    figure = zero_shot(tasks(), NAMES)
    assert list(figure.layout.yaxis.ticktext) == list(NAMES) and list(figure.layout.yaxis.tickvals) == [0, -1, -2]
    heights = [trace(figure, name).y[0] for name in ("pre-trained", "grafted", "fine-tuned", "temperature-scaled")]
    assert heights == sorted(heights, reverse=True) and np.ptp(heights) < 1
    assert min(np.abs(np.diff(heights))) > 0.1
    frame = tasks()
    wanted = 100 * frame[(frame["dataset"] == "task-1") & (frame["state"] == "grafted")]["value"].iloc[0]
    assert trace(figure, "grafted").x[1] == pytest.approx(wanted)
    assert trace(figure, "grafted").error_x.array[1] == pytest.approx(3)


def test_levels_stand_in_the_bands_of_their_tasks() -> None:
    levels = {"chance": {"task-0": 0.5, "task-2": 0.25, "task-9": 0.1}}
    chance = trace(zero_shot(tasks(), NAMES, references=levels), "chance")
    assert list(chance.x) == [50, 50, None, 25, 25, None]
    assert list(chance.y)[3:5] == pytest.approx([-2.42, -1.58])


def test_only_the_tasks_asked_for_are_drawn() -> None:
    figure = zero_shot(tasks(), ("task-2", "task-7"))
    assert list(figure.layout.yaxis.ticktext) == ["task-2"] and len(trace(figure, "grafted").x) == 1


@pytest.mark.slow
def test_fourteen_tasks_are_taller_than_one() -> None:
    tall, low = zero_shot(tasks(14)), zero_shot(tasks(1))
    assert tall.layout.height > 1000 > 400 > low.layout.height >= 150


def test_a_difference_has_its_sign_its_unit_and_its_interval() -> None:
    figure = graft_minus_finetuned(differences(), NAMES)
    dots = trace(figure, "graft − fine-tuned, paired")
    assert list(dots.x) == pytest.approx([-3, 1, 5])
    assert dots.hovertext[0].endswith("no interval") and "+1.0 points" in dots.hovertext[1]
    assert "−1.0 to 3.5" in dots.hovertext[1]
    assert figure.layout.xaxis.title.text == "accuracy: graft − fine-tuned, points"
    assert any(shape.x0 == 0 for shape in figure.layout.shapes)
    nats = graft_minus_finetuned(differences().assign(metric="nll"), NAMES, "nll")
    assert nats.layout.xaxis.title.text.endswith(", nats") and trace(nats, dots.name).x[2] == pytest.approx(0.05)


@pytest.mark.parametrize("shift", [-0.2, 0.0, 0.2])
def test_the_line_of_no_difference_is_never_at_the_edge(shift: float) -> None:
    frame = differences()
    frame[["value", "low", "high"]] += shift
    low, high = graft_minus_finetuned(frame, NAMES).layout.xaxis.range
    ends = 100 * frame[["value", "low", "high"]].to_numpy(float)
    assert low < min(0, np.nanmin(ends)) and high > max(0, np.nanmax(ends))
    assert graft_minus_finetuned(frame.assign(value=0.0, low=0.0, high=0.0)).layout.xaxis.range == (-1, 1)


def test_long_names_are_broken() -> None:
    frame = tasks(1).assign(dataset="restaurant-reviews")
    assert zero_shot(frame).layout.yaxis.ticktext == ("restaurant-<br>reviews",)


def test_every_mark_has_its_value_within_the_axis_and_its_name_in_the_legend() -> None:
    levels = {"chance": {"task-0": 0.5}, "majority": {"task-0": 0.505}}
    figure = zero_shot(tasks(), NAMES, references=levels)
    assert {t.name for t in figure.data if t.showlegend} == {t.name for t in figure.data if t.mode == "markers"}
    labels = [a for a in figure.layout.annotations if a.name == "dot"]
    assert len(labels) == sum(len(t.x) for t in figure.data if t.mode == "markers")
    graft = trace(figure, "grafted")
    first = next(a for a in labels if a.x == pytest.approx(graft.x[0] + graft.error_x.array[0]))
    assert first.text == f"{graft.x[0]:.1f}"
    low, high = figure.layout.xaxis.range
    assert all(low < a.x < high for a in labels) and high - max(a.x for a in labels) > 0.1 * (high - low)
    (near,) = [a.text for a in figure.layout.annotations if a.name == "level"]
    assert near == "chance 50.0, majority 50.5", "two levels so near share one label"
    labels = [a for a in graft_minus_finetuned(differences(), NAMES).layout.annotations if a.name == "difference"]
    text = [a.text for a in labels]
    assert all(a.bgcolor for a in labels)  # the line at zero does not cross a number
    assert text[1] == "+1.0 (\N{MINUS SIGN}1.0 to 3.5)" and text[0] == "\N{MINUS SIGN}3.0"


def test_chance_far_below_is_named_at_the_left_end() -> None:
    levels = {"chance": dict.fromkeys(NAMES, 0.01)}
    figure = zero_shot(tasks(), NAMES, references=levels)
    without = zero_shot(tasks(), NAMES)
    assert not [trace for trace in figure.data if trace.name == "chance"]
    assert figure.layout.xaxis.range == without.layout.xaxis.range
    (name,) = [one for one in figure.layout.annotations if one.name == "level"]
    assert name.text == "← chance 1.0" and name.x == figure.layout.xaxis.range[0]
