"""Tests of a figure in the form for Streamlit: plain lists, no template, one revision for equal content."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go

from skillviz.plots.theme import template
from skillviz.ui.chart import as_lists, drawn_once


def figure(*heights: float) -> go.Figure:
    made = go.Figure([go.Bar(x=["a", "b"], y=np.array(heights)), go.Heatmap(z=np.eye(2), xaxis="x2", yaxis="y2")])
    return made.update_layout(template=template("light"), yaxis={"title": {"text": "share"}, "nticks": 3})


def test_arrays_are_lists_and_the_template_is_in_its_place() -> None:
    given = figure(1.0, 2.0)
    before = given.to_json()
    drawn = drawn_once(given).to_dict()
    assert given.to_json() == before, "the figure of the page stays as it is"
    assert drawn["data"][0]["y"] == [1.0, 2.0] and drawn["data"][1]["z"] == [[1.0, 0.0], [0.0, 1.0]]
    ours = template("light").layout
    layout = drawn["layout"]
    assert layout.get("template") is None and layout["font"]["color"] == ours.font.color
    assert layout["yaxis"]["nticks"] == 3, "what the figure says wins"
    assert layout["yaxis2"]["nticks"] == ours.yaxis.nticks, "an axis that only a trace names"
    assert layout["yaxis"]["title"] == {"font": ours.yaxis.title.font.to_plotly_json(), "standoff": 8, "text": "share"}
    assert layout["xaxis"]["showline"] and layout["xaxis2"]["showline"] and "showline" not in layout["yaxis"]


def test_the_revision_is_that_of_the_content() -> None:
    darker = figure(1.0, 2.0).update_layout(template=template("dark"))
    given = (figure(1.0, 2.0), figure(1.0, 2.0), figure(1.0, 3.0), darker)
    first, again, *others = (drawn_once(one).to_dict()["layout"]["datarevision"] for one in given)
    assert first == again and first not in others and others[0] != others[1]


def test_a_template_that_says_more_than_ours_is_left() -> None:
    pie = go.Figure(go.Pie(values=[1, 2])).update_layout(template="plotly")
    bars = go.Figure(go.Bar(y=[1, 2])).update_layout(template="plotly")
    for kept in (pie, bars):
        assert drawn_once(kept).to_dict()["layout"]["template"] == kept.to_dict()["layout"]["template"]


def test_a_figure_without_data_and_encoded_arrays() -> None:
    empty = drawn_once(go.Figure().update_layout(template=template("dark"))).to_dict()
    assert not empty["data"] and "template" not in empty["layout"]
    assert empty["layout"]["font"]["color"] == template("dark").layout.font.color
    assert as_lists(go.Figure(go.Heatmap(z=np.arange(6.0).reshape(2, 3))).to_plotly_json())["data"][0]["z"] == [
        [0, 1, 2], [3, 4, 5],
    ]  # fmt: skip


def test_streamlit_has_nothing_to_fill_in_where_marks_are_selected() -> None:
    points, box, plain = (drawn_once(figure(1.0, 2.0), by=by).to_dict()["layout"] for by in ("points", "box", None))
    assert (points["clickmode"], points["hovermode"], points["dragmode"]) == ("event+select", "closest", "pan")
    assert box["dragmode"] == "select" and "clickmode" not in plain


def test_streamlit_writes_it_as_plotly_would() -> None:
    given = figure(1.0, float("nan"))
    shown = drawn_once(given).to_dict()
    values = {name: value for name, value in shown["layout"].items() if name != "datarevision"}
    again = json.loads(go.Figure(shown["data"], values).to_json())
    plain = json.loads(given.to_json())
    assert again["data"][0]["x"] == plain["data"][0]["x"] and shown["data"][0]["y"] == [1.0, None]
    assert drawn_once(given).to_dict() == shown and drawn_once(given).to_dict() is not shown
