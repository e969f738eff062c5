"""Tests that hold for every figure: titles with units, empty frames, unchanged input, no randomness, no fixed width."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz import plots
from tests.plots.every_figure import FIGURES, NAMES, draw, draw_empty
from tests.tiers import first

pytestmark = pytest.mark.slow

# A title gives its unit after a comma, or names the counted or listed items.
UNIT = re.compile(r", (%|nats|points|count|index|number|L2|kB)|^region size, %|layer \(first = 0\)|head \(first = 0\)")
CATEGORIES = {
    "comparison", "module", "module kind", "state", "class", "true class", "predicted class", "token", "task", "run",
    "method", "learning rate, or search told its size", "entries of run", "also in run", "region of",
    "entries of region of", "also in region of", "part", "slice", "sub-skill",
}  # fmt: skip


def axes(figure: go.Figure) -> list:
    """Return the axes that need a title: of two that share a scale, the lower one; of panels with the same
    categories, one for all."""
    every = [*figure.select_xaxes(), *figure.select_yaxes()]
    drawn = [a for a in every if a.matches is None or a.showticklabels is not False]
    named = [tuple(a.categoryarray) for a in drawn if a.categoryarray is not None and a.title.text]
    return [a for a in drawn if a.title.text or a.categoryarray is None or tuple(a.categoryarray) not in named]


def titled(title: str | None) -> bool:
    return bool(title) and (title in CATEGORIES or bool(UNIT.search(title.replace("<br>", " "))))


@pytest.mark.cases(10, 25)
@pytest.mark.parametrize("theme", first(["light", "dark"], "light".__eq__))
@pytest.mark.parametrize("name", NAMES)
def test_every_axis_has_a_title_with_its_unit(name: str, theme: str) -> None:
    for figure in (draw(name, theme), draw_empty(name, theme)):
        assert [a.title.text for a in axes(figure) if not titled(a.title.text)] == []


def figures_of(file: Path) -> set[str]:
    """Return the functions of a module of plots that draw a figure in a theme of their caller's choice."""
    return {
        node.name
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if node.returns is not None and ast.unparse(node.returns) == "go.Figure"
        if "theme" in {argument.arg for argument in node.args.kwonlyargs}
    }


def test_every_figure_is_in_the_table() -> None:
    """Except the one of planted skills, whose rows stand in the order of its frame."""
    drawn = {function.__name__ for function, _, _ in FIGURES.values()}
    (folder,) = plots.__path__
    made = {(file.stem, name) for file in Path(folder).glob("*.py") for name in figures_of(file)}
    assert [one for one in sorted(made) if one[1] not in drawn] == [("known_truth", "found")]


def test_a_title_without_a_unit_would_be_seen() -> None:
    assert not titled("accuracy") and not titled("") and not titled(None)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_frame_gives_a_labelled_empty_figure(name: str) -> None:
    figure = draw_empty(name)
    (sentence,) = [a.text for a in figure.layout.annotations]
    assert len(figure.data) == 0 and sentence.endswith(".") and len(sentence) > 15


@pytest.mark.cases(10, 20)
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_depends_on_its_frame_alone(name: str) -> None:
    """The same frame gives the same figure and is not changed."""
    function, make, arguments = FIGURES[name]
    frame, before = make(), make()
    assert function(frame, **arguments).to_json() == draw(name).to_json()
    pd.testing.assert_frame_equal(frame, before)


HEIGHTS = {"tensor_vector": 170, "smooth_reliability": 365} | dict.fromkeys(
    ("confidence_histogram", "reliability_diagram", "runs_reliability"), 349
)
"""Heights for a given one of 333, where a figure has another: titles of panels in several lines add 16 pixels each."""


@pytest.mark.cases(10, 20)
@pytest.mark.parametrize("name", NAMES)
def test_neither_the_order_of_rows_nor_a_height_changes_what_is_drawn(name: str) -> None:
    function, make, arguments = FIGURES[name]
    turned = function(make().iloc[::-1].reset_index(drop=True), height=333, **arguments)
    assert [t.name for t in turned.data] == [t.name for t in draw(name).data]
    assert turned.layout.height == HEIGHTS.get(name, 333)


@pytest.mark.cases(10, 20)
@pytest.mark.parametrize("name", NAMES)
def test_the_width_is_the_pages_and_the_ground_shows_through(name: str) -> None:
    layout, clear = draw(name).layout, "rgba(0,0,0,0)"
    template = layout.template.layout
    assert (layout.width, layout.paper_bgcolor, layout.plot_bgcolor) == (None, None, None) and layout.height >= 150
    assert (template.paper_bgcolor, template.plot_bgcolor) == (clear, clear)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_column_is_named(name: str) -> None:
    function, make, arguments = FIGURES[name]
    needed = {"value", "accuracy", "selected", "row", "loss", *(["movement_l2"] * (name == "region_map_movement"))}
    for column in needed & set(make()):
        with pytest.raises(ValueError, match=f"no column '{column}'"):
            function(make().drop(columns=column), **arguments)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_theme_is_named(name: str) -> None:
    function, make, arguments = FIGURES[name]
    with pytest.raises(ValueError, match="'sepia' is not known; it is one of light, dark"):
        function(make(), theme="sepia", **arguments)
