"""A pair whose base is at home on the hub: nothing is asked before the click, and every live page works after it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from skillviz.live.client import Client
from skillviz.models.frozen_tensors import strip
from skillviz.runs.produce import produce
from skillviz.runs.store import Store
from skillviz.tasks.project import PROJECT
from tests.e2e.server import settle, started
from tests.hub import hub_of
from tests.live.conftest import lived
from tests.runs.tiny_world import spec_of

__all__ = ["lived"]

pytestmark = pytest.mark.e2e

LONG = 240_000


@pytest.mark.nightly
def test_the_base_is_downloaded_by_one_click(
    lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visit: Callable[..., Any]
) -> None:
    world, store = tmp_path / "world", tmp_path / "runs"
    shutil.copytree(lived, world, ignore=shutil.ignore_patterns("runs"))
    strip(world / "finetuned", world / "base", dtype="float16", hub="some/encoder")
    run = produce(spec_of(world, sizes=("5%", "20%")), Store(store))
    published = (world / "base").rename(tmp_path / "published")
    workers = tempfile.mkdtemp(prefix="sv-")
    monkeypatch.setenv("SKILLVIZ_LIVE", workers)
    with hub_of({"some/encoder": published}) as hub:
        environment = {"SKILLVIZ_RUNS": str(store), **hub.environment(tmp_path / "home")}
        server, address = started(PROJECT, tmp_path, environment)
        try:
            page = visit(f"{address}/interpolation?run={run.id}&alpha=51&exact=yes")
            button = page.get_by_role("button", name="Download some/encoder from the Hugging Face Hub")
            button.wait_for(timeout=LONG)
            settle(page)
            assert hub.asked == [], "nothing is asked before the click"
            button.click()
            button.wait_for(state="detached", timeout=LONG)
            page.locator("[data-testid='stMetricValue']").first.wait_for(timeout=LONG)
            settle(page)
            assert any(path.endswith("/model.safetensors") for path in hub.asked)
            assert not page.get_by_text("This needs the weights").count()
        finally:
            client = Client(store)
            if client.is_running():
                psutil.Process(client.ask("ping")["pid"]).kill()
            server.kill()
            server.wait(20)
            shutil.rmtree(workers)
    assert os.environ.get("HF_HUB_OFFLINE") == "1"
