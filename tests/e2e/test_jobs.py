"""Tests of jobs in a browser: start, watch, reload, cancel, resume, kill; a new server shows each job's state."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest

from skillviz import jobs
from skillviz.runs.store import Store
from skillviz.tasks.project import PROJECT
from tests.e2e.conftest import LONG, SEARCHING, Visit, cancel, resume, settle
from tests.e2e.server import started
from tests.jobs.conftest import ended, stepped, until
from tests.tiny import tiny_pair, tiny_task

Start = Callable[[], tuple[subprocess.Popen[bytes], str]]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a trained tiny pair (base, finetuned) and a task. Tests must not change it."""
    folder = tmp_path_factory.mktemp("small")
    tiny_pair(folder, steps=60)
    tiny_task(folder)
    return folder


@pytest.fixture
def serve_own(store: Store, tmp_path: Path) -> Iterator[Start]:
    """Start dashboards over the store, as processes that a test may kill."""
    servers: list[subprocess.Popen[bytes]] = []

    def begin() -> tuple[subprocess.Popen[bytes], str]:
        more = {"SKILLVIZ_RUNS": str(store.root), "SKILLVIZ_CHECKPOINT_SECONDS": "0.2"}
        servers.append((server := started(PROJECT, tmp_path, more))[0])
        return server

    yield begin
    for server in servers:
        server.kill()
        server.wait(20)


def form(address: str, small: Path, steps: int) -> str:
    """Return the address of the form with the tiny pair."""
    choices = {
        "base": small / "base", "finetuned": small / "finetuned", "source": "file", "file": small / "task.yaml",
        "from": "own", "size": "5%", "device": "cpu", "stagewise.steps": steps, "stagewise.batch_size": 4,
    }  # fmt: skip
    return f"{address}/launch?{urlencode({f'new.{name}': value for name, value in choices.items()})}"


def launched(page: Any, store: Store) -> str:
    """Open the files that the address names, start the search, and return the id of the job once it searches."""
    page.get_by_role("button", name="Open what the link names").first.click()
    page.get_by_text("The two fit").wait_for()
    page.get_by_role("button", name="Start").click()
    page.get_by_text(SEARCHING).wait_for(timeout=LONG)
    return next(job.run_id for job in jobs.list(store) if job.is_open)


def is_in_sight(page: Any, place: Any) -> bool:
    """Return whether the whole element is inside the window and not covered."""
    place.wait_for()
    on_top = """e => { const { left, right, top, bottom } = e.getBoundingClientRect();
        return e.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2)) }"""
    return bool(place.evaluate(on_top)) and 0 <= place.bounding_box()["y"] < page.viewport_size["height"]


def process_of(store: Store, run_id: str) -> psutil.Process:
    """Return the process of a running job."""
    path = store.root / run_id / "work" / "process.json"
    return psutil.Process(json.loads(until(lambda: path.is_file() and path.read_text()))["pid"])


@pytest.mark.nightly
def test_launched_watched_reloaded_and_opened(small: Path, store: Store, serve_own: Start, visit: Visit) -> None:
    _, address = serve_own()
    page = visit(form(address, small, 1500))
    page.set_viewport_size({"width": 1280, "height": 720})
    run_id = launched(page, store)
    for place in (
        page.get_by_text("Started. Follow it below"), page.get_by_role("button", name="Start"),
        page.get_by_text("stagewise · 5% · seed 0", exact=False).last,
    ):  # fmt: skip
        assert is_in_sight(page, place), place
    bar = page.locator("[data-testid='stProgress']")
    before = bar.inner_text()
    until(lambda: bar.count() == 0 or bar.inner_text() != before, 60)
    seeds = page.get_by_role("textbox", name="Seeds")
    seeds.fill("7")  # not yet entered: redraws of the panel must not remove it
    page.wait_for_timeout(2500)
    assert seeds.input_value() == "7"
    page.reload()
    settle(page)
    page.locator(f".st-key-job-{run_id}").wait_for()
    page.get_by_role("link", name="Open the run").click(timeout=LONG)
    page.locator("h1", has_text="How much of the skill").wait_for()
    page.wait_for_url(lambda url: run_id in url)
    assert jobs.status(store, run_id).status == "finished" and store.verify(run_id) == []
    page.locator("[data-testid='stSidebarNav'] a", has_text="Runs").click()
    page.get_by_text(re.compile(r"\d+ runs? on \d+ task")).first.wait_for()
    page.get_by_text(run_id).first.wait_for(state="attached")


@pytest.mark.nightly
def test_cancelled_killed_and_resumed_across_servers(small: Path, store: Store, serve_own: Start, visit: Visit) -> None:
    """Use kill -9 on the job, on the server, and on both: nothing is lost, and the state of each is shown correctly."""
    server, address = serve_own()
    page = visit(form(address, small, 300_000))
    run_id = launched(page, store)
    cancel(page)
    assert jobs.status(store, run_id).status == "cancelled"
    resume(page)

    until(stepped(store, run_id))
    os.kill(process_of(store, run_id).pid, signal.SIGKILL)
    page.get_by_text("Killed.").wait_for()
    assert store.unreadable() == [] and store.list() == []
    resume(page)

    os.kill(server.pid, signal.SIGKILL)
    server.wait(20)
    process_of(store, run_id)  # the job continues without the server
    server, address = serve_own()
    page = visit(f"{address}/runs")
    page.locator(f".st-key-job-{run_id}").get_by_text(SEARCHING).wait_for(timeout=LONG)

    both = [process_of(store, run_id).pid, server.pid]
    for pid in both:
        os.kill(pid, signal.SIGKILL)
    server.wait(20)
    assert ended(store, run_id).error.kind == "killed"
    _, address = serve_own()
    page = visit(f"{address}/runs")
    page.get_by_text(re.compile("runs? that cannot be opened")).click()
    resume(page)
    cancel(page)
    assert "resuming after" in jobs.log_tail(store, run_id, 200)
    assert jobs.status(store, run_id).is_resumable
