"""Tests that marks are distinct: contrast on both backgrounds, different hues, a second cue besides color, also in grey
and in the dark theme."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle, product
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from skillviz.plots import theme
from skillviz.plots.restyle import enlarged, with_dark_marks
from skillviz.plots.theme import (
    BAR,
    GROUND,
    INK,
    LOCALIZERS,
    MODULE_KINDS,
    SOFT_INK,
    STATES,
    dark_mark,
    marks,
    spare_style,
    template,
)
from tests.core.by_hand import by_hand, near
from tests.plots.every_figure import NAMES, draw
from tests.plots.facts import Between, Of, facts

TABLES = {"states": STATES, "localizers": LOCALIZERS, "kinds": MODULE_KINDS}
ALL = [(t, n, s) for t, table in TABLES.items() for n, s in table.items()]


def channels(color: str) -> list[float]:
    """Return linear red, green and blue of a hex color, 0..1 (WCAG 2.2, relative luminance)."""
    values = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def luminance(color: str) -> float:
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), channels(color), strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def lab(color: str) -> tuple[float, float, float]:
    """Return CIE L*a*b* (D65)."""
    r, g, b = channels(color)
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        luminance(color),
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: str, other: str) -> float:
    return sum((p - q) ** 2 for p, q in zip(lab(one), lab(other), strict=True)) ** 0.5


def nearest(*groups: list[str]) -> float:
    """Return the smallest distance between two colors of one group, or between one of each of two."""
    pairs = combinations(groups[0], 2) if len(groups) == 1 else product(*groups)
    return min(distance(one, other) for one, other in pairs)


def free_color() -> str:
    """Return a color for one more localizer: of a coarse grid, the one farthest from all others in both themes."""
    taken = [style.color for style in (*LOCALIZERS.values(), *list(STATES.values())[:3])]
    dark = [theme.dark_mark(color) for color in taken]

    def room(color: str) -> float:
        if min(contrast(color, ground) for ground in GROUND.values()) < 3:
            return 0.0
        return min(nearest([color], taken), nearest([theme.dark_mark(color)], dark))

    return max(("#{:02X}{:02X}{:02X}".format(*levels) for levels in product(range(0, 256, 15), repeat=3)), key=room)


test_contrast_and_distance_are_those_of_the_standard = by_hand(
    ("black", near(21), contrast, "#000000", "#FFFFFF"),
    ("grey", near(4.478, abs=1e-3), contrast, "#777777", "#FFFFFF"),
    ("a yellow would be caught", Between(1, 3), contrast, "#F0C000", "#FFFFFF"),
    ("a color near the grafted green would be caught", Between(0, 20), distance, "#007A5A", "#0A7F60"),
)


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize(
    ("what", "colors", "least"),
    [("ink", INK, 4.5), ("soft ink", SOFT_INK, 4.5), ("bar", {"light": BAR, "dark": BAR}, 3),
     *((f"{table}: {name}", dict.fromkeys(GROUND, style.color), 3) for table, name, style in ALL)],
)  # fmt: skip
def test_every_mark_reaches_three_to_one_and_text_four_and_a_half(
    what: str, colors: dict[str, str], least: float, ground: str
) -> None:
    assert contrast(colors[ground], GROUND[ground]) >= least, f"{what}: {free_color()} is free"


@pytest.mark.parametrize("light", sorted(theme.marks()))
def test_a_mark_of_the_dark_theme_is_lighter_and_reaches_four_to_one(light: str) -> None:
    dark = theme.dark_mark(light)
    assert contrast(dark, GROUND["dark"]) >= 4 and contrast(light, GROUND["light"]) >= 3
    assert contrast(dark, GROUND["dark"]) > contrast(light, GROUND["dark"]) and theme.dark_mark(dark) != light


@pytest.mark.parametrize(("seen", "apart"), [(str, 0), (theme.dark_mark, 40)], ids=["light", "dark"])
def test_localizers_and_states_have_hues_of_their_own(seen: Callable[[str], str], apart: float) -> None:
    main = [seen(STATES[n].color) for n in ("pretrained", "grafted", "finetuned")]
    hues = [seen(s.color) for s in LOCALIZERS.values()]
    assert nearest(hues) > 20 and nearest(hues, main) > 20, f"{free_color()} is free"
    assert nearest(main) > apart and nearest([style.color for style in STATES.values()]) > 20


def test_the_three_states_look_as_designed() -> None:
    assert [(STATES[n].title, STATES[n].color, STATES[n].symbol) for n in ("pretrained", "grafted", "finetuned")] == [
        ("pre-trained", "#6B7280", "circle-open"), ("grafted", "#007A5A", "diamond"),
        ("fine-tuned", "#C44E00", "circle"),
    ]  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_colour_is_never_the_only_cue(table: str) -> None:
    styles = TABLES[table].values()
    cues = [{(s.symbol, s.dash) for s in styles}, {s.symbol for s in styles}, {s.dash for s in styles}]
    assert [len(cue) for cue in cues[: 1 if table == "kinds" else 3]] == [len(styles)] * (1 if table == "kinds" else 3)


@pytest.mark.parametrize("find", [theme.localizer_style, theme.state_style, theme.kind_style])
def test_an_unknown_name_gets_the_same_style_every_time(find) -> None:  # type: ignore[no-untyped-def]
    assert find("annealed") == find("annealed") == spare_style("annealed") and find("annealed").title == "annealed"


test_an_unknown_name_holds_no_markup_and_no_line_break = by_hand(
    ("brackets and a line break", "mba(x)=1", lambda: theme.localizer_style("m<b>[a](x)`\\\r\n=1$").title),
    ("an icon and a link", "material/bug_report b http//x",
     lambda: theme.localizer_style(":material/bug_report: **b** http://x").title),
)  # fmt: skip


def test_unknown_names_differ_from_each_other_and_from_known_ones() -> None:
    spares = [spare_style(f"new-{i}") for i in range(50)]
    assert {(s.symbol, s.dash) for s in spares}.isdisjoint((s.symbol, s.dash) for _, _, s in ALL)
    assert min(contrast(s.color, g) for s in spares for g in GROUND.values()) >= 3
    assert len({(s.color, s.symbol, s.dash) for s in spares[:20]}) > 15


test_a_template_speaks = facts(
    {
        f"the ink of the {name} theme, with a legend above also of a single trace": (
            lambda name=name: go.Figure(layout={"template": theme.template(name)}),
            {
                "layout.template.layout.font.color": INK[name], "layout.template.layout.showlegend": True,
                "layout.template.layout.legend.orientation": "h", "layout.template.layout.legend.yanchor": "bottom",
                "layout.template.layout.legend.y": Between(1, 2), "layout.template.layout.xaxis.automargin": True,
                "layout.template.layout.yaxis.automargin": True,
            },
        )
        for name in theme.THEMES
    }
)  # fmt: skip


def test_a_localizer_with_other_settings_keeps_its_colour() -> None:
    kin, own = theme.localizer_style("learned-ranked", "batch size 1024"), LOCALIZERS["learned-ranked"]
    assert (kin.color, kin.title) == (own.color, "learned, ranked (batch size 1024)")
    assert kin.symbol not in {s.symbol for s in LOCALIZERS.values()}


STEP = 10.0  # CIE L*, from 0 (black) to 100 (white): a tenth of the range is visible on paper
LARGER = 1.5  # this ratio of sizes is visible


@dataclass(frozen=True)
class Look:
    """The appearance of a mark: its color on the background, and its features without color."""

    trace: int
    color: str
    shape: tuple[object, ...]
    size: float

    def is_mistaken_for(self, other: "Look") -> bool:
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
    return {
        Look(number, blended(c, through * (1.0 if o is None else o), ground), (dash, s or "circle"), float(size or 6))
        for _, c, s, size, o in zip(range(max(map(len, each))), *map(cycle, each), strict=False)
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
    ("make", "change", "count"),
    [(go.Bar, {}, 1), (go.Scatter, {}, 1), (go.Scatter, {"symbol": "diamond"}, 0),
     (go.Scatter, {"color": "#FFB070"}, 0), (go.Scatter, {"opacity": 0.3}, 0), (go.Scatter, {"size": 13}, 0)],
)  # fmt: skip
def test_marks_that_differ_in_color_alone_would_be_seen(make: Any, change: dict[str, object], count: int) -> None:
    """The two colors are 3.3 apart in lightness."""
    size = {"size": 8} if make is go.Scatter else {}
    marks = [{"color": "#007A5A", **size}, {"color": "#C44E00", **size, **change}]
    figure = go.Figure([make(x=[1], y=[1], marker=mark) for mark in marks])
    assert len(mistaken(figure.update_traces(mode="markers", selector={"type": "scatter"}), "#FFFFFF")) == count


GREEN, GREY = STATES["grafted"].color, STATES["pretrained"].color
VALUES = ("x", "y", "z", "text", "name", "customdata", "hovertext", "mode")


def drawn(theme: str) -> go.Figure:
    """Return a figure with marks in every place that can have a color."""
    traces = (
        {"marker": {"color": [GREEN, "#123456"]}, "fillcolor": STATES["grafted"].faint(0.3)},
        {"marker": {"color": np.array([GREEN, GREY])}, "line": {"color": GREEN}},
        {"marker": {"color": np.array([0.5, 1.0]), "colorscale": [[0, GREEN], [1, GREY]]}},
    )
    return go.Figure(
        [go.Scatter(x=[1, 2], y=[1, 2], **trace) for trace in traces],
        {"shapes": [{"type": "line", "x0": 0, "x1": 1, "y0": 0, "y1": 1, "line": {"color": GREY}}],
         "annotations": [{"text": GREEN, "font": {"color": GREEN}, "x": 0, "y": 0}], "template": template(theme)},
    )  # fmt: skip


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
    text = go.Figure(with_dark_marks(draw(name, "dark"))).update_layout(template="none").to_json()
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
    told, grown = ([{key: str(trace.get(key)) for key in VALUES} for trace in one.to_dict()["data"]]
                   for one in (figure, large))  # fmt: skip
    assert (sizes[1], grown) == (tuple(2 * size for size in sizes[0]), told)
