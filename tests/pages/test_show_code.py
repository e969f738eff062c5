"""Tests of "Show code": on every page that has it, the code runs as it stands and makes a figure of the page."""

import json
from typing import Any

import plotly.graph_objects as go
import pytest

from skillviz.plots.as_text import as_lists
from skillviz.show.code import PAGES
from tests.pages.test_launch import chosen
from tests.pages.test_launch import opened as launch
from tests.pages.test_launch import small as small
from tests.ui.driven import figures, opened

VIEWS: dict[str, dict[str, str]] = {
    "home": {}, "overview": {}, "region": {}, "region, share": {"view": "share"},
    "region, stability": {"view": "stability"}, "sparsity": {}, "sparsity, ECE": {"metric": "ece"},
    "calibration": {"bins": "20"},
    "interpolation": {"alpha": "20"}, "transfer": {}, "examples": {}, "compare": {}, "methods": {}, "tasks": {},
    "continual": {}, "paper": {"item": "table1"},
}  # fmt: skip


def without_nan(value: Any) -> Any:
    """Return the value with None for each number that is not one, as the browser gets it."""
    return json.loads(json.dumps(as_lists(value)).replace("NaN", "null"))


def test_every_page_with_a_template_is_tested() -> None:
    assert {name.partition(" ")[0] for name in PAGES} == {view.partition(",")[0] for view in VIEWS}


@pytest.mark.cases(6, 15)
@pytest.mark.parametrize("view", VIEWS)
def test_the_code_makes_a_figure_of_the_page(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    test, shown = opened(view.partition(",")[0], **VIEWS[view]), list[Any]()
    code = test.code[0].value
    lines = [line for line in code.splitlines() if line and not line.startswith(("import ", "from "))]
    assert 2 <= len(lines) <= 10 and max(map(len, lines)) < 250
    monkeypatch.setattr(go.Figure, "show", lambda figure: shown.append(json.loads(figure.to_json())["data"]))
    exec(code, {})
    assert len(shown) == 1 and without_nan(shown[0]) in [without_nan(one["data"]) for one in figures(test)]


def test_the_code_of_a_form_is_the_call_that_makes_its_run(small: Any) -> None:
    test = launch(**chosen(small, method="movement"))
    assert "run = skillviz.localize(" in test.code[0].value and "localizer='movement'" in test.code[0].value
