"""Tests of a figure for a lecture room: everything measured in pixels grows, and nothing else changes."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from skillviz.plots.restyle import enlarged
from tests.plots.every_figure import NAMES, draw

VALUES = ("x", "y", "z", "text", "name", "customdata", "hovertext", "mode")


@pytest.mark.cases(4, 20)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_grows_and_keeps_its_data(name: str) -> None:
    figure = draw(name)
    before = figure.to_json()
    large = enlarged(figure, 2)
    assert figure.to_json() == before
    assert large.layout.height == 2 * figure.layout.height
    assert large.layout.template.layout.font.size == 2 * figure.layout.template.layout.font.size
    assert [t.name for t in large.data] == [t.name for t in figure.data]
    told, grown = figure.to_dict(), large.to_dict()
    for old, new in zip(told["data"], grown["data"], strict=True):
        assert {key: str(old.get(key)) for key in VALUES} == {key: str(new.get(key)) for key in VALUES}


def test_what_is_in_pixels_and_what_is_not() -> None:
    figure = go.Figure(
        go.Scatter(x=[1, 2], y=[3, 4], marker={"size": [4, 6], "opacity": 0.5}, line={"width": 2, "dash": "dot"},
                   textfont={"size": 12}),
        {"height": 300, "xaxis": {"range": [0, 5], "title": {"text": "x", "font": {"size": 13}, "standoff": 8}},
         "annotations": [{"text": "here", "x": 1, "y": 3, "ax": 10, "ay": -20, "font": {"size": 11}}],
         "margin": {"l": 8, "r": 12}, "legend": {"y": 1.02}},
    )  # fmt: skip
    large = enlarged(figure, 1.5)
    assert large.data[0].marker.size == (6, 9) and large.data[0].marker.opacity == 0.5
    assert large.data[0].line.width == 3 and large.data[0].x == (1, 2) and large.data[0].textfont.size == 18
    note, axis = large.layout.annotations[0], large.layout.xaxis
    assert (note.ax, note.ay, note.font.size, note.x) == (15, -30, 16.5, 1)
    assert axis.range == (0, 5) and (axis.title.font.size, axis.title.standoff) == (19.5, 12)
    assert (large.layout.height, large.layout.margin.l, large.layout.legend.y) == (450, 12, 1.02)


def test_a_tail_that_stands_on_an_axis_stays_there() -> None:
    note = {"text": "top movement", "x": 1, "y": 3, "axref": "x", "ax": 1.3, "ay": -20}
    (large,) = enlarged(go.Figure(layout={"annotations": [note]}), 1.5).layout.annotations
    assert (large.ax, large.ay) == (1.3, -30)
