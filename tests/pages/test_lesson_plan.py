"""docs/lesson-plan.md: its questions, answers and numbers are those of the tour on the run that ships."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.tasks.project import PROJECT
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.tour.view import STEPS

PLAN = (PROJECT / "docs" / "lesson-plan.md").read_text(encoding="utf-8")
ROWS = {int(row[2]): row for row in PLAN.splitlines() if re.match(r"\| \d\.", row)}
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("**", "")


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
def test_a_row_asks_and_answers_as_the_tour_does(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path))
    test = AppTest.from_file(str(PAGES["tour"].path), default_timeout=300)
    test.query_params["step"] = str(step)
    test.run()
    row = ROWS[step]
    assert f"| {step}. {STEPS[step - 1].title} |" in row
    assert plain(test.radio[0].label).split(" (See")[0] in row
    next(button for button in test.button if button.label == "Reveal").click().run()
    said = plain(test.info[0].value)
    if step == len(STEPS):
        assert "until your run finishes" in said and "| checked when the run finishes |" in row
        return
    answer = re.match(r"The answer: (.*?)\. ", said)[1]
    assert f"| {answer} |" in row
    numbers = NUMBER.findall(row.split(" | ")[-1])
    assert len(numbers) >= 2 and set(numbers) <= set(NUMBER.findall(said))
