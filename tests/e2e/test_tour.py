"""Tests of the tour in a browser, over a run of a tiny pair: its first step live, a copied link, presenter mode."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.e2e.conftest import LONG, Serve, Visit, served, settle, without_runs
from tests.e2e.test_dashboard import expect, query
from tests.live.conftest import lived

SIDEBAR = "[data-testid='stSidebar']"
SIZE_OF_TYPE = "element => parseFloat(getComputedStyle(element).fontSize)"


@pytest.fixture
def tour(lived: Path, tmp_path: Path) -> Iterator[str]:
    """The bare address of a dashboard on the tiny pair's run, where no other ships; the server ends with the test."""
    store = shutil.copytree(lived / "runs", tmp_path / "runs")
    with served(store, tmp_path, without_runs(tmp_path / "project")) as address:
        yield address


def heading(page: Any, number: int) -> None:
    """Wait for a step's heading."""
    page.locator("h2", has_text=STEPS[number - 1].title).wait_for()
    settle(page)


def below_the_window(page: Any) -> int:
    """Return the number of pixels of the page below the window."""
    return int(
        page.evaluate("(() => { const main = document.querySelector('[data-testid=stMain]');"
                      " return main.scrollHeight - main.clientHeight; })()")
    )  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["", "&present=yes"], ids=["page", "presented"])
def test_each_step_and_its_answer_fit_a_small_projector_whole(
    mode: str, serve: Serve, tmp_path: Path, visit: Visit
) -> None:
    """On the runs that ship: the tiny pair has neither another task nor hidden skills, and two steps ask nothing."""
    tour = serve(tmp_path / "runs")
    page = visit(f"{tour}/tour")
    page.set_viewport_size({"width": 1280, "height": 720})
    for number in range(1, len(STEPS) + 1):
        page.goto(f"{tour}/tour?step={number}{mode}")
        heading(page, number)
        reveal = page.get_by_role("button", name="Reveal")
        answer = page.locator(".st-key-tour-question [data-testid='stAlert']")
        reveal.wait_for()
        assert answer.count() == 0, "an answer waits for its question"
        assert below_the_window(page) <= 0, number
        reveal.click()
        answer.wait_for()
        settle(page)
        box = answer.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 720, (number, "the answer is scrolled into view")
        assert mode or below_the_window(page) <= 0, (number, "in large type, a long answer may need to be scrolled to")
        assert reveal.count() == 0, "the answer stands in the button's place"


def test_the_first_step_and_a_copied_link(tour: str, visit: Visit) -> None:
    page = visit(f"{tour}/tour")
    page.locator("h1", has_text=PAGES["tour"].question).wait_for()
    heading(page, 1)
    expect(page, "/tour", step=None)
    page.get_by_text("Stored scores").wait_for()

    page.get_by_role("textbox").first.fill("the film was fine")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Computed live.").wait_for(timeout=LONG)
    said = page.get_by_text("Pre-trained").first.inner_text()
    settle(page)
    page.get_by_text("the fine-tuned one").click()
    page.get_by_role("button", name="Reveal").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Right.", exact=True).wait_for()
    page.wait_for_function("document.activeElement.matches('.st-key-tour-verdict')")
    page.get_by_test_id("stProgress").get_by_text("Step 1 of 8 · 1 of 1 answer right").wait_for()

    copy = visit(page.url)
    copy.get_by_text("Computed live.").wait_for()
    assert copy.get_by_text("Pre-trained").first.inner_text() == said
    assert copy.get_by_text("Right.", exact=True).count() == 0, "answers are the reader's own"

    page.get_by_role("button", name="Next").click()
    heading(page, 2)
    expect(page, "/tour", step="2", **{"tour.way": None})
    page.keyboard.press("ArrowLeft")
    heading(page, 1)
    page.keyboard.press("ArrowRight")
    heading(page, 2)


def test_a_class_follows_its_teacher(tour: str, visit: Visit) -> None:
    teacher = visit(f"{tour}/tour")
    teacher.get_by_role("button", name="Host this tour").click()
    link = teacher.locator(".st-key-tour-lobby code").inner_text()
    assert link.startswith(f"{tour}/tour?join=")
    ada, bo = visit(link), visit(link)
    teacher.get_by_test_id("stMetricValue").get_by_text("2", exact=True).wait_for()
    teacher.get_by_role("button", name="Start").click()
    for page in (ada, bo):
        heading(page, 1)
        assert page.get_by_role("button", name="Reveal").count() == 0
    ada.get_by_text("the fine-tuned one").click()
    bo.get_by_text("no clear difference").click()
    for page in (ada, bo):
        page.get_by_text("Your answer counts.").wait_for()
    ada.reload()
    ada.get_by_text("no clear difference").click()  # the same browser: its answer changes
    teacher.get_by_text("2 of 2 students answered").wait_for()
    bo.get_by_text("the fine-tuned one").click()
    bo.get_by_role("radio", name="the fine-tuned one", checked=True).wait_for()
    bo.get_by_text("Your answer counts.").wait_for()
    settle(bo)
    teacher.get_by_role("button", name="Reveal").click()
    teacher.locator(".st-key-tour-verdict").wait_for()
    for page, verdict in ((ada, "Not quite:"), (bo, "Right.")):
        page.get_by_text(verdict, exact=True).wait_for()
        page.get_by_text("the fine-tuned one 50% (1, right)").wait_for()
    assert below_the_window(teacher) <= 0
    teacher.get_by_role("button", name="Next").first.click()
    for page in (ada, bo):
        heading(page, 2)
    teacher.get_by_role("button", name=f"Class {link[-6:]}").click()
    with teacher.expect_download() as saved:
        teacher.get_by_role("button", name="Answers (CSV)").click()
    assert ",the fine-tuned one,1" in Path(saved.value.path()).read_text()
    teacher.get_by_role("button", name="End the class").click()
    bo.get_by_text(f"There is no class {link[-6:]}").wait_for()


@pytest.mark.nightly
def test_presenter_mode(tour: str, visit: Visit) -> None:
    page = visit(f"{tour}/tour?step=2")
    heading(page, 2)
    assert page.locator(SIDEBAR).is_visible()
    small = page.locator("h2").first.evaluate(SIZE_OF_TYPE)
    page.get_by_role("button", name="Present", exact=True).click()
    page.locator(SIDEBAR).wait_for(state="hidden")
    settle(page)
    expect(page, "/tour", step="2", present="yes")
    assert page.locator("h2").first.evaluate(SIZE_OF_TYPE) > 1.1 * small
    page.goto(f"{tour}/tour?step=4&present=yes")
    heading(page, 4)
    settle(page)
    page.get_by_role("combobox").first.click()
    page.locator('[role="listbox"]').wait_for()
    page.keyboard.press("Escape")
    page.locator('[role="listbox"]').wait_for(state="hidden")
    settle(page)
    expect(page, "/tour", step="4", present="yes")
    page.goto(f"{tour}/tour?step=2&present=yes")
    heading(page, 2)
    again = visit(page.url)
    heading(again, 2)
    assert not again.locator(SIDEBAR).is_visible() and query(again)["present"] == "yes"
    page.locator("h2").first.click()
    page.keyboard.press("Escape")
    page.locator(SIDEBAR).wait_for(state="visible")
    assert "present" not in query(page)
