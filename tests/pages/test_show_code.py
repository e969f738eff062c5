"""Tests of "Show code": on every page that has it, the code runs as it stands and makes a figure of the page."""

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.plots.as_text import as_lists
from skillviz.show.code import PAGES
from skillviz.ui.page_table import PAGES as PAGE_TABLE
from tests.pages.test_launch import chosen
from tests.pages.test_launch import opened as launch
from tests.pages.test_launch import small as small
from tests.ui.driven import figures, opened, with_tables

VIEWS: dict[str, dict[str, str]] = {
    "home": {}, "overview": {}, "region": {}, "region, share": {"view": "share"},
    "region, stability": {"view": "stability"}, "sparsity": {}, "sparsity, ECE": {"metric": "ece"},
    "calibration": {"bins": "20"},
    "interpolation": {"alpha": "20"}, "transfer": {}, "examples": {}, "compare": {}, "methods": {}, "tasks": {},
    "continual": {}, "paper": {"item": "table1"}, "tour": {}, "tour, 4": {"step": "4"}, "tour, 5": {"step": "5"},
    "tour, 7": {"step": "7"}, "runs": {}, "runs, some": {"search": "mr", "localizers": "stagewise,random"},
    "studies": {"view": "study"}, "studies, settings": {"study": "sensitivity-small"},
    "studies, checkpoints": {"study": "figure15-small"},
    "studies, layers": {"study": "figure10-small-all"},
}  # fmt: skip


def without_nan(value: Any) -> Any:
    """Return the value with None for each number that is not one, as the browser gets it."""
    return json.loads(json.dumps(as_lists(value)).replace("NaN", "null"))


def test_every_page_with_a_template_is_tested() -> None:
    assert {name.partition(" ")[0] for name in PAGES} == {view.partition(",")[0] for view in VIEWS}


@pytest.mark.cases(6, 15)
@pytest.mark.parametrize("view", VIEWS)
def test_the_code_makes_a_figure_of_the_page(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    test, shown = with_tables(opened(view.partition(",")[0], **VIEWS[view])), list[Any]()
    code = test.code[0].value
    lines = [line for line in code.splitlines() if line and not line.startswith(("import ", "from "))]
    assert 2 <= len(lines) <= 10 and max(map(len, lines)) < 250
    monkeypatch.setattr(go.Figure, "show", lambda figure: shown.append(json.loads(figure.to_json())["data"]))
    exec(code, {})
    assert len(shown) == 1 and without_nan(shown[0]) in [without_nan(one["data"]) for one in figures(test)]


@pytest.mark.parametrize("step", [2, 3, 6])
def test_a_step_of_the_tour_has_the_code_of_its_whole_figure(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    test, shown = opened("tour", step=str(step)), list[Any]()
    monkeypatch.setattr(go.Figure, "show", lambda figure: shown.append(figure))
    exec(test.code[0].value, {})
    (whole,), (drawn,) = shown, figures(test)
    assert max(len(trace.x) for trace in whole.data) >= max(len(trace["x"]) for trace in drawn["data"])


def test_the_last_step_of_the_tour_has_the_call_that_makes_its_run() -> None:
    assert "run = skillviz.localize(" in opened("tour", step="8").code[0].value


def printed(test: AppTest, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that the page's code prints."""
    exec(test.code[0].value, {})
    return capsys.readouterr().out.splitlines()


def test_the_code_of_the_studies_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    test = opened("studies")
    assert len(printed(test, capsys)) == len(test.dataframe[0].value)


def test_the_code_of_the_paper_prints_the_verdicts_of_the_scoreboard(capsys: pytest.CaptureFixture[str]) -> None:
    test = opened("paper")
    here = [line.split(" | ")[1:] for line in printed(test, capsys)]
    rows = test.dataframe[0].value
    measured = rows[~rows["verdict"].astype(str).str.contains("not measured")]
    assert len(measured) > 10 and not {*measured["claim"]} - {claim for _, claim in here}


def test_the_code_of_the_jobs_lists_them(own_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = opened("jobs")
    wanted = {(row["Status"], row["Name"]) for row in test.dataframe[0].value.to_dict("records")}
    assert {tuple(line.split()[::2]) for line in printed(test, capsys) if " run " in line} == wanted


@pytest.mark.parametrize("page", [name for name in PAGE_TABLE if name not in ("launch", "surgery")])
def test_every_page_has_the_button_once(page: str) -> None:
    assert [one.proto.popover.label for one in opened(page).get("popover")].count("Show code") == 1


def test_the_code_of_a_form_is_the_call_that_makes_its_run(small: Any) -> None:
    test = launch(**chosen(small, method="movement"))
    assert "run = skillviz.localize(" in test.code[0].value and "localizer='movement'" in test.code[0].value
