"""Tests that figures are readable without color: marks of a panel differ in lightness, dash, symbol, fill or size."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations, cycle

import plotly.graph_objects as go
import pytest

from skillviz.plots.restyle import with_dark_marks
from skillviz.plots.theme import GROUND
from tests.plots.every_figure import NAMES, draw
from tests.plots.test_theme import lab

STEP = 10.0  # CIE L*, from 0 (black) to 100 (white): a tenth of the range is visible on paper
LARGER = 1.5  # this ratio of sizes is visible


@dataclass(frozen=True)
class Look:
    """The appearance of a mark: its color on the background, and its features without color."""

    trace: int
    color: str
    shape: tuple[object, ...]
    size: float

    def is_mistaken_for(self, other: Look) -> bool:
        """Return whether only color separates the two marks."""
        larger = max(self.size, other.size) >= LARGER * min(self.size, other.size)
        near = abs(lab(self.color)[0] - lab(other.color)[0]) < STEP
        return self.color != other.color and near and not larger and self.shape == other.shape


def parts(color: str) -> list[float]:
    """Return red, green, blue and opacity of a color, from 0 to 255 and from 0 to 1."""
    if color.startswith("#"):
        return [*(int(color[i : i + 2], 16) for i in (1, 3, 5)), 1.0]
    return [*map(float, re.findall(r"[\d.]+", color)), 1.0][:4]


def blended(color: str, opacity: float, ground: str) -> str:
    """Return a translucent color on the background."""
    *mark, alpha = parts(color)
    through = opacity * alpha
    mixed = (through * c + (1 - through) * g for c, g in zip(mark, parts(ground), strict=False))
    return "#" + "".join(f"{round(channel):02X}" for channel in mixed)


def looks(figure: go.Figure, ground: str) -> dict[tuple[str, str], set[Look]]:
    """Return the marks of each panel. Bars of one trace differ by position, and cells of a map by their numbers."""
    panels = defaultdict(set)
    for number, trace in ((n, t) for n, t in enumerate(figure.data) if t.type in SHAPES):
        panels[trace.xaxis or "x", trace.yaxis or "y"] |= SHAPES[trace.type](number, trace, ground)
    return panels


def of_scatter(number: int, trace: go.Scatter, ground: str) -> set[Look]:
    mode, through = trace.mode or "lines", trace.opacity if trace.opacity is not None else 1.0
    dash = (trace.line.dash or "solid") if "lines" in mode else ""
    if "markers" not in mode:
        color = trace.line.color
        return {Look(number, blended(color, through, ground), (dash, ""), 1.0)} if "lines" in mode and color else set()
    each = [[v] if isinstance(v, str | int | float) or v is None else list(v)
            for v in (trace.marker.color, trace.marker.symbol, trace.marker.size, trace.marker.opacity)]  # fmt: skip
    most = max(map(len, each))
    rows = list(zip(range(most), *map(cycle, each), strict=False))
    return {
        Look(number, blended(c, through * (1.0 if o is None else o), ground), (dash, s or "circle"), float(size or 6))
        for _, c, s, size, o in rows
        if isinstance(c, str)
    }


def of_bars(number: int, trace: go.Bar, ground: str) -> set[Look]:
    color, pattern = trace.marker.color, trace.marker.pattern.shape or ""
    through = trace.marker.opacity if isinstance(trace.marker.opacity, int | float) else 1.0
    if not (isinstance(color, str) and isinstance(pattern, str)):
        return set()
    return {Look(number, blended(color, through, ground), (pattern,), 1.0)}


SHAPES = {"scatter": of_scatter, "scattergl": of_scatter, "bar": of_bars}


def mistaken(figure: go.Figure, ground: str) -> list[tuple[Look, Look]]:
    """Return the pairs of marks in one panel that differ only in color."""
    pairs = (pair for panel in looks(figure, ground).values() for pair in combinations(panel, 2))
    return [(one, other) for one, other in pairs if one.is_mistaken_for(other)]


@pytest.mark.cases(4, 20)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_two_marks_of_a_panel_differ_in_color_alone(name: str) -> None:
    assert mistaken(draw(name), GROUND["light"]) == []
    assert mistaken(with_dark_marks(draw(name, "dark")), GROUND["dark"]) == []


@pytest.mark.parametrize(
    ("change", "count"),
    [({}, 1), ({"symbol": "diamond"}, 0), ({"color": "#FFB070"}, 0), ({"opacity": 0.3}, 0), ({"size": 13}, 0)],
)
def test_marks_that_differ_in_color_alone_would_be_seen(change: dict[str, object], count: int) -> None:
    """The two colors are 3.3 apart in lightness."""
    marks = [{"color": "#007A5A", "size": 8}, {"color": "#C44E00", "size": 8, **change}]
    figure = go.Figure([go.Scatter(x=[1], y=[1], mode="markers", marker=mark) for mark in marks])
    assert len(mistaken(figure, "#FFFFFF")) == count


def test_bars_that_differ_in_color_alone_would_be_seen() -> None:
    bars = go.Figure([go.Bar(x=[1], y=[1], marker_color=color) for color in ("#007A5A", "#C44E00")])
    assert len(mistaken(bars, "#FFFFFF")) == 1
