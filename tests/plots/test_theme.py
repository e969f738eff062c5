"""Tests that marks are distinct: contrast on both backgrounds, different hues, and a second cue besides color."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from skillviz.plots import theme
from skillviz.plots.theme import BAR, GROUND, INK, LOCALIZERS, MODULE_KINDS, SOFT_INK, STATES, spare_style

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


def free_color() -> str:
    """Return a color for one more localizer: of a coarse grid, the one farthest from all others in both themes."""
    taken = [style.color for style in (*LOCALIZERS.values(), *list(STATES.values())[:3])]
    dark = [theme.dark_mark(color) for color in taken]

    def room(color: str) -> float:
        if min(contrast(color, ground) for ground in GROUND.values()) < 3:
            return 0.0
        return min(*(distance(color, one) for one in taken), *(distance(theme.dark_mark(color), one) for one in dark))

    return max(("#{:02X}{:02X}{:02X}".format(*levels) for levels in product(range(0, 256, 15), repeat=3)), key=room)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.478, abs=1e-3)
    assert contrast("#F0C000", "#FFFFFF") < 3  # a yellow would be caught


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize(("table", "name", "style"), ALL)
def test_every_mark_reaches_three_to_one(table: str, name: str, style: theme.Style, ground: str) -> None:
    assert contrast(style.color, GROUND[ground]) >= 3, f"{free_color()} is free"


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_text_reaches_four_and_a_half_to_one(ground: str) -> None:
    assert min(contrast(c[ground], GROUND[ground]) for c in (INK, SOFT_INK)) >= 4.5
    assert contrast(BAR, GROUND[ground]) >= 3


@pytest.mark.parametrize("light", sorted(theme.marks()))
def test_a_mark_of_the_dark_theme_is_lighter_and_reaches_four_to_one(light: str) -> None:
    dark = theme.dark_mark(light)
    assert contrast(dark, GROUND["dark"]) >= 4 and contrast(light, GROUND["light"]) >= 3
    assert contrast(dark, GROUND["dark"]) > contrast(light, GROUND["dark"])
    assert theme.dark_mark(dark) != light


def test_marks_of_the_dark_theme_are_told_apart_as_well() -> None:
    main = [theme.dark_mark(STATES[n].color) for n in ("pretrained", "grafted", "finetuned")]
    hues = [theme.dark_mark(s.color) for s in LOCALIZERS.values()]
    assert min(distance(a, b) for a, b in combinations(hues, 2)) > 20, f"{free_color()} is free"
    assert min(distance(a, b) for a in hues for b in main) > 20, f"{free_color()} is free"
    assert min(distance(a, b) for a, b in combinations(main, 2)) > 40


def test_the_three_states_look_as_designed() -> None:
    looks = {n: (s.title, s.color, s.symbol) for n, s in STATES.items()}
    assert looks["pretrained"] == ("pre-trained", "#6B7280", "circle-open")
    assert looks["grafted"] == ("grafted", "#007A5A", "diamond")
    assert looks["finetuned"] == ("fine-tuned", "#C44E00", "circle")


@pytest.mark.parametrize("table", TABLES)
def test_colour_is_never_the_only_cue(table: str) -> None:
    marks = [(s.symbol, s.dash) for s in TABLES[table].values()]
    assert len(set(marks)) == len(marks)
    if table != "kinds":
        assert len({s.symbol for s in TABLES[table].values()}) == len(marks)
        assert len({s.dash for s in TABLES[table].values()}) == len(marks)


def test_localizers_have_hues_of_their_own() -> None:
    main = [STATES[n].color for n in ("pretrained", "grafted", "finetuned")]
    hues = [s.color for s in LOCALIZERS.values()]
    assert min(distance(a, b) for a, b in combinations(hues, 2)) > 20, f"{free_color()} is free"
    assert min(distance(a, b) for a in hues for b in main) > 20, f"{free_color()} is free"
    assert min(distance(a.color, b.color) for a, b in combinations(STATES.values(), 2)) > 20
    assert distance("#007A5A", "#0A7F60") < 20  # a color near the grafted green would be caught


@pytest.mark.parametrize("find", [theme.localizer_style, theme.state_style, theme.kind_style])
def test_an_unknown_name_gets_the_same_style_every_time(find) -> None:  # type: ignore[no-untyped-def]
    style = find("annealed")
    assert style == find("annealed") == spare_style("annealed") and style.title == "annealed"
    taken = {(s.symbol, s.dash) for _, _, s in ALL}
    assert all((spare_style(f"new-{i}").symbol, spare_style(f"new-{i}").dash) not in taken for i in range(50))
    assert min(contrast(spare_style(f"new-{i}").color, g) for i in range(50) for g in GROUND.values()) >= 3


def test_an_unknown_name_holds_no_markup_and_no_line_break() -> None:
    assert theme.localizer_style("m<b>[a](x)`\\\r\n=1$").title == "mba(x)=1"
    assert theme.localizer_style(":material/bug_report: **b** http://x").title == "material/bug_report b http//x"


def test_unknown_names_differ_from_each_other() -> None:
    assert len({(s.color, s.symbol, s.dash) for s in (spare_style(f"new-{i}") for i in range(20))}) > 15


def test_the_template_speaks_the_themes_ink() -> None:
    for name in theme.THEMES:
        layout = theme.template(name).layout
        assert layout.font.color == INK[name] and layout.legend.orientation == "h"
        assert layout.showlegend is True  # also for a single trace
        assert layout.legend.yanchor == "bottom" and layout.legend.y > 1
        assert layout.xaxis.automargin and layout.yaxis.automargin


def test_a_localizer_with_other_settings_keeps_its_colour() -> None:
    kin = theme.localizer_style("learned-ranked", "batch size 1024")
    assert kin.color == LOCALIZERS["learned-ranked"].color and kin.title == "learned, ranked (batch size 1024)"
    assert kin.symbol not in {style.symbol for style in LOCALIZERS.values()}
