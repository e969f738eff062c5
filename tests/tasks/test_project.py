"""Tests of expanding variables in paths, and of the variables that a page must not expand."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.errors import BadInput
from skillviz.serving.visitor import refuse_variables
from skillviz.tasks.project import expanded


def test_variables_and_the_home_folder_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP", "/elsewhere")
    assert expanded("${MADE_UP}/a") == expanded("$MADE_UP/a") == "/elsewhere/a"
    assert expanded("~/a") == str(Path.home() / "a")


def test_one_that_is_not_set_stays_or_is_refused_with_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MADE_UP", raising=False)
    assert expanded("${MADE_UP}/a") == "${MADE_UP}/a"
    with pytest.raises(BadInput, match=r"\(base\) names the environment variable MADE_UP, which is not set; set it"):
        expanded("${MADE_UP}/a", "base")


@pytest.mark.parametrize("text", ["${HOME}/x", "$HOME", "a/${SKILLVIZ_REAL}/${PATH}"])
def test_a_page_names_no_variable_but_the_projects(text: str) -> None:
    with pytest.raises(BadInput, match="only variables whose names begin with SKILLVIZ_"):
        refuse_variables(text)


@pytest.mark.parametrize("text", ["", "~/x", "${SKILLVIZ_REAL}/x", "costs 5 $", "a$/b"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert refuse_variables(text) == text
