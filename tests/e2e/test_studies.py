"""Tests of the scoreboard of the paper and the list of studies in a browser: a click or a key on a row opens it."""

from pathlib import Path
from typing import Any

import pytest

from skillviz.studies.paper.experiments import EXPERIMENTS
from tests.e2e.conftest import Serve, Visit, settle
from tests.e2e.test_dashboard import expect
from tests.studies.fake_study import fake_study

HEAD, ROW = 35, 35  # pixels of the table's head and of a row


def click(page: Any, row: int) -> None:
    """Click on a row of the page's first table, beside its checkbox."""
    table = page.get_by_test_id("stDataFrame").first
    table.wait_for()
    table.click(position={"x": 200, "y": HEAD + (row + 0.5) * ROW})
    settle(page)


def test_a_click_on_the_scoreboard_and_no_arrow_key_opens_the_experiment_with_its_figure(
    serve: Serve, visit: Visit, tmp_path: Path
) -> None:
    fake_study(tmp_path / "runs", "table2")
    page, table2 = visit(f"{serve(tmp_path / 'runs')}/paper"), EXPERIMENTS["table2"]
    before = [claim for row in EXPERIMENTS.values() for claim in row.claims].index(table2.claims[1])
    assert page.locator(".js-plotly-plot").count() == 0
    click(page, -1)
    expect(page, item=None)  # the head is not a row
    page.get_by_test_id("stDataFrame").first.locator("canvas").first.evaluate("canvas => canvas.focus()")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(1000)
    settle(page)
    expect(page, item=None)
    click(page, before)
    expect(page, item="table2", claim=table2.claims[1].text)
    page.get_by_role("heading", name=table2.title).wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    for key, claim in (("ArrowUp", table2.claims[1].text), ("Shift+Space", None)):
        page.keyboard.press(key)
        settle(page)
        expect(page, item="table2", claim=claim)


@pytest.mark.nightly
def test_a_row_of_the_list_opens_its_study(serve: Serve, visit: Visit, tmp_path: Path) -> None:
    fake_study(tmp_path / "runs", "table2")
    page = visit(f"{serve(tmp_path / 'runs')}/studies")
    page.get_by_text("Select a row to open one").wait_for()
    click(page, 0)
    expect(page, view="study")
    page.locator(".js-plotly-plot").first.wait_for()
    page.get_by_role("radio", name="All studies").or_(page.get_by_role("button", name="All studies")).first.click()
    expect(page, view=None)
