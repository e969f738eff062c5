"""Tests that the page table, the glossary and the settings are complete and correct."""

from __future__ import annotations

import re
import tomllib

import pytest

from skillviz.show.glossary import GLOSSARY, NAMES, about
from skillviz.tasks.project import PROJECT
from skillviz.ui.page_table import GROUPS, PAGES


def test_the_table_and_the_folder_agree() -> None:
    assert {path.stem for path in (PROJECT / "pages").glob("*.py")} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_by_its_own_name_and_explains_itself(name: str) -> None:
    source = PAGES[name].path.read_text()
    begins = re.findall(r'page\.begin(?:_home|_library|_without_run|_studies)?\("(\w+)"', source)
    assert begins == [name]
    assert source.startswith('"""') and PAGES[name].group in GROUPS


def test_every_word_that_is_explained_is_in_the_glossary() -> None:
    files = [*(PROJECT / "pages").glob("*.py"), *(PROJECT / "skillviz" / "ui").rglob("*.py")]
    used = {
        word
        for path in files
        for call in re.findall(r"\babout\(([^)]*)\)", path.read_text())
        for word in re.findall(r'"(\w+)"', call)
    }
    assert used and used <= set(GLOSSARY)
    assert set(NAMES) <= set(GLOSSARY)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_explains_its_words(name: str) -> None:
    room = PROJECT / "skillviz" / "ui" / "pages"
    files = (PAGES[name].path, *room.glob(f"{name}.py"), *room.glob(f"{name}/*.py"))
    assert any("about(" in path.read_text() for path in files)


def test_help_names_each_word_when_there_are_several() -> None:
    assert about("ece") == GLOSSARY["ece"]
    assert about("ece", "graft").startswith("**ECE**: ") and "\n\n**graft**: " in about("ece", "graft")


def test_the_server_listens_on_loopback_only_and_sends_nothing() -> None:
    settings = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())
    assert settings["server"]["address"] == "127.0.0.1"
    assert set(settings["server"]["allowedHosts"]) == {"localhost", "127.0.0.1"}
    assert settings["server"]["fileWatcherType"] == "none"
    assert settings["browser"]["gatherUsageStats"] is False
    assert settings["client"]["toolbarMode"] == "minimal"


def test_the_grounds_are_those_that_the_figures_were_made_for() -> None:
    from skillviz.plots.theme import GROUND, INK

    theme = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())["theme"]
    for name in ("light", "dark"):
        assert theme[name]["backgroundColor"] == GROUND[name]
        assert theme[name]["textColor"] == INK[name]


def test_figures_settings_are_known_to_streamlit() -> None:
    """A misspelled setting would only give a warning in the terminal."""
    from streamlit import config

    settings = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())
    known = set(config.get_config_options())

    def flat(prefix: str, values: dict) -> set[str]:
        names = set()
        for key, value in values.items():
            names |= flat(f"{prefix}{key}.", value) if isinstance(value, dict) else {f"{prefix}{key}"}
        return names

    assert flat("", settings) <= known
