"""Measure single actions on the dashboard, from the click until the page is still, on a server with the shipped runs.

    python -m benchmarks actions [--rounds 5] [--results FOLDER]

Headless Chromium drives a copy of the project, as in `page-speed`. An action ends when its change is on the page, no
script runs and nothing is stale; a report ends when it is saved. Each round opens the page again, so that nothing but
the server's caches is warm. `before` is the median when these actions were first found slow, on two busy cores.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.frame import RESULTS, ROOT, machine, store, verdict
from benchmarks.live import opening_run
from benchmarks.page_speed import dashboard, opened, own
from skillviz.core.formats import markdown_table
from skillviz.runs.run import RANKING
from skillviz.runs.store import Store
from tests.e2e.server import served, settle

Action = Callable[[Page], None]


def _adds_a_run(page: Page) -> None:
    """Add the first run that is offered."""
    before = page.get_by_role("button", name=" runs").first.inner_text()
    page.get_by_role("combobox", name="Runs (").press("ArrowDown")
    page.get_by_role("option").first.click()
    page.wait_for_function(
        "before => ![...document.querySelectorAll('button')].some(one => one.innerText === before)", arg=before
    )


def _presses(name: str, then: str) -> Action:
    """Return the action that presses a button, after which this text or button is on the page."""

    def act(page: Page) -> None:
        page.get_by_role("button", name=name, exact=False).first.click()
        page.get_by_text(then).or_(page.get_by_role("button", name=then)).first.wait_for()

    return act


def _saves_the_report(page: Page) -> None:
    with page.expect_download() as found:
        page.get_by_role("button", name="Report (HTML)").click()
    found.value.path()


def _opens_an_example(page: Page) -> None:
    """Wait for the first example of the list, which is open at first."""
    page.get_by_text("Explain this prediction").first.wait_for()


def _explains(page: Page) -> None:
    """Explain the open prediction; the models are loaded first."""
    drawn = page.locator(".js-plotly-plot").count()
    page.get_by_text("Explain this prediction").first.click()
    page.wait_for_function("drawn => document.querySelectorAll('.js-plotly-plot').length > drawn", arg=drawn)


def _chooses_another_pair(page: Page) -> None:
    """Choose the second pair of the box, whose files are then checked."""
    before = page.url
    page.get_by_role("combobox", name="Pair").click()
    page.get_by_role("option").nth(1).click()
    page.wait_for_function("before => location.href !== before", arg=before)


def _moves_the_slider(page: Page) -> None:
    before = page.url
    page.get_by_role("slider").first.press("PageUp")
    page.wait_for_function("before => location.href !== before", arg=before)


def _opens(*names: str) -> Action:
    """Return the preparation that opens these folds or boxes."""

    def act(page: Page) -> None:
        for name in names:
            page.get_by_text(name).first.click()
            settle(page)

    return act


ONCE = ("Examples: explain, with the worker's start",)
"""Actions of the first round only: later ones get a stored answer."""

# what: (before, address, preparation, action); {run} is the run that the dashboard opens on
ACTIONS: dict[str, tuple[float, str, Action, Action]] = {
    "Compare: add a run": (6.6, "compare", _presses(" runs", "Runs ("), _adds_a_run),
    "Present": (6.1, "overview?run={run}", settle, _presses("Present", "Leave presenter mode")),
    "Overview: save the report": (6.7, "overview?run={run}", _opens("Reproduce and export"), _saves_the_report),
    ONCE[0]: (9.5, "examples?run={run}", _opens_an_example, _explains),
    "Launch: choose a pair": (4.0, "launch", settle, _chooses_another_pair),
    "Interpolation: move the slider": (3.4, "interpolation?run={run}", settle, _moves_the_slider),
    "Tour: next step": (2.6, "tour", settle, _presses("Next", "Step 2 of")),
}  # fmt: skip


def measure(rounds: int) -> dict[str, Any]:
    """Return one row per action: rounds, median and longest seconds, the median before, and half of that as target."""
    there, run = machine(), opening_run().id
    folders = [one.path for one in Store(ROOT / "cached_runs").list() if RANKING in one.files and one.path.is_dir()]
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    seconds: dict[str, list[float]] = {what: [] for what in ACTIONS}
    with sync_playwright() as playwright, dashboard(folders) as project, served(project, more=own(project)) as address:
        browser = playwright.chromium.launch(executable_path=chromium)
        for number in range(rounds):
            for what, (_, where, prepare, act) in ACTIONS.items():
                if number and what in ONCE:
                    continue
                page = opened(browser, f"{address}/{where.format(run=run)}")
                prepare(page)
                begun = time.perf_counter()
                act(page)
                settle(page)
                seconds[what].append(time.perf_counter() - begun)
                page.close()
        browser.close()
    rows = [
        {
            "what": what, "n": len(taken), "median": round(float(np.median(taken)), 2), "longest": round(max(taken), 2),
            "before": ACTIONS[what][0], "target": ACTIONS[what][0] / 2,
        }
        for what, taken in seconds.items()
    ]  # fmt: skip
    return {"machine": there, "rows": rows}


def table(result: dict[str, Any]) -> list[str]:
    """Return the result as a Markdown table, with the machine."""
    at = result["machine"]
    cells = [
        [row["what"], str(row["n"]), *(f"{row[name]:.2f}" for name in ("median", "longest", "before")),
         verdict(row["median"], row["target"])]
        for row in result["rows"]
    ]  # fmt: skip
    headings = ("what", "n", "median, s", "longest, s", "before, s", "target: half of before")
    return [
        *markdown_table(headings, cells), "",
        f"Headless Chromium and the server share the machine: {at['cpu']}, {at['cores']} cores; load at the start "
        f"{at['load']}.",
    ]  # fmt: skip


def main(rounds: int = 5, results: Path = RESULTS) -> None:
    """Measure single actions on the dashboard, from the click until the page is still."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    result = measure(rounds)
    store("actions", result, table(result), results)
