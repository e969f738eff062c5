"""Tests that the page table, the glossary and the settings are complete and correct, and of the two themes in numbers:
text has a contrast of 4.5:1 to its background (WCAG 2.2, 1.4.3)."""

import re
import tomllib
from typing import Any

import pandas as pd
import pytest
from streamlit import config

from skillviz.plots.theme import GROUND, INK, STATES, dark_mark
from skillviz.show.glossary import GLOSSARY, NAMES, about
from skillviz.tasks.project import PROJECT
from skillviz.ui.frame import STYLE
from skillviz.ui.page_table import GROUPS, PAGES
from tests.plots.test_theme import contrast
from tests.tables import plain, says

SETTINGS = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())


def test_the_table_and_the_folder_agree() -> None:
    assert {path.stem for path in (PROJECT / "pages").glob("*.py")} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_by_its_own_name_and_explains_itself(name: str) -> None:
    source = PAGES[name].path.read_text()
    assert re.findall(r'page\.begin(?:_home|_library|_without_run|_studies)?\("(\w+)"', source) == [name]
    assert source.startswith('"""') and PAGES[name].group in GROUPS
    room = PROJECT / "skillviz" / "ui" / "pages"
    files = (*room.glob(f"{name}.py"), *room.glob(f"{name}/*.py"))
    assert "about(" in "".join([source, *(path.read_text() for path in files)]), "it explains its words"


def test_every_word_that_is_explained_is_in_the_glossary() -> None:
    files = [*(PROJECT / "pages").glob("*.py"), *(PROJECT / "skillviz" / "ui").rglob("*.py")]
    calls = [call for path in files for call in re.findall(r"\babout\(([^)]*)\)", path.read_text())]
    used = {word for call in calls for word in re.findall(r'"(\w+)"', call)}
    assert used and {*used, *NAMES} <= {*GLOSSARY}


test_help_names_each_word_when_there_are_several = says({
    "one": (lambda: about("ece"), (f"^{plain(GLOSSARY['ece'])}$",)),
    "several": (lambda: about("ece", "graft"), ("^**ECE**: ", "\n\n**graft**: ")),
})  # fmt: skip


def test_the_server_listens_on_loopback_only_and_sends_nothing() -> None:
    server = SETTINGS["server"]
    assert (server["address"], server["fileWatcherType"]) == ("127.0.0.1", "none")
    assert {*server["allowedHosts"]} == {"localhost", "127.0.0.1"}
    assert SETTINGS["browser"]["gatherUsageStats"] is False and SETTINGS["client"]["toolbarMode"] == "minimal"


def test_figures_settings_are_known_to_streamlit() -> None:
    """A misspelled setting would only give a warning in the terminal."""
    names = pd.json_normalize(SETTINGS).columns
    assert {*names} <= {*config.get_config_options()} and len(names) > 20


THEMES: dict[str, Any] = SETTINGS["theme"]
SELECTED = 0.1  # share of the primary color in the background of a selected segment
CAPTION = float(re.search(r"stCaptionContainer.*?opacity: ([\d.]+)", STYLE.read_text(), re.S)[1])  # type: ignore[index]
STREAMLITS = 0.6  # the opacity of Streamlit's captions


def mixed(color: str, ground: str, share: float) -> str:
    pairs = ((int(color[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * over + (1 - share) * under):02X}" for over, under in pairs)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_what_is_written_can_be_read(name: str) -> None:
    theme = THEMES[name]
    ground, second, ink = theme["backgroundColor"], theme["secondaryBackgroundColor"], theme["textColor"]
    side, primary = theme["sidebar"]["backgroundColor"], theme["primaryColor"]
    written = {f"{color} chip": (theme[f"{color}TextColor"], under, 4.5) for color in ("gray", "green", "orange")
               for under in (ground, theme.get(f"{color}BackgroundColor", ground))}  # fmt: skip
    for under in (ground, second, side):
        written |= {
            f"text on {under}": (ink, under, 7), f"a link on {under}": (theme["linkColor"], under, 4.5),
            f"a caption on {under}": (mixed(ink, under, CAPTION), under, 4.5),
        }  # fmt: skip
    written |= {
        "a primary button, a chosen tag": (ground, primary, 4.5),
        "a selected segment": (primary, mixed(primary, ground, SELECTED), 4.5),
        "where the keyboard is": (primary, ground, 3), "where it is, on the second ground": (primary, second, 3),
    }  # fmt: skip
    assert {what: contrast(over, under) for what, (over, under, least) in written.items()
            if contrast(over, under) < least} == {}  # fmt: skip


def test_what_could_not_be_read_before_would_be_found() -> None:
    light, dark = THEMES["light"], THEMES["dark"]
    assert contrast(mixed(light["textColor"], "#FFFFFF", STREAMLITS), "#FFFFFF") < 4.5
    assert contrast("#327EC3", mixed("#327EC3", dark["backgroundColor"], SELECTED)) < 4.5


def test_figures_and_pages_share_ground_ink_and_the_states_colours() -> None:
    of_states = {"greenTextColor": "grafted", "orangeTextColor": "finetuned", "grayTextColor": "pretrained"}
    colors = {
        **{(name, "backgroundColor"): ground for name, ground in GROUND.items()},
        **{(name, "textColor"): ink for name, ink in INK.items()},
        **{("dark", key): dark_mark(STATES[state].color) for key, state in of_states.items()},
    }
    assert {(name, key): THEMES[name][key] for name, key in colors} == colors
