"""Tests of live pages: two readers at once, a killed worker, bounded memory, and bases and data from the hub."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from skillviz.live.client import Client
from skillviz.models.frozen_tensors import strip
from skillviz.runs.produce import produce
from skillviz.runs.store import Store
from skillviz.show.sentences import metric_value
from skillviz.tasks import registry
from skillviz.tasks.project import PROJECT
from tests.e2e import server
from tests.e2e.conftest import LONG, Visit, settle
from tests.e2e.server import started
from tests.e2e.test_dashboard import expect
from tests.hub import Hub, hub_of
from tests.jobs.conftest import until
from tests.live.conftest import lived
from tests.pages.conftest import scored_world
from tests.runs.tiny_world import spec_of

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
    store = shutil.copytree(scored_world / "runs", tmp_path / "runs")
    (run,) = Store(store).list()
    server, address = started(PROJECT, tmp_path, {"SKILLVIZ_RUNS": str(store)})
    client = Client(store)
    client.ask("open", pair={"run": run.id}, timeout=LONG / 1000)
    yield Dashboard(server, address, run.id, client, *run.record.spec.others)
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
    until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, 10)
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


@pytest.fixture
def world(lived: Path, tmp_path: Path) -> Path:
    """Return a copy of the tiny pair and its task that a test may change."""
    return shutil.copytree(lived, tmp_path / "world", ignore=shutil.ignore_patterns("runs"))


@contextmanager
def dashboard_of(folder: Path, **published: dict[str, Path]) -> Iterator[tuple[Hub, str]]:
    """Yield a hub with these models or data sets, and the address of a dashboard that uses it, over runs/ of a folder.

    The worker ends with the dashboard.
    """
    with hub_of(**{"models": {}, **published}) as hub:
        environment = {"SKILLVIZ_RUNS": str(folder / "runs"), **hub.environment(folder / "home")}
        with server.served(PROJECT, folder, environment) as address:
            yield hub, address


def download(page: Any, hub: Hub, name: str) -> Any:
    """Click the button that downloads this name, before which nothing is asked, and return it."""
    button = page.get_by_role("button", name=f"Download {name} from the Hugging Face Hub")
    button.wait_for(timeout=LONG)
    settle(page)
    assert hub.asked == [], "nothing is asked before the click"
    button.click()
    return button


@pytest.mark.nightly
def test_the_base_is_downloaded_by_one_click(world: Path, tmp_path: Path, visit: Visit) -> None:
    strip(world / "finetuned", world / "base", dtype="float16", hub="some/encoder")
    run = produce(spec_of(world, sizes=("5%", "20%")), Store(tmp_path / "runs"))
    published = (world / "base").rename(tmp_path / "published")
    with dashboard_of(tmp_path, models={"some/encoder": published}) as (hub, address):
        page = visit(f"{address}/interpolation?run={run.id}&alpha=51&exact=yes")
        download(page, hub, "some/encoder").wait_for(state="detached", timeout=LONG)
        page.locator("[data-testid='stMetricValue']").first.wait_for(timeout=LONG)
        settle(page)
        assert any(path.endswith("/model.safetensors") for path in hub.asked)
        assert not page.get_by_text("This needs the weights").count()
    assert os.environ.get("HF_HUB_OFFLINE") == "1"


@pytest.mark.nightly
def test_without_its_data_a_pair_is_asked_about_a_public_set_after_a_click(
    world: Path, tmp_path: Path, visit: Visit
) -> None:
    public, file, built_in = tmp_path / "public", world / "task.yaml", registry.TASKS["sst2"]
    task = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**task, "name": "sst2", "labels": list(built_in.labels)}))
    run = produce(spec_of(world), Store(tmp_path / "runs"))
    public.mkdir()
    for split in ("train", "test"):
        rows = [json.loads(line) for line in (world / f"{split}.jsonl").read_text().splitlines()]
        lines = [json.dumps({"text": row["text"], "label": str(row["label"])}) for row in rows]
        (public / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
        (world / f"{split}.jsonl").unlink()
    with dashboard_of(tmp_path, datasets={built_in.data.id: public}) as (hub, address):
        page = visit(f"{address}/surgery?run={run.id}")
        page.get_by_text("This needs the run's own examples").wait_for(timeout=LONG)
        page.get_by_label("Type one and press Enter").fill("the film was good")
        page.keyboard.press("Enter")
        page.get_by_text("; your region").first.wait_for(timeout=LONG)
        page.goto(f"{address}/transfer?run={run.id}&also=sst2")
        page.get_by_role("button", name="Score this task").click()
        download(page, hub, built_in.data.id)
        page.get_by_text("some may have been seen in training").wait_for(timeout=LONG)
        assert any(path.endswith("/test.jsonl") for path in hub.asked)
        assert page.get_by_text("SST-2 (other data)").count()
