"""Tests of what ships: the run shown first is complete, and a new user's path through it works.

The run is the first choice among the shipped ones (`show.entries.opening_entry`). Every page works without a network
and reports nothing missing. ALLOWED lists what may be missing, with the reason; any other message about something
missing fails.
"""

import re
import time
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import pytest

from skillviz import jobs
from skillviz.runs.store import Store
from skillviz.tasks.project import PROJECT
from skillviz.ui.page_table import HOME, PAGES
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.e2e.conftest import LONG, SEARCHING, Serve, Visit, cancel, go_to, settle
from tests.small_world import opening_run

EMPTY = re.compile(
    r"not measured|not on this machine|needs the weights|needs the run's own|stored no |nothing to show|not scored yet|"
    r"no other task scored|scored on its own task alone|no points between|is not stored|not stored at|not computed|"
    r"no (?:\w+ ){1,3}for this run|has no other run|there is no run|cannot be (?:read|shown|scored)|no stored study|"
    r"without its sentence|slices by length and by other columns need|score the (?:parts|path)",
    re.IGNORECASE,
)
"""Messages of pages about something missing."""
ALLOWED = {
    ("paper", "not measured"): "claims that need more core-hours than were spent say so, with the command",
    ("jobs", "there is no run"): "no job has been started here",
    ("runs", "not measured"): "a run without a null says so in its row",
    ("tasks", "is not stored"): "a union of the reader's choice is scored on request",
    ("methods", "not measured"): "the studies that ship were computed before studies had nulls",
    ("methods", "no stored study"): "the study of small updates was not scored on other data",
}
"""(page, message) -> the reason why it is allowed."""
FIGURES = {
    "home": 2, "overview": 2, "region": 3, "sparsity": 2, "calibration": 2, "interpolation": 3, "transfer": 2,
    "examples": 5, "surgery": 1, "compare": 3, "methods": 1, "tasks": 2, "continual": 1,
}  # fmt: skip
"""The minimum number of figures on a page."""
SAYS = {
    "overview": ("shuffled",),
    "region": ("What each part does", "a random region in the same layers and modules"),
    "sparsity": ("what its removal costs", "Along fine-tuning"),
    "interpolation": ("In distribution", "Out of distribution"),
    "transfer": ("grafted vs",),
    "examples": ("Graft and fine-tuned model by slice",),
    "launch": ("Start",),
}
"""Texts of a page that has its main content."""
OTHERS = 4
"""The number of other data sets on which the run is scored."""


