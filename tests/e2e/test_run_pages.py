"""Tests of flows on the pages of a run: two regions side by side, scoring a path, presenting with the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillviz.runs.produce import produce
from skillviz.runs.store import Store
from skillviz.ui.page_table import PAGES
from tests.e2e.conftest import settle
from tests.e2e.test_dashboard import MENU, expect
from tests.live.conftest import lived
from tests.runs.tiny_world import spec_of

__all__ = ["lived"]

pytestmark = pytest.mark.e2e
Made = tuple[Path, dict[str, str]]
Serve, Visit = Callable[[Path], str], Callable[..., Any]
LONG = 240_000  # milliseconds until a new worker has torch and the pair, on a busy machine


def test_a_region_is_compared_with_another_and_the_link_keeps_it(made: Made, address: str, visit: Visit) -> None:
    ids = made[1]
    page = visit(f"{address}/region?run={ids['stagewise0']}")
    assert page.get_by_text("IoU").count() == 0
    page.get_by_label("Compare with").first.click()
    page.get_by_role("option").filter(has_text="random").first.click()
    page.get_by_text("by chance").first.wait_for()
    settle(page)
    expect(page, "/region", run=ids["stagewise0"], other=ids["random"])
    copy = visit(page.url)
    said = copy.get_by_text("by chance").first.inner_text()
    assert "IoU" in said and said == page.get_by_text("by chance").first.inner_text()


@pytest.fixture
def unscored(lived: Path, tmp_path: Path) -> Path:
    """A store with one run of a real tiny pair, whose path was not scored."""
    produce(spec_of(lived, sizes=("5%", "20%")), Store(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.mark.nightly
def test_a_path_is_scored_by_one_button(unscored: Path, serve: Serve, visit: Visit) -> None:
    (run,) = Store(unscored).list()
    page = visit(f"{serve(unscored)}/interpolation?run={run.id}")
    assert page.get_by_role("slider").count() == 0 and page.locator(".js-plotly-plot").count() == 0
    page.get_by_role("button", name="Score the path").click()
    page.locator(".js-plotly-plot").first.wait_for(timeout=LONG)
    settle(page)
    assert page.get_by_role("slider").count() > 0
    assert page.get_by_text("Computed live").count() > 0


@pytest.mark.nightly
def test_a_result_is_presented_with_the_keyboard_alone(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/sparsity?run={made[1]['stagewise0']}")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText").strip().endswith("Present"):
            break
    page.keyboard.press("Enter")
    page.locator(MENU).first.wait_for(state="hidden")
    settle(page)
    expect(page, "/sparsity", present="yes")
    page.keyboard.press("Escape")
    page.locator(MENU).first.wait_for()
    expect(page, "/sparsity", present=None)
    page.locator("h1", has_text=PAGES["sparsity"].question).first.wait_for()
