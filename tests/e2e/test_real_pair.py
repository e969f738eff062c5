"""The real pair that ships, live: its difference over the public base, which is in a folder here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from skillviz.live.client import Client
from skillviz.runs.store import Store, shipped_root
from tests.e2e.server import settle

pytestmark = [pytest.mark.e2e, pytest.mark.real]

PAIR = "real_pairs/ag-news-minilm-l6"
LONG = 240_000  # milliseconds until a new worker has torch and the pair, and has scored six models


@pytest.fixture
def runs(tmp_path: Path) -> Any:
    """A folder for runs of one's own; the worker that it gets is ended."""
    if not os.environ.get("SKILLVIZ_REAL"):
        pytest.skip("SKILLVIZ_REAL names no folder with the public base")
    yield tmp_path / "runs"
    client = Client(tmp_path / "runs")
    if client.is_running():
        psutil.Process(client.ask("ping")["pid"]).kill()


@pytest.mark.nightly
def test_surgery_examples_and_a_sentence_of_the_shipped_real_pair(
    runs: Path, serve: Callable[[Path], str], visit: Callable[..., Any]
) -> None:
    run = next(
        one for one in Store(shipped_root()).list()
        if one.record.spec.finetuned == PAIR and one.record.spec.localizer == "stagewise"
    )  # fmt: skip
    address = serve(runs)
    page = visit(f"{address}/surgery?run={run.id}")
    page.get_by_role("button", name="Score this graft").click()
    page.get_by_text("than a random region of the same size").wait_for(timeout=LONG)
    settle(page)
    assert page.get_by_text("Your region", exact=True).count() == 1
    page.get_by_label("Type one and press Enter").fill("The team won the final after extra time.")
    page.keyboard.press("Enter")
    page.get_by_text("Sports").first.wait_for(timeout=LONG)
    page.goto(f"{address}/examples?run={run.id}")
    settle(page)
    assert "not on this machine" not in page.locator("[data-testid='stMain']").inner_text()