@pytest.fixture
def newcomer(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a dashboard over what ships, on a machine without further models and data."""
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return serve(tmp_path / "runs")


def text_of(page: Any) -> str:
    """Return all visible text of the page; folds are in their initial state."""
    return str(page.locator("[data-testid='stMain']").inner_text())


def problems_of(page: Any, name: str) -> list[str]:
    """Return the problems of a loaded page: messages about something missing, and absent texts or figures."""
    seen = text_of(page)
    missing = [
        f"{name}: {seen[max(0, match.start() - 60) : match.end() + 60]!r}".replace("\\n", " ")
        for match in EMPTY.finditer(seen) if (name, match[0].lower().strip()) not in ALLOWED
    ]  # fmt: skip
    missing += [f"{name}: does not say {words!r}" for words in SAYS.get(name, ()) if words not in seen]
    drawn, least = page.locator(".js-plotly-plot .main-svg:first-child").count(), FIGURES.get(name, 0)
    return missing + [f"{name}: {drawn} figures of {least}"] * (drawn < least)


def test_no_page_of_the_opening_run_is_empty(newcomer: str, visit: Visit) -> None:
    run, problems = opening_run(), list[str]()
    page = visit(newcomer)
    for name, brief in PAGES.items():
        page.goto(f"{newcomer}/{'' if name == HOME else name}" + ("" if name == HOME else f"?run={run.id}"))
        page.locator("h1", has_text=brief.question).wait_for()
        settle(page)
        page.wait_for_timeout(500)  # figures below the first one follow
        settle(page)
        assert page.locator("h1").first.inner_text() == brief.question
        problems += problems_of(page, name)
    assert not problems, "\n".join(problems)
    assert len(run.record.transfers) >= OTHERS


def test_the_models_of_the_opening_run_answer(newcomer: str, tmp_path: Path, visit: Visit) -> None:
    """Enter a sentence and explain it on Examples, make a graft on Surgery, and score an own task on Transfer."""
    run = opening_run()
    page = visit(f"{newcomer}/examples?run={run.id}&look=typed")
    page.get_by_label("Sentence", exact=True).fill("A slow start, but the last hour is a joy.")
    page.keyboard.press("Enter")
    page.get_by_text("Does it add up?").wait_for(timeout=LONG)
    settle(page)
    assert "confident" in text_of(page)
    go_to(page, f"{newcomer}/surgery?run={run.id}")
    page.get_by_role("button", name="Score this graft").click()
    page.get_by_text("All models are scored on the same examples").wait_for(timeout=LONG)
    settle(page)
    own = (PROJECT / "examples/tasks/cr.yaml").read_text(encoding="utf-8").replace("name: cr", "name: own_reviews")
    (tmp_path / "own.yaml").write_text(own.replace("../data/cr", str(tmp_path)), encoding="utf-8")
    for file in (PROJECT / "examples/data/cr").glob("*.jsonl"):
        few = file.read_text(encoding="utf-8").splitlines(keepends=True)[:200]
        (tmp_path / file.name).write_text("".join(few), encoding="utf-8")
    page.goto(f"{newcomer}/transfer?run={run.id}&also={tmp_path / 'own.yaml'}")
    page.get_by_role("button", name="Open what the link names").click()
    settle(page)
    page.get_by_role("button", name="Score this task").click()
    page.get_by_text("computed live").first.wait_for(timeout=LONG)
    settle(page)
    assert not EMPTY.search(text_of(page))


@pytest.mark.parametrize("data", [pytest.param("an example task", marks=pytest.mark.nightly), "an uploaded CSV"])
def test_launch_localizes_on_an_example_pair(data: str, newcomer: str, tmp_path: Path, visit: Visit) -> None:
    """Make a quick try of a few steps, from the form to the run's page."""
    query = {"new.trial": "yes", "new.stagewise.steps": 3, "new.interpolation": "no"}
    page = visit(f"{newcomer}/launch?{urlencode(query)}")
    if data == "an uploaded CSV":
        file, rows = tmp_path / "mine.csv", (PROJECT / "examples/data/mr/test.jsonl").read_text(encoding="utf-8")
        pd.read_json(StringIO(rows), lines=True)[:200].to_csv(file, index=False)
        page.get_by_role("radio", name="upload data").click()
        page.locator("input[type=file]").first.set_input_files(file)
        page.get_by_role("button", name="Check and save as a task").click()
    page.get_by_text("The two fit").wait_for()
    page.get_by_text("Reading the texts").wait_for(state="detached")
    page.get_by_role("button", name="Start", exact=False).click()
    page.get_by_role("link", name="Open the run").click(timeout=LONG)
    page.locator("h1", has_text=PAGES["overview"].question).wait_for()
    settle(page)
    (made,) = Store(tmp_path / "runs").list()
    assert made.id in page.url and made.record.metrics["test"].states.keys() >= {"pretrained", "grafted", "finetuned"}


OTHER_NUMBERS = """before => JSON.stringify(before) !== JSON.stringify(
  [...document.querySelectorAll("[data-testid='stMetricValue']")].map(each => each.innerText))"""
TYPED = "The plot was not good, but we loved the music."


@pytest.mark.nightly
def test_tour_launch_watch_open_then_cancel_and_resume(store: Store, serve: Serve, visit: Visit) -> None:
    address = serve(store.root)
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

    go_to(page, f"{address}/launch?new.trial=yes&new.stagewise.steps=10&new.interpolation=no")
    page.get_by_text("The two fit").wait_for()
    page.get_by_role("button", name="Start", exact=False).click()
    progress = page.get_by_text(SEARCHING)
    progress.wait_for(timeout=LONG)
    first = SEARCHING.search(progress.inner_text())[0]
    page.wait_for_function("old => !document.body.innerText.includes(old)", arg=first, timeout=LONG)
    page.get_by_role("link", name="Open the run").click(timeout=LONG)
    page.locator("h1", has_text=PAGES["overview"].question).wait_for()
    (made,) = store.list()
    assert store.verify(made.id) == []
    page.wait_for_url(lambda url: made.id in url)

    # A job that is too long to end by itself is cancelled: its region is kept, and it resumes from there.
    go_to(page, f"{address}/launch?{urlencode({'new.stagewise.steps': 100_000})}")
    page.get_by_role("button", name="Start", exact=False).click()
    page.get_by_text(SEARCHING).wait_for(timeout=LONG)
    cancel(page)
    (job,) = [job for job in jobs.list(store) if job.status == "cancelled"]
    assert job.is_resumable
    page.get_by_role("button", name="Resume").click()
    end = time.monotonic() + LONG / 1000
    while "resuming after" not in jobs.log_tail(store, job.run_id, 200):
        assert time.monotonic() < end, "the job was not resumed"
        page.wait_for_timeout(200)
    page.get_by_text(SEARCHING).wait_for(timeout=LONG)
    cancel(page)
    assert [run.record.status for run in store.list()] == ["finished"]


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
