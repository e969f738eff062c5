"""Tests of the scatter: points can be selected by id, and each case has its own color and mark."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.examples import CASES, MANY, class_probabilities, confidence_scatter
from tests.plots import example_frames as single


def points(figure: go.Figure) -> dict[str, list[str]]:
    """Return name -> ids of the traces that can be selected."""
    return {t.name: list(t.customdata) for t in figure.data if t.customdata is not None}


def test_a_points_customdata_is_its_example() -> None:
    frame = single.examples(20)  # few enough for one mark each
    found = points(confidence_scatter(frame))
    shown = frame[frame["shown"]]
    assert sorted(sum(found.values(), [])) == sorted(shown["example_id"])
    for case in shown["case"].unique():
        style, mine = CASES[case], shown[shown["case"] == case]
        assert found[f"{style.title} ({len(mine):,})"] == mine["example_id"].tolist()


def test_values_are_percent_or_nats() -> None:
    frame = single.examples(20)
    one = frame[(frame["case"] == "both") & frame["shown"]]
    sure = next(t for t in confidence_scatter(frame).data if str(t.name).startswith("both right"))
    assert list(sure.x) == pytest.approx(list(100 * one["finetuned"]), abs=0.0005)
    margin = next(
        t for t in confidence_scatter(frame, "margin", "margin, nats").data if str(t.name).startswith("both right")
    )
    assert list(margin.y) == pytest.approx(list(one["grafted"]), abs=0.0005)


def test_what_is_filtered_out_stays_as_context_that_cannot_be_clicked() -> None:
    frame = single.examples(20)
    context = next(t for t in confidence_scatter(frame).data if t.name == "filtered out")
    assert len(context.x) == (~frame["shown"]).sum() and context.hoverinfo == "skip" and context.customdata is None


def test_the_chosen_example_is_ringed_even_when_filtered_out() -> None:
    frame = single.examples()
    ring = next(t for t in confidence_scatter(frame, chosen="test-3").data if t.name == "chosen")
    assert not frame.set_index("example_id").loc["test-3", "shown"]
    assert list(ring.x) == pytest.approx([100 * frame.set_index("example_id").loc["test-3", "finetuned"]])
    assert all(t.name != "chosen" for t in confidence_scatter(frame).data)


def test_an_area_is_framed_in_the_figures_own_units_and_can_be_drawn_where_wanted() -> None:
    figure = confidence_scatter(single.examples(), framed=(0.5, 1.0, 0.0, 0.25), drags=True)
    (frame,) = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (50, 100, 0, 25) and figure.layout.dragmode == "select"
    plain = confidence_scatter(single.examples())
    assert not plain.layout.shapes and plain.layout.dragmode is None


def test_cases_differ_in_mark_as_well_as_colour() -> None:
    assert len({style.symbol for style in CASES.values()}) == len({style.color for style in CASES.values()}) == 4


def test_examples_of_a_case_at_one_place_share_a_mark_that_says_so() -> None:
    frame = pd.DataFrame(
        [
            ("a", "both", 0.9910, 0.80, True, "first"), ("b", "both", 0.9911, 0.801, True, "second"),
            ("c", "neither", 0.9910, 0.80, True, "third"), ("d", "both", 0.9910, 0.81, True, "fourth"),
        ], columns=["example_id", "case", "finetuned", "grafted", "shown", "words"],
    )  # fmt: skip
    both, neither = (t for t in confidence_scatter(frame).data if t.customdata is not None)
    assert (both.name, list(both.customdata)) == ("both right (3)", ["a", "d"])
    assert list(both.hovertext) == ["first<br>and 1 more here", "fourth"] and list(neither.hovertext) == ["third"]


def test_equal_margins_share_a_mark() -> None:
    frame = single.examples(20).assign(finetuned=1.5, grafted=1.5, case="both", shown=True)
    (marks,) = (t for t in confidence_scatter(frame, "margin", "margin, nats").data if t.customdata is not None)
    assert marks.name == "both right (20)" and list(marks.x) == [1.5]


def test_many_points_are_drawn_as_one_picture() -> None:
    frame = single.examples(4 * MANY)
    kinds = {type(t) for t in confidence_scatter(frame).data if t.customdata is not None}
    assert kinds == {go.Scattergl}
    assert go.Scattergl not in {type(t) for t in confidence_scatter(single.examples()).data}


def test_probabilities_by_class() -> None:
    frame = pd.DataFrame({"state": ["grafted"] * 2, "class": [1, 0], "probability": [0.75, 0.25]})
    figure = class_probabilities(frame, single.TWO, true=1)
    assert list(figure.data[0].x) == [25, 75] and list(figure.data[0].customdata) == list(single.TWO)
    assert figure.layout.yaxis.ticktext == ("negative", "positive<br>true class")
