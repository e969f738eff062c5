"""Tests of the two themes in numbers: text has a contrast of 4.5:1 to its background (WCAG 2.2, 1.4.3)."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from skillviz.plots.theme import GROUND, INK, STATES, dark_mark
from skillviz.tasks.project import PROJECT
from skillviz.ui.frame import STYLE
from tests.plots.test_theme import contrast

THEMES: dict[str, Any] = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())["theme"]
SELECTED = 0.1  # share of the primary color in the background of a selected segment
CAPTION = float(re.search(r"stCaptionContainer.*?opacity: ([\d.]+)", STYLE.read_text(), re.S)[1])  # type: ignore[index]
STREAMLITS = 0.6  # the opacity of Streamlit's captions


def mixed(color: str, ground: str, share: float) -> str:
    """Return a translucent color on this background."""
    pairs = ((int(color[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * over + (1 - share) * under):02X}" for over, under in pairs)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_what_is_written_can_be_read(name: str) -> None:
    theme = THEMES[name]
    ground, second, ink = theme["backgroundColor"], theme["secondaryBackgroundColor"], theme["textColor"]
    side, primary = theme["sidebar"]["backgroundColor"], theme["primaryColor"]
    for under in (ground, second, side):
        assert contrast(ink, under) >= 7
        assert contrast(mixed(ink, under, CAPTION), under) >= 4.5
        assert contrast(theme["linkColor"], under) >= 4.5
    assert contrast(ground, primary) >= 4.5, "a primary button, a chosen tag"
    assert contrast(primary, mixed(primary, ground, SELECTED)) >= 4.5, "a selected segment"
    assert contrast(primary, ground) >= 3 and contrast(primary, second) >= 3, "where the keyboard is"
    for color in ("gray", "green", "orange"):
        assert contrast(theme[f"{color}TextColor"], ground) >= 4.5
        if f"{color}BackgroundColor" in theme:
            assert contrast(theme[f"{color}TextColor"], theme[f"{color}BackgroundColor"]) >= 4.5, "a chip"


def test_what_could_not_be_read_before_would_be_found() -> None:
    light, dark = THEMES["light"], THEMES["dark"]
    assert contrast(mixed(light["textColor"], "#FFFFFF", STREAMLITS), "#FFFFFF") < 4.5
    assert contrast("#327EC3", mixed("#327EC3", dark["backgroundColor"], SELECTED)) < 4.5


def test_figures_and_pages_share_ground_ink_and_the_states_colours() -> None:
    for name, theme in ((name, THEMES[name]) for name in ("light", "dark")):
        assert theme["backgroundColor"] == GROUND[name] and theme["textColor"] == INK[name]
    green, orange = (dark_mark(STATES[state].color) for state in ("grafted", "finetuned"))
    assert THEMES["dark"]["greenTextColor"] == green and THEMES["dark"]["orangeTextColor"] == orange
    assert THEMES["dark"]["grayTextColor"] == dark_mark(STATES["pretrained"].color)
