"""Tests of bases and data on the hub: nothing is requested before the click, and live pages work after it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillviz.models.frozen_tensors import strip
from skillviz.runs.produce import produce
from skillviz.runs.store import Store
from skillviz.tasks import registry
from skillviz.tasks.project import PROJECT
from tests.e2e.server import settle, started
from tests.hub import hub_of
from tests.live.conftest import lived
from tests.runs.tiny_world import spec_of

__all__ = ["lived"]

pytestmark = pytest.mark.e2e

LONG = 120_000


def end(server: subprocess.Popen[bytes]) -> None:
    """Ends the dashboard, and its worker with it."""
    server.kill()
    server.wait(20)


@pytest.mark.nightly
def test_the_base_is_downloaded_by_one_click(lived: Path, tmp_path: Path, visit: Callable[..., Any]) -> None:
    world, store = tmp_path / "world", tmp_path / "runs"
    shutil.copytree(lived, world, ignore=shutil.ignore_patterns("runs"))
    strip(world / "finetuned", world / "base", dtype="float16", hub="some/encoder")
    run = produce(spec_of(world, sizes=("5%", "20%")), Store(store))
    published = (world / "base").rename(tmp_path / "published")
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
            end(server)
    assert os.environ.get("HF_HUB_OFFLINE") == "1"


@pytest.mark.nightly
def test_without_its_data_a_pair_is_asked_about_a_public_set_after_a_click(
    lived: Path, tmp_path: Path, visit: Callable[..., Any]
) -> None:
    world, store, public = tmp_path / "world", tmp_path / "runs", tmp_path / "public"
    shutil.copytree(lived, world, ignore=shutil.ignore_patterns("runs"))
    built_in = registry.TASKS["sst2"]
    task = yaml.safe_load((world / "task.yaml").read_text())
    words = task["label_words"]
    (world / "task.yaml").write_text(
        yaml.safe_dump({**task, "name": "sst2", "labels": list(built_in.labels), "label_words": words})
    )
    run = produce(spec_of(world), Store(store))
    public.mkdir()
    for split in ("train", "test"):
        rows = [json.loads(line) for line in (world / f"{split}.jsonl").read_text().splitlines()]
        lines = [json.dumps({"text": row["text"], "label": str(row["label"])}) for row in rows]
        (public / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
        (world / f"{split}.jsonl").unlink()
    with hub_of({}, datasets={built_in.data.id: public}) as hub:
        environment = {"SKILLVIZ_RUNS": str(store), **hub.environment(tmp_path / "home")}
        server, address = started(PROJECT, tmp_path, environment)
        try:
            page = visit(f"{address}/surgery?run={run.id}")
            page.get_by_text("This needs the run's own examples").wait_for(timeout=LONG)
            page.get_by_label("Type one and press Enter").fill("the film was good")
            page.keyboard.press("Enter")
            page.get_by_text("; your region").first.wait_for(timeout=LONG)
            page.goto(f"{address}/transfer?run={run.id}&also=sst2")
            page.get_by_role("button", name="Score this task").click()
            button = page.get_by_role("button", name=f"Download {built_in.data.id} from the Hugging Face Hub")
            button.wait_for(timeout=LONG)
            settle(page)
            assert hub.asked == [], "nothing is asked before the click"
            button.click()
            page.get_by_text("some may have been seen in training").wait_for(timeout=LONG)
            assert any(path.endswith("/test.jsonl") for path in hub.asked)
            assert page.get_by_text("SST-2 (other data)").count()
        finally:
            end(server)
