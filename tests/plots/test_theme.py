"""Tests that marks are distinct: contrast on both backgrounds, different hues, and a second cue besides color."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import plotly.graph_objects as go
import pytest

from skillviz.plots import theme
from skillviz.plots.theme import BAR, GROUND, INK, LOCALIZERS, MODULE_KINDS, SOFT_INK, STATES, spare_style
from tests.plots.facts import Between, facts

TABLES = {"states": STATES, "localizers": LOCALIZERS, "kinds": MODULE_KINDS}
ALL = [(t, n, s) for t, table in TABLES.items() for n, s in table.items()]


def channels(color: str) -> list[float]:
    """Return linear red, green and blue of a hex color, 0..1 (WCAG 2.2, relative luminance)."""
    values = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
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


def test_contrast_and_distance_are_those_of_the_standard() -> None:
    """A yellow, and a color near the grafted green, would be caught."""
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.478, abs=1e-3)
    assert contrast("#F0C000", "#FFFFFF") < 3 and distance("#007A5A", "#0A7F60") < 20


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize(("table", "name", "style"), ALL)
def test_every_mark_reaches_three_to_one(table: str, name: str, style: theme.Style, ground: str) -> None:
    assert contrast(style.color, GROUND[ground]) >= 3, f"{free_color()} is free"


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize(("color", "least"), [(INK, 4.5), (SOFT_INK, 4.5), ({"light": BAR, "dark": BAR}, 3)])
def test_text_reaches_four_and_a_half_to_one(color: dict[str, str], least: float, ground: str) -> None:
    assert contrast(color[ground], GROUND[ground]) >= least


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
    assert nearest(main) > apart
    assert nearest([style.color for style in STATES.values()]) > 20


def test_the_three_states_look_as_designed() -> None:
    looks = {n: (STATES[n].title, STATES[n].color, STATES[n].symbol) for n in ("pretrained", "grafted", "finetuned")}
    assert looks == {
        "pretrained": ("pre-trained", "#6B7280", "circle-open"), "grafted": ("grafted", "#007A5A", "diamond"),
        "finetuned": ("fine-tuned", "#C44E00", "circle"),
    }  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_colour_is_never_the_only_cue(table: str) -> None:
    styles = TABLES[table].values()
    cues = [{(s.symbol, s.dash) for s in styles}, {s.symbol for s in styles}, {s.dash for s in styles}]
    assert [len(cue) for cue in cues[: 1 if table == "kinds" else 3]] == [len(styles)] * (1 if table == "kinds" else 3)


@pytest.mark.parametrize("find", [theme.localizer_style, theme.state_style, theme.kind_style])
def test_an_unknown_name_gets_the_same_style_every_time(find) -> None:  # type: ignore[no-untyped-def]
    assert find("annealed") == find("annealed") == spare_style("annealed") and find("annealed").title == "annealed"


@pytest.mark.parametrize(
    ("name", "title"),
    [("m<b>[a](x)`\\\r\n=1$", "mba(x)=1"), (":material/bug_report: **b** http://x", "material/bug_report b http//x")],
)
def test_an_unknown_name_holds_no_markup_and_no_line_break(name: str, title: str) -> None:
    assert theme.localizer_style(name).title == title


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
    kin, symbols = theme.localizer_style("learned-ranked", "batch size 1024"), {s.symbol for s in LOCALIZERS.values()}
    assert (kin.color, kin.title) == (LOCALIZERS["learned-ranked"].color, "learned, ranked (batch size 1024)")
    assert kin.symbol not in symbols
