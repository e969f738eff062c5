"""Test of a new user's path through the shipped content: tour, launch, watch, open, slide, type, copy, resume."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from skillviz import jobs
from skillviz.runs.store import Store
from skillviz.show.briefs import brief_of, hero
from skillviz.tasks.project import PROJECT
from skillviz.ui.page_table import HOME, PAGES
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.e2e.conftest import settle
from tests.small_world import opening_run

pytestmark = pytest.mark.e2e

Visit = Callable[..., Any]
SEARCHING = re.compile(r"searching: step [\d,]+")
LONG = 240_000  # milliseconds until a new process has torch and a model
OTHER_NUMBERS = """before => JSON.stringify(before) !== JSON.stringify(
  [...document.querySelectorAll("[data-testid='stMetricValue']")].map(each => each.innerText))"""
TYPED = "The plot was not good, but we loved the music."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return the new user's empty store; jobs still running at the end are cancelled."""
    found = Store(tmp_path / "runs")
    yield found
    for job in jobs.list(found):
        if job.is_open:
            jobs.cancel(found, job.run_id)


@pytest.fixture
def newcomers(store: Store, serve: Callable[[Path], str]) -> str:
    """Start a new dashboard over the empty store and the shipped runs."""
    return serve(store.root)


@pytest.fixture(scope="module")
def run_id() -> str:
    """Return the id of the run that the tour shows."""
    return opening_run().id


@pytest.mark.nightly
def test_tour_launch_watch_open_then_cancel_and_resume(newcomers: str, store: Store, visit: Visit) -> None:
    address = newcomers
    page = visit(f"{address}/tour")
    page.locator("h1", has_text=PAGES["tour"].question).wait_for()
    sentence = page.get_by_role("textbox", name=re.compile("^Sentence"))
    sentence.fill(TYPED)
    sentence.press("Control+Enter")
    page.get_by_text(re.compile("fine-tuned", re.I)).first.wait_for()
    settle(page)
    page.get_by_role("radio").first.or_(page.locator("[data-testid='stRadio'] label").first).first.click()
    page.get_by_role("button", name="Next").click()
    page.locator("h2", has_text=STEPS[1].title).wait_for()
    assert "step=2" in page.url

    page.goto(f"{address}/launch?new.trial=yes&new.stagewise.steps=10&new.interpolation=no")
    settle(page)
    page.get_by_text("The two fit").wait_for()
    page.get_by_role("button", name="Start", exact=False).click()
    progress = page.get_by_text(SEARCHING)
    progress.wait_for(timeout=LONG)
    first = progress.inner_text()
    page.wait_for_function(
        "old => !document.body.innerText.includes(old)", arg=SEARCHING.search(first)[0], timeout=LONG
    )
    page.get_by_role("link", name="Open the run").click(timeout=LONG)
    page.locator("h1", has_text=PAGES["overview"].question).wait_for()
    made = store.list()
    assert len(made) == 1 and store.verify(made[0].id) == []
    page.wait_for_url(lambda url: made[0].id in url)
    cancel_and_resume_a_second(page, address, store)


def cancel_and_resume_a_second(page: Any, address: str, store: Store) -> None:
    """Cancel a job that is too long to end by itself: its region is kept, and it resumes from there."""
    page.goto(f"{address}/launch?{urlencode({'new.stagewise.steps': 100_000})}")
    settle(page)
    page.get_by_role("button", name="Start", exact=False).click()
    page.get_by_text(SEARCHING).wait_for(timeout=LONG)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("resumes from its last checkpoint").wait_for()
    (job,) = [job for job in jobs.list(store) if job.status == "cancelled"]
    assert job.is_resumable
    page.get_by_role("button", name="Resume").click()
    end = time.monotonic() + LONG / 1000
    while "resuming after" not in jobs.log_tail(store, job.run_id, 200):
        assert time.monotonic() < end, "the job was not resumed"
        page.wait_for_timeout(200)
    page.get_by_text(SEARCHING).wait_for(timeout=LONG)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("resumes from its last checkpoint").wait_for()
    assert [run.status for run in (store.open(name).record for name in [r.id for r in store.list()])] == ["finished"]


def test_the_slider_moves_the_numbers_and_the_link_keeps_them(address: str, run_id: str, visit: Visit) -> None:
    page = visit(f"{address}/interpolation?run={run_id}")
    values = page.locator("[data-testid='stMetricValue']")
    at_half = values.all_inner_texts()
    slider = page.get_by_role("slider").first
    for _ in range(4):  # ten hundredths per step of the stored grid
        slider.press("PageUp")
    settle(page)
    page.wait_for_function("() => !location.search.includes('alpha=50')")
    page.wait_for_function(OTHER_NUMBERS, arg=at_half)
    settle(page)
    moved = values.all_inner_texts()
    assert moved != at_half and len(moved) == len(at_half) >= 4
    copy = visit(page.url)
    assert copy.locator("[data-testid='stMetricValue']").all_inner_texts() == moved


@pytest.mark.nightly
def test_a_typed_sentence_is_scored_and_explained(address: str, run_id: str, visit: Visit) -> None:
    page = visit(f"{address}/examples?{urlencode({'run': run_id, 'look': 'typed'})}")
    field = page.get_by_role("textbox", name="Sentence")
    field.fill(TYPED)
    field.press("Enter")
    page.get_by_text(re.compile(r"\d+\.\d% confident")).nth(2).wait_for(timeout=LONG)
    page.get_by_role("heading", name="Does it add up?").wait_for(timeout=LONG)
    settle(page)
    assert page.locator(".js-plotly-plot").count() >= 3
    copy = visit(page.url)
    assert copy.get_by_role("textbox", name="Sentence").input_value() == TYPED
    said = re.compile(r"\d+\.\d% confident")
    copy.get_by_text(said).nth(2).wait_for(timeout=LONG)
    assert copy.get_by_text(said).all_inner_texts() == page.get_by_text(said).all_inner_texts()


@pytest.mark.nightly
def test_every_page_opens_by_its_own_url(address: str, run_id: str, visit: Visit) -> None:
    page = visit(f"{address}/region?run={run_id}")
    for name, brief in PAGES.items():
        page.goto(f"{address}/" if name == HOME else f"{address}/{name}?run={run_id}")
        settle(page)
        assert page.locator("h1").first.inner_text() == brief.question
