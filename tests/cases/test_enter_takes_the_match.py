"""Tests of Enter in a box that also takes new names: it takes the best match if there is one, else the typed text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skillviz.tasks.project import PROJECT
from tests.e2e.conftest import visit
from tests.e2e.server import served, settle
from tests.tiny import tiny_pair, tiny_task

__all__ = ["visit"]

ONE, SEVERAL = "stSelectbox", "stMultiSelect"


def test_no_list_offers_a_choice_of_all_its_matches() -> None:
    """No list has a "select all matches" option: it is listed above the matches, so Enter would take it."""
    calls = [
        (file.name, {word.arg: word.value for word in call.keywords})
        for file in (PROJECT / "skillviz" / "ui").rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "multiselect"
    ]
    assert len(calls) >= 7
    for name, words in calls:
        value = words.get("select_all")
        assert isinstance(value, ast.Constant) and value.value is False, name


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the form in a dashboard that finds two pairs of models."""
    folder = tmp_path_factory.mktemp("enter")
    for name in ("minilm-l6", "reviews"):
        tiny_pair(folder / "models" / name)
    tiny_task(folder / "task")
    environment = {
        "SKILLVIZ_RUNS": str(folder / "runs"), "SKILLVIZ_MODELS": str(folder / "models"), "HF_HUB_OFFLINE": "1",
        "SKILLVIZ_ROOTS": str(folder),
    }  # fmt: skip
    with served(PROJECT, folder, environment) as address:
        yield f"{address}/launch?new.from=own&new.source=file"


def typed(page: Any, label: str, text: str, *keys: str, kind: str = ONE, at_once: bool = False) -> str:
    """Return the box's value after a text, these keys and Enter; `at_once` gives the menu no time to open."""
    field = page.get_by_test_id(kind).filter(has_text=label).first
    box = field.locator("input").first
    box.click()
    page.keyboard.insert_text(text) if at_once else page.keyboard.type(text, delay=15)
    if keys:  # an arrow moves the mark, after it is on the match
        box.evaluate("""async (input) => {
            const list = () => document.getElementById(input.getAttribute("aria-controls"));
            const added = () => list()?.querySelector("[role=option]")?.id;
            const isMarked = () => ![null, added()].includes(input.getAttribute("aria-activedescendant"));
            for (let look = 0; look < 100 && !isMarked(); look++) await new Promise((go) => setTimeout(go, 50));
        }""")
    for key in (*keys, "Enter"):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    settle(page)
    return str(box.input_value())


@pytest.mark.e2e
@pytest.mark.nightly
def test_enter_takes_the_best_match(launch: str, visit: Callable[..., Any]) -> None:
    page = visit(launch)
    assert typed(page, "Pre-trained", "minilm").startswith("minilm-l6/base (bert")
    assert typed(page, "Fine-tuned", "minilm", at_once=True).startswith("minilm-l6/finetuned (bert"), "a fast hand"
    assert typed(page, "Fine-tuned", "reviews/fine").startswith("reviews/finetuned (bert")
    assert "Add:" not in page.url and "/reviews/finetuned" in page.url.replace("%2F", "/")
    for text, value in (("org/no-such-model", "org/no-such-model"), ("/no/minilm-l6", "/no/minilm-l6")):
        assert typed(page, "Pre-trained", text) == value, "what nothing matches, and a path, is taken as it was typed"
    assert typed(page, "Pre-trained", "minilm", "ArrowUp") == "minilm", "one that is marked above the matches too"

    typed(page, "Region sizes", "1%", kind=SEVERAL)
    assert "new.size=0.1%25%2C1%25" in page.url
    typed(page, "Region sizes", "2%", kind=SEVERAL, at_once=True)
    assert "new.size=0.1%25%2C1%25%2C2%25" in page.url

    assert typed(page, "Localizer", "fish") == "Fisher"
    page.get_by_text("known task", exact=True).click()
    page.wait_for_timeout(500)
    settle(page)
    assert typed(page, "Task", "mnli").startswith("MNLI")
