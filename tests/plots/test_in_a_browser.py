"""Tests in Chromium at 320 to 900 pixels: no text is cut or overlapped, and cells of the map can be clicked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

from tests.plots.every_figure import NAMES, draw
from tests.tiers import first, in_the_night

pytestmark = pytest.mark.e2e
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


@pytest.mark.cases(0, 4)
@pytest.mark.parametrize("name", first(NAMES, NAMES[::4].__contains__, in_the_night))
def test_no_word_is_cut_or_covered(page: Any, name: str) -> None:
    for width in WIDTHS:
        words = words_of(page, draw(name), width)
        assert len(words) > 4
        assert (width, cut(words), overlapping(words)) == (width, [], [])


def test_cut_and_covered_words_would_be_seen(page: Any) -> None:
    narrow = go.Figure(draw("metric_by_size")).update_layout(margin_r=5)
    covered = go.Figure(draw("metric_by_size")).update_annotations(ay=0)
    assert "fine-tuned86.4" in cut(words_of(page, narrow, 500))
    assert ("↓ chance 50.0", "↓ majority50.1") in overlapping(words_of(page, covered, 500))


@pytest.mark.parametrize("place", [(0.5, 0.5), (0.1, 0.15), (0.9, 0.85)])
def test_a_click_anywhere_in_a_cell_selects_it(page: Any, place: tuple[float, float]) -> None:
    area = page.evaluate(CLICK, json.loads(draw("region_map").to_json()))
    columns, rows = 8, 6
    for column, row, cell in [(2, 3, [3, "value"]), (5, 0, [0, "MLP out"]), (7, 5, [5, "bias"])]:
        x = area["left"] + area["width"] * (column + place[0]) / columns
        y = area["top"] + area["height"] * (row + place[1]) / rows
        page.wait_for_timeout(400)  # longer than a double click
        page.mouse.move(x, y)
        page.mouse.click(x, y)
        assert page.evaluate("window.clicked") == [cell]
