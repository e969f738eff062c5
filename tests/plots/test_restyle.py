"""Tests of the dark theme: every mark gets its lighter color, and nothing else in the figure changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from skillviz.plots.restyle import enlarged, with_dark_marks
from skillviz.plots.theme import STATES, dark_mark, marks, template
from tests.plots.every_figure import NAMES, draw
from tests.plots.facts import Of, facts

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


def scale_of(traces: Sequence[Any]) -> dict[str, Any]:
    """Return the third of these traces, whose colors are values, as it is stored."""
    return go.Figure(traces[2]).to_dict()["data"][0]


IN_PIXELS = go.Figure(
    go.Scatter(x=[1, 2], y=[3, 4], marker={"size": [4, 6], "opacity": 0.5}, line={"width": 2, "dash": "dot"},
               textfont={"size": 12}),
    {"height": 300, "xaxis": {"range": [0, 5], "title": {"text": "x", "font": {"size": 13}, "standoff": 8}},
     "annotations": [{"text": "here", "x": 1, "y": 3, "ax": 10, "ay": -20, "font": {"size": 11}},
                     {"text": "top movement", "x": 1, "y": 3, "axref": "x", "ax": 1.3, "ay": -20}],
     "margin": {"l": 8, "r": 12}, "legend": {"y": 1.02}},
)  # fmt: skip

test_a_figure_has = facts(
    {
        "each mark in its counterpart, and a scale of values as it is": (
            lambda: with_dark_marks(drawn("dark")),
            {
                "data.0.marker.color": [dark_mark(GREEN), "#123456"], "data.0.fillcolor": "rgba(61,184,142,0.3)",
                "data.1.marker.color": [dark_mark(GREEN), dark_mark(GREY)], "data.1.line.color": dark_mark(GREEN),
                "data": Of(scale_of, scale_of(drawn("dark").data)), "layout.shapes.*.line.color": [dark_mark(GREY)],
                "layout.annotations.*.font.color": [dark_mark(GREEN)], "layout.annotations.*.text": [GREEN],
                "layout.template": template("dark"),
            },
        ),
        "a larger size of what is in pixels, and of nothing else": (
            lambda: enlarged(IN_PIXELS, 1.5),
            {
                "data.0.marker.size": [6, 9], "data.0.line.width": 3, "data.0.textfont.size": 18,
                "data.0.marker.opacity": 0.5, "data.0.x": [1, 2], "layout.xaxis.range": [0, 5],
                "layout.annotations.0.ax": 15, "layout.annotations.0.ay": -30, "layout.annotations.0.x": 1,
                "layout.annotations.0.font.size": 16.5, "layout.xaxis.title.font.size": 19.5,
                "layout.xaxis.title.standoff": 12, "layout.height": 450, "layout.margin.l": 12, "layout.legend.y": 1.02,
            },
        ),
        "a tail where it stands on an axis": (
            lambda: enlarged(IN_PIXELS, 1.5), {"layout.annotations.1.ax": 1.3, "layout.annotations.1.ay": -30}
        ),
    }
)  # fmt: skip


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
