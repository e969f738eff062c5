"""Tests that hold for every figure: titles with units, empty frames, unchanged input, no randomness, no fixed width;
and in Chromium at 320 to 900 pixels: no text is cut or overlapped, and cells of the map can be clicked."""

import ast
import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

from skillviz import plots
from tests.plots.every_figure import FIGURES, NAMES, draw
from tests.plots.facts import Of, read
from tests.refused import refuses
from tests.tiers import first, in_the_night

# A title gives its unit after a comma, or names the counted or listed items.
UNIT = re.compile(r", (%|nats|points|count|index|number|L2|kB)|^region size, %|layer \(first = 0\)|head \(first = 0\)")
CATEGORIES = {
    "comparison", "module", "module kind", "state", "class", "true class", "predicted class", "token", "task", "run",
    "method", "learning rate, or search told its size", "entries of run", "also in run", "region of",
    "entries of region of", "also in region of", "part", "slice", "sub-skill", "answer",
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


@pytest.mark.slow
@pytest.mark.cases(10, 25)
@pytest.mark.parametrize("theme", first(["light", "dark"], "light".__eq__))
@pytest.mark.parametrize("name", NAMES)
def test_every_axis_has_a_title_with_its_unit(name: str, theme: str) -> None:
    for figure in (draw(name, theme), draw(name, theme, rows=0)):
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


@pytest.mark.slow
def test_every_figure_is_in_the_table() -> None:
    """Except the one of planted skills, whose rows stand in the order of its frame."""
    drawn = {function.__name__ for function, _, _ in FIGURES.values()}
    (folder,) = plots.__path__
    made = {(file.stem, name) for file in Path(folder).glob("*.py") for name in figures_of(file) - drawn}
    assert made == {("known_truth", "found")}


@pytest.mark.slow
def test_a_title_without_a_unit_would_be_seen() -> None:
    assert [titled(title) for title in ("accuracy", "", None)] == [False] * 3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_empty_frame_gives_a_labelled_empty_figure(name: str) -> None:
    figure = draw(name, rows=0)
    (sentence,) = [a.text for a in figure.layout.annotations]
    assert len(figure.data) == 0 and sentence.endswith(".") and len(sentence) > 15


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.cases(10, 20)
@pytest.mark.parametrize("name", NAMES)
def test_neither_the_order_of_rows_nor_a_height_changes_what_is_drawn(name: str) -> None:
    function, make, arguments = FIGURES[name]
    turned = function(make().iloc[::-1].reset_index(drop=True), height=333, **arguments)
    assert [t.name for t in turned.data] == [t.name for t in draw(name).data]
    assert turned.layout.height == HEIGHTS.get(name, 333)


@pytest.mark.slow
@pytest.mark.cases(10, 20)
@pytest.mark.parametrize("name", NAMES)
def test_the_width_is_the_pages_and_the_ground_shows_through(name: str) -> None:
    grounds = [f"{place}.{ground}" for place in ("layout", "layout.template.layout")
               for ground in ("paper_bgcolor", "plot_bgcolor")]  # fmt: skip
    found = read(draw(name), "layout.width", *grounds, "layout.height")
    assert found == [None, None, None, *["rgba(0,0,0,0)"] * 2, Of((150).__le__, True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_column_is_named(name: str) -> None:
    function, make, arguments = FIGURES[name]
    needed = {"value", "accuracy", "selected", "row", "loss", *(["movement_l2"] * (name == "region_map_movement"))}
    for column in needed & set(make()):
        refuses(ValueError, f"no column '{column}'", function, make().drop(columns=column), **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_theme_is_named(name: str) -> None:
    function, make, arguments = FIGURES[name]
    refuses(ValueError, "'sepia' is not known; it is one of light, dark", function, make(), theme="sepia", **arguments)


WIDTHS = (320, 500, 900)

# Every visible text with its box, relative to the figure's box. Rotated tick labels have boxes that overlap though
# their letters do not, so they are compared only with the frame.
WORDS = """([width, figure]) => {
  const div = document.getElementById('g'); div.style.width = width + 'px';
  return Plotly.newPlot(div, figure.data, figure.layout, {displayModeBar: false}).then(() => {
    const frame = div.getBoundingClientRect();
    return [...div.querySelectorAll('text')].filter(t => t.textContent.trim() && t.getBoundingClientRect().width > 0
      && getComputedStyle(t).visibility !== 'hidden' && getComputedStyle(t).display !== 'none').map(t => {
        const b = t.getBoundingClientRect();
        const turned = /rotate\\((?!0[,)]|-90)/.test(t.getAttribute('transform') || '');
        return {words: t.textContent, left: b.left - frame.left, right: b.right - frame.left,
                top: b.top - frame.top, bottom: b.bottom - frame.top, turned, width: frame.width,
                height: figure.layout.height};
      });
  });
}"""

CLICK = """figure => {
  const div = document.getElementById('g'); div.style.width = '900px';
  window.clicked = null;
  return Plotly.newPlot(div, figure.data, figure.layout, {displayModeBar: false}).then(() => {
    div.on('plotly_click', e => { window.clicked = e.points.map(p => p.customdata); });
    const area = div.querySelector('.nsewdrag').getBoundingClientRect();
    return {left: area.left, top: area.top, width: area.width, height: area.height};
  });
}"""


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """Return a blank page with plotly.js and one empty figure."""
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.set_content('<body style="margin:0"><div id="g"></div></body>')
    page.add_script_tag(content=get_plotlyjs())
    yield page
    page.close()


def words_of(page: Any, figure: go.Figure, width: int) -> list[dict]:
    """Return all texts of the figure at this width, with their boxes in pixels."""
    return page.evaluate(WORDS, [width, json.loads(figure.to_json())])


def cut(words: list[dict]) -> list[str]:
    """Return the texts that extend outside the figure."""
    return [
        w["words"]
        for w in words
        if w["left"] < -1 or w["top"] < -1 or w["right"] > w["width"] + 1 or w["bottom"] > w["height"] + 1
    ]


def overlapping(words: list[dict]) -> list[tuple[str, str]]:
    """Return pairs of texts whose boxes share more than a pixel or two of ascender space."""
    return [
        (a["words"], b["words"])
        for a, b in combinations([w for w in words if not w["turned"]], 2)
        if min(a["right"], b["right"]) - max(a["left"], b["left"]) > 1
        and min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]) > 4
    ]


@pytest.mark.e2e
@pytest.mark.cases(0, 4)
@pytest.mark.parametrize("name", first(NAMES, NAMES[::4].__contains__, in_the_night))
def test_no_word_is_cut_or_covered(page: Any, name: str) -> None:
    for width in WIDTHS:
        words = words_of(page, draw(name), width)
        assert len(words) > 4
        assert (width, cut(words), overlapping(words)) == (width, [], [])


@pytest.mark.e2e
def test_cut_and_covered_words_would_be_seen(page: Any) -> None:
    figure = draw("metric_by_size")
    assert "fine-tuned86.4" in cut(words_of(page, go.Figure(figure).update_layout(margin_r=5), 500))
    covered = overlapping(words_of(page, go.Figure(figure).update_annotations(ay=0), 500))
    assert ("↓ chance 50.0", "↓ majority50.1") in covered


@pytest.mark.e2e
@pytest.mark.parametrize("place", [(0.5, 0.5), (0.1, 0.15), (0.9, 0.85)])
def test_a_click_anywhere_in_a_cell_selects_it(page: Any, place: tuple[float, float]) -> None:
    area = page.evaluate(CLICK, json.loads(draw("region_map").to_json()))
    for column, row, cell in [(2, 3, [3, "value"]), (5, 0, [0, "MLP out"]), (7, 5, [5, "bias"])]:
        x = area["left"] + area["width"] * (column + place[0]) / 8
        y = area["top"] + area["height"] * (row + place[1]) / 6
        page.wait_for_timeout(400)  # longer than a double click
        page.mouse.move(x, y)
        page.mouse.click(x, y)
        assert page.evaluate("window.clicked") == [cell]
