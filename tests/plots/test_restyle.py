"""Tests of the dark theme: every mark gets its lighter color, and nothing else in the figure changes."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from skillviz.plots.restyle import enlarged, with_dark_marks
from skillviz.plots.theme import STATES, dark_mark, marks, template
from tests.plots.every_figure import NAMES, draw

GREEN, GREY = STATES["grafted"].color, STATES["pretrained"].color
VALUES = ("x", "y", "z", "text", "name", "customdata", "hovertext", "mode")


def drawn(theme: str) -> go.Figure:
    """Return a figure with marks in every place that can have a color."""
    figure = go.Figure()
    figure.add_scatter(x=[1, 2], y=[1, 2], marker={"color": [GREEN, "#123456"]}, fillcolor=STATES["grafted"].faint(0.3))
    figure.add_scatter(x=[1, 2], y=[1, 2], marker={"color": np.array([GREEN, GREY])}, line={"color": GREEN})
    figure.add_scatter(
        x=[1, 2], y=[1, 2], marker={"color": np.array([0.5, 1.0]), "colorscale": [[0, GREEN], [1, GREY]]}
    )
    figure.add_shape(type="line", x0=0, x1=1, y0=0, y1=1, line={"color": GREY})
    figure.add_annotation(text=GREEN, font={"color": GREEN}, x=0, y=0)
    return figure.update_layout(template=template(theme))


def test_each_mark_has_its_counterpart() -> None:
    figure = with_dark_marks(drawn("dark"))
    green, grey = dark_mark(GREEN), dark_mark(GREY)
    assert list(figure.data[0].marker.color) == [green, "#123456"]
    assert figure.data[0].fillcolor == "rgba(61,184,142,0.3)"
    assert list(figure.data[1].marker.color) == [green, grey] and figure.data[1].line.color == green
    assert figure.layout.shapes[0].line.color == grey
    assert figure.layout.annotations[0].font.color == green and figure.layout.annotations[0].text == GREEN
    assert figure.to_dict()["data"][2] == drawn("dark").to_dict()["data"][2], "a scale of values is no mark"
    assert figure.layout.template == template("dark")


def test_a_light_figure_is_left_as_it_is_and_a_dark_one_is_copied() -> None:
    light, dark = drawn("light"), drawn("dark")
    before = dark.to_json()
    assert with_dark_marks(light) is light
    assert with_dark_marks(dark).to_json() != before == dark.to_json()


@pytest.mark.parametrize("name", ["state_comparison", "named_by_size", "reliability_diagram", "confidence_histogram"])
def test_no_mark_of_the_light_theme_is_left(name: str) -> None:
    parts = json.loads(with_dark_marks(draw(name, "dark")).to_json())
    parts["layout"].pop("template")
    text = json.dumps(parts)
    assert not [color for color in marks() if color in text]
    assert any(color in draw(name, "dark").to_json() for color in marks())  # a figure without marks would prove nothing


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
