"""Tests of sliders with local models: two readers at once, a killed worker, and bounded memory of the web process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from skillviz.live.client import Client
from skillviz.runs.store import Store
from skillviz.show.sentences import metric_value
from skillviz.tasks.project import PROJECT
from tests.e2e.server import settle, started
from tests.e2e.test_dashboard import expect
from tests.live.conftest import lived
from tests.pages.conftest import scored_world

__all__ = ["lived", "scored_world"]

pytestmark = pytest.mark.e2e

Visit = Callable[..., Any]
LONG = 240_000  # milliseconds until a new worker has torch and the pair, on a busy machine
METRICS = ("accuracy", "ece", "nll")
GROWTH = 12 * 2**20  # allowed difference in bytes of the web process between two equal loads


@dataclass(frozen=True)
class Dashboard:
    """A dashboard over one scored run, and a client with a worker of its own on the same store."""

    server: subprocess.Popen[bytes]
    address: str
    run: str
    client: Client
    near: str

    def page(self, alpha: int) -> str:
        """Return the address of the interpolation page at this point, with exact values."""
        return f"{self.address}/interpolation?run={self.run}&alpha={alpha}&exact=yes"

    def numbers(self, alpha: int) -> list[str]:
        """What the page must show there: a worker's answers, asked one by one."""
        shown = []
        for more in ({}, {"task": self.near}):
            for path in ("wise-ft", "wise-graft"):
                told = self.client.ask("wise", pair={"run": self.run}, path=path, alpha=alpha / 100, **more)
                rows = [told["metrics"][metric] for metric in METRICS]
                estimates = [row["value"] if row["debiased"] is None else row["debiased"] for row in rows]
                shown += [metric_value(*pair) for pair in zip(METRICS, estimates, strict=True)]
        return shown

    def worker(self) -> psutil.Process:
        """The worker of the dashboard's server."""
        (worker,) = [one for one in psutil.Process(self.server.pid).children() if "worker" in one.cmdline()]
        return worker

    def memory(self) -> int:
        """Return the memory of the web process in bytes."""
        return psutil.Process(self.server.pid).memory_info().rss


@pytest.fixture
def dashboard(scored_world: Path, tmp_path: Path) -> Iterator[Dashboard]:
    """A fresh server over a copy of the scored run; its worker ends with it."""
    store = tmp_path / "runs"
    shutil.copytree(scored_world / "runs", store)
    (run,) = Store(store).list()
    (near,) = run.record.spec.others
    server, address = started(PROJECT, tmp_path, {"SKILLVIZ_RUNS": str(store)})
    client = Client(store)
    client.ask("open", pair={"run": run.id}, timeout=LONG / 1000)
    yield Dashboard(server, address, run.id, client, near)
    for process in filter(None, (server, client.process)):
        process.kill()
        process.wait(20)


def slider(page: Any) -> Any:
    """Return the slider for the mixing weight."""
    return page.get_by_role("slider").first


def numbers(page: Any) -> list[str]:
    """Return the numbers of the chosen points, once all of them come from the models."""
    page.get_by_text("Computed live").nth(3).wait_for(timeout=LONG)
    settle(page)
    return page.locator("[data-testid='stMetricValue']").all_inner_texts()


def move(page: Any, key: str, times: int, pause: int) -> None:
    """Press an arrow key on the slider this many times, with this many milliseconds in between."""
    slider(page).focus()
    for _ in range(times):
        page.keyboard.press(key)
        page.wait_for_timeout(pause)


@pytest.mark.nightly
def test_two_readers_at_once_get_each_their_own_answers(dashboard: Dashboard, visit: Visit) -> None:
    """Each reader makes ten fast moves at the same time, one up and the other down."""
    up, down = visit(dashboard.page(51)), visit(dashboard.page(49))
    first = numbers(up)
    assert first == dashboard.numbers(51) and numbers(down) == dashboard.numbers(49) != first
    slider(up).focus()
    slider(down).focus()
    for _ in range(10):
        for page, key in ((up, "ArrowRight"), (down, "ArrowLeft")):
            page.keyboard.press(key)
            page.wait_for_timeout(60)
    expect(up, "/interpolation", alpha="61")
    expect(down, "/interpolation", alpha="39")
    assert numbers(up) == dashboard.numbers(61) != first
    assert numbers(down) == dashboard.numbers(39)
    assert dashboard.server.poll() is None
    copy = visit(up.url)
    assert numbers(copy) == numbers(up), "a copied link shows the same"


@pytest.mark.nightly
def test_a_worker_that_is_killed_is_replaced_by_the_next_move(dashboard: Dashboard, visit: Visit) -> None:
    page = visit(dashboard.page(51))
    before, worker = numbers(page), dashboard.worker()
    worker.kill()
    until_gone(worker)
    move(page, "ArrowRight", 1, 0)
    expect(page, alpha="52")
    assert numbers(page) == dashboard.numbers(52) != before
    assert dashboard.worker() != worker


@pytest.mark.nightly
def test_the_web_process_does_not_grow_with_use(dashboard: Dashboard, visit: Visit) -> None:
    """Fill the cache of answers, then request twice as many again: the process does not grow."""
    page = visit(dashboard.page(51))
    numbers(page)
    sizes = []
    for key in ("ArrowRight", "ArrowLeft", "ArrowLeft"):
        for _ in range(2):
            move(page, key, 10, 250)
            numbers(page)
        sizes.append(dashboard.memory())
    assert sizes[2] - sizes[0] < GROWTH, [round(size / 2**20, 1) for size in sizes]
    assert "torch" not in " ".join(os.path.basename(m.path) for m in psutil.Process(dashboard.server.pid).memory_maps())


def until_gone(process: psutil.Process) -> None:
    """Return when the process has ended or is a zombie that its parent has not reaped."""
    for _ in range(200):
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return
        psutil.wait_procs([process], timeout=0.05)
    raise AssertionError("it lives")
