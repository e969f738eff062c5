"""Tests of docs/lesson-plan.md: its questions, answers and numbers equal the tour's on the shipped run."""

from __future__ import annotations

import pytest

from skillviz.ui.pages.tour.tour_page import STEPS
from tests.scripts import script


@pytest.mark.slow
def test_the_table_is_what_the_tour_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", "restored after the test")
    plan = script("docs/lesson_plan.py")
    rows = plan.table()
    assert len(rows) == len(STEPS) + 2
    assert "\n".join(rows) in plan.PLAN.read_text(encoding="utf-8"), "python docs/lesson_plan.py"
