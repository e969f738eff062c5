"""Write the table of docs/lesson-plan.md: `python docs/lesson_plan.py`.

Questions, answers and numbers are read from the tour, on the run that the dashboard opens on; no model is run.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from streamlit.testing.v1 import AppTest

from benchmarks.frame import fill
from skillviz.core import formats
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.tour.tour_page import STEPS

PLAN = PROJECT / "docs" / "lesson-plan.md"
COMMAND = "docs/lesson_plan.py"
MOVES = (
    "Type a sentence", "The mixing weight", "The region size", "Copy everything but the region",
    "The minimum confidence", "The mixing weight", "What else moved", "Start a search",
)  # fmt: skip
ANSWER = re.compile(r"\*\*The answer:\*\* (.*?)\. (.*)", re.DOTALL)


def row(number: int) -> list[str]:
    """Return step, move, question, answer and numbers; the question is empty if the run has nothing to ask about."""
    test = AppTest.from_file(str(PAGES["tour"].path), default_timeout=300)
    test.query_params["step"] = str(number)
    test.run()
    first = [f"{number}. {STEPS[number - 1].title}", MOVES[number - 1]]
    if not test.radio:
        return [*first, "", "not measured", ""]
    asks = test.radio[0].label
    next(button for button in test.button if button.label == "Reveal").click().run()
    (said,) = (info.value for info in test.info)
    told = ANSWER.match(said)
    answer, numbers = told.groups() if told else ("checked when the run finishes", "")
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in (*first, asks, answer, numbers)]


def table() -> list[str]:
    """Return a row for each step, with an empty store of the user's own runs."""
    with tempfile.TemporaryDirectory() as runs:
        os.environ["SKILLVIZ_RUNS"] = runs
        rows = [row(number) for number in range(1, len(STEPS) + 1)]
    return formats.markdown_table(("Step", "Move", "Question", "Answer", "Numbers"), rows)


def main() -> None:
    """Rewrite the table in place."""
    fill(PLAN, {"questions": table()}, COMMAND)
    print(f"wrote {PLAN.name}")


if __name__ == "__main__":
    main()
