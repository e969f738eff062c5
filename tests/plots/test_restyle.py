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


def test_each_mark_has_its_counterpart_and_nothing_else_changes() -> None:
    """A scale of values is no mark."""
    figure, green, grey = with_dark_marks(drawn("dark")), dark_mark(GREEN), dark_mark(GREY)
    assert [list(trace.marker.color) for trace in figure.data[:2]] == [[green, "#123456"], [green, grey]]
    assert (figure.data[0].fillcolor, figure.data[1].line.color) == ("rgba(61,184,142,0.3)", green)
    (note,), (line,) = figure.layout.annotations, figure.layout.shapes
    assert (line.line.color, note.font.color, note.text) == (grey, green, GREEN)
    assert figure.to_dict()["data"][2] == drawn("dark").to_dict()["data"][2]
    assert figure.layout.template == template("dark")


def test_a_light_figure_is_left_as_it_is_and_a_dark_one_is_copied() -> None:
    light, dark, before = drawn("light"), drawn("dark"), drawn("dark").to_json()
    assert with_dark_marks(light) is light and with_dark_marks(dark).to_json() != before == dark.to_json()


@pytest.mark.parametrize("name", ["state_comparison", "named_by_size", "reliability_diagram", "confidence_histogram"])
def test_no_mark_of_the_light_theme_is_left(name: str) -> None:
    """A figure without marks would prove nothing."""
    parts = json.loads(with_dark_marks(draw(name, "dark")).to_json())
    text = json.dumps({**parts, "layout": {**parts["layout"], "template": None}})
    assert [color for color in marks() if color in text] == []
    assert any(color in draw(name, "dark").to_json() for color in marks())


@pytest.mark.cases(4, 20)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_grows_and_keeps_its_data(name: str) -> None:
    figure, before = draw(name), draw(name).to_json()
    large = enlarged(figure, 2)
    assert figure.to_json() == before
    sizes = [(one.layout.height, one.layout.template.layout.font.size) for one in (figure, large)]
    assert sizes[1] == tuple(2 * size for size in sizes[0])
    told, grown = ([{key: str(trace.get(key)) for key in VALUES} for trace in one.to_dict()["data"]]
                   for one in (figure, large))  # fmt: skip
    assert told == grown


def test_what_is_in_pixels_and_what_is_not() -> None:
    figure = go.Figure(
        go.Scatter(x=[1, 2], y=[3, 4], marker={"size": [4, 6], "opacity": 0.5}, line={"width": 2, "dash": "dot"},
                   textfont={"size": 12}),
        {"height": 300, "xaxis": {"range": [0, 5], "title": {"text": "x", "font": {"size": 13}, "standoff": 8}},
         "annotations": [{"text": "here", "x": 1, "y": 3, "ax": 10, "ay": -20, "font": {"size": 11}}],
         "margin": {"l": 8, "r": 12}, "legend": {"y": 1.02}},
    )  # fmt: skip
    large = enlarged(figure, 1.5)
    (line,), (note,), axis, layout = large.data, large.layout.annotations, large.layout.xaxis, large.layout
    assert (line.marker.size, line.line.width, line.textfont.size) == ((6, 9), 3, 18)
    assert (line.marker.opacity, line.x) == (0.5, (1, 2))
    assert (note.ax, note.ay, note.font.size, note.x) == (15, -30, 16.5, 1)
    assert (axis.range, axis.title.font.size, axis.title.standoff) == ((0, 5), 19.5, 12)
    assert (layout.height, layout.margin.l, layout.legend.y) == (450, 12, 1.02)


def test_a_tail_that_stands_on_an_axis_stays_there() -> None:
    note = {"text": "top movement", "x": 1, "y": 3, "axref": "x", "ax": 1.3, "ay": -20}
    (large,) = enlarged(go.Figure(layout={"annotations": [note]}), 1.5).layout.annotations
    assert (large.ax, large.ay) == (1.3, -30)
