"""Measure the dashboard with many visitors: page times, processor time per page, errors, and growth of memory.

    python -m benchmarks visitors [--seconds 60] [--minutes 10] [--results FOLDER]

Visitors are websocket clients that use Streamlit's own protocol, so that twenty of them cost less than one browser.

- *Busy*: 12 visitors request the next page as soon as they have one. The dashboard, with all shipped runs, and a bare
  Streamlit app with pages of one small figure take turns, a minute each, three times.
- *Class*: 17 such visitors and 3 browsers read for some seconds between pages, for ten minutes; 5 of the 17 are on
  pages that run the models. Memory is measured for the server and the live worker, once a second; its slope is fitted
  to the second half.

Needs the packages of deploy/requirements-dev.txt and a Chromium on the path.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from playwright.async_api import async_playwright

from benchmarks.frame import RESULTS, ROOT, machine, store, verdict
from benchmarks.page_speed import bare as bare_app
from skillviz.core.formats import markdown_table
from skillviz.runs.store import Store
from skillviz.ui.page_table import HOME, PAGES
from tests.e2e.server import PATIENCE, STILL, started
from tests.e2e.websocket import LIVE_PAGES, STORED_PAGES, WAIT, Seen, Visitor

BUSY, TURNS = 12, 3
READERS, LIVE, BROWSERS = 12, 5, 3
READS = (2.0, 12.0)  # seconds that a reader of the class stays on a page
SCORED = "score=yes"  # in the address of the page Surgery, as after a press of its button
BARE_PAGES = ("zero", "one", "two")
TIMES_BARE, SLOPE = 2.0, 1.0
"""Targets: the 95th percentile of a busy page over the bare app's, and the growth of memory in MiB per minute."""


async def visits(
    address: str,
    pages: Sequence[str],
    queries: Sequence[str],
    end: float,
    reads: tuple[float, float],
    seed: int,
    seen: Seen,
) -> None:
    """Run one visitor until `end`, on pages and runs drawn by its seed."""
    draw = random.Random(seed)
    async with Visitor(address) as visitor:
        await visitor.visit("", "", Seen())  # the first answer lists the pages
        while True:
            await visitor.visit(draw.choice(pages), draw.choice(queries), seen)
            if time.monotonic() > end:
                break
            await asyncio.sleep(draw.uniform(*reads))


async def browses(playwright: Any, address: str, queries: Sequence[str], end: float, seed: int, seen: Seen) -> None:
    """Run one browser until `end`; seconds are measured until the page no longer changes."""
    draw = random.Random(seed)
    browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"))
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE)
    while time.monotonic() < end:
        name, begun = draw.choice(STORED_PAGES), time.monotonic()
        await page.goto(f"{address}/{'' if name == HOME else name}?{draw.choice(queries)}")
        await page.wait_for_function(STILL)
        seen.seconds.append(time.monotonic() - begun)
        if await page.locator("[data-testid='stException']").count():
            seen.errors.append(f"{name}: {await page.locator('[data-testid=stException]').first.inner_text()}")
        await asyncio.sleep(draw.uniform(*READS))
    await browser.close()


class Server:
    """A dashboard in its own process, with its use of resources."""

    def __init__(self, project: Path, place: Path) -> None:
        more = {"SKILLVIZ_RUNS": str(place / "runs")}
        self.popen, self.address = started(project, place, more)
        self.process = psutil.Process(self.popen.pid)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.terminate()
        self.popen.wait(WAIT)

    @property
    def processor_seconds(self) -> float:
        """Processor seconds of the server alone."""
        return sum(self.process.cpu_times()[:2])

    def workers(self) -> list[psutil.Process]:
        """Return the live workers that it started."""
        return [child for child in self.process.children(recursive=True) if "worker" in child.cmdline()]


def of_turn(server: Server, pages: Sequence[str], queries: Sequence[str], seconds: float) -> dict[str, Any]:
    """Run busy visitors for some seconds; return their page times, and the processor time per page."""
    seen, before, begun = Seen(), server.processor_seconds, time.monotonic()

    async def all_of_them() -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(visits(server.address, pages, queries, end, (0, 0), seed, seen) for seed in range(BUSY)))

    asyncio.run(all_of_them())
    spent = time.monotonic() - begun
    return {
        "seconds": seen.seconds, "errors": seen.errors, "rate": len(seen.seconds) / spent,
        "processor": (server.processor_seconds - before) / len(seen.seconds),
    }  # fmt: skip


def busy(dashboard: Server, bare: Server, queries: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    """Measure both apps by turns; return one row each."""
    of_turn(dashboard, tuple(PAGES), queries, seconds / 2)  # a warm-up: files that are read once are then read
    of_turn(bare, BARE_PAGES, [""], seconds / 10)
    apps = {"dashboard": (dashboard, tuple(PAGES), queries), "bare app": (bare, BARE_PAGES, [""])}
    turns = pd.DataFrame([{"app": name, **of_turn(*of, seconds)} for _ in range(TURNS) for name, of in apps.items()])
    return [
        {**row_of(name, BUSY, of["seconds"].sum(), of["errors"].sum()), "rate": round(float(of["rate"].median()), 2),
         "processor": round(float(of["processor"].median()), 4)}
        for name, of in turns.groupby("app", sort=False)
    ]  # fmt: skip


def row_of(name: str, visitors: int, seconds: Sequence[float], errors: Sequence[str]) -> dict[str, Any]:
    """Return the results of visitors of one kind."""
    middle, late = np.quantile(seconds, [0.5, 0.95])
    return {
        "what": name, "visitors": visitors, "pages": len(seconds), "median": round(float(middle), 3),
        "p95": round(float(late), 3), "errors": list(errors),
    }  # fmt: skip


async def lesson(server: Server, queries: Sequence[str], minutes: float) -> dict[str, Any]:
    """Run a class for some minutes; return page times of each kind of visitor, and memory by minute."""
    end, memory = time.monotonic() + 60 * minutes, {"server": [], "worker": []}
    seen = {"websocket": Seen(), "live": Seen(), "browser": Seen()}

    async def watch() -> None:
        while time.monotonic() < end:
            memory["server"].append((time.monotonic(), server.process.memory_info().rss))
            if workers := server.workers():
                memory["worker"].append((time.monotonic(), sum(one.memory_info().rss for one in workers)))
            await asyncio.sleep(1)

    async with async_playwright() as playwright:
        await asyncio.gather(
            watch(),
            *(visits(server.address, STORED_PAGES, queries, end, READS, n, seen["websocket"]) for n in range(READERS)),
            *(visits(server.address, LIVE_PAGES, [SCORED], end, READS, 100 + n, seen["live"]) for n in range(LIVE)),
            *(browses(playwright, server.address, queries, end, 200 + n, seen["browser"]) for n in range(BROWSERS)),
        )
    kinds = zip(seen.items(), (READERS, LIVE, BROWSERS), strict=True)
    rows = [row_of(name, count, of.seconds, of.errors) for (name, of), count in kinds]
    growth = {name: slope(of) for name, of in memory.items()}
    most = {name: round(max((size for _, size in of), default=0) / 2**20) for name, of in memory.items()}
    by_minute = {name: minute_by_minute(of) for name, of in memory.items()}
    return {"minutes": minutes, "rows": rows, "growth": growth, "most": most, "by_minute": by_minute}


def minute_by_minute(rows: Sequence[tuple[float, float]]) -> list[int]:
    """Return the median reading of each minute, in MiB."""
    table = pd.DataFrame(rows, columns=["moment", "size"])
    sizes = table["size"].groupby((table["moment"] - table["moment"].min()) // 60).median()
    return (sizes / 2**20).round().astype(int).tolist()


def slope(rows: Sequence[tuple[float, float]]) -> float | None:
    """Return the growth of memory in the second half, in MiB per minute; None with fewer than ten readings there."""
    half = rows[len(rows) // 2 :]
    if len(half) < 10:
        return None
    times, sizes = np.array(half).T
    return round(float(np.polyfit((times - times[0]) / 60, sizes / 2**20, 1)[0]), 2)


def measure(seconds: float, minutes: float) -> dict[str, Any]:
    """Return all measurements, with the machine."""
    there, shown = machine(), [run.id for run in Store(ROOT / "cached_runs").list()]
    queries = ["", *(f"run={name}" for name in random.Random(0).sample(shown, 12))]
    with tempfile.TemporaryDirectory() as folder, Server(ROOT, Path(folder)) as dashboard:
        with bare_app() as project, Server(project, Path(folder)) as bare:
            rows = busy(dashboard, bare, queries, seconds)
        of_class = asyncio.run(lesson(dashboard, queries, minutes))
    return {"machine": there, "runs": len(shown), "busy": rows, "class": of_class}


def said(value: float | None, target: float) -> str:
    """Return the target with "met" or "missed" for a value."""
    return "not measured" if value is None else verdict(value, target)


def table(result: dict[str, Any]) -> list[str]:
    """Return the result as Markdown: the busy visitors beside the bare app, the class, and its memory."""
    (ours, bare), of_class, there = result["busy"], result["class"], result["machine"]
    ratio, most = round(ours["p95"] / bare["p95"], 2), of_class["most"]
    times = ("pages", "median, s", "95th percentile, s", "errors")
    return [
        f"{BUSY} busy visitors:", "",
        *markdown_table(("app", *times, "pages a second", "processor time a page, s"), (
            (row["what"], *cells(row), f"{row['rate']:.1f}", f"{row['processor']:.3f}") for row in (ours, bare)
        )),
        "", f"95th percentile / bare app: {ratio:.2f} (target {said(ratio, TIMES_BARE)}).",
        "", f"A class of {READERS + LIVE + BROWSERS} for {of_class['minutes']:g} minutes:", "",
        *markdown_table(("visitors", "how many", *times), (
            (row["what"], str(row["visitors"]), *cells(row)) for row in of_class["rows"]
        )),
        "",
        *markdown_table(("process", "most memory, MiB", "growth, MiB a minute", "target"), (
            (name, str(most[name]), "" if grows is None else f"{grows:.2f}", said(grows, SLOPE))
            for name, grows in of_class["growth"].items()
        )),
        "",
        f"{result['runs']} stored runs; visitors, browsers and the server share the machine: {there['cpu']}, "
        f"{there['cores']} cores; load at the start {there['load']}.",
    ]  # fmt: skip


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return pages, times and the number of errors, as texts."""
    return f"{row['pages']:,}", f"{row['median']:.2f}", f"{row['p95']:.2f}", str(len(row["errors"]))


def main(seconds: float = 60, minutes: float = 10, results: Path = RESULTS) -> None:
    """Measure the dashboard with many visitors: page times, processor time per page, errors, and growth of memory."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    result = measure(seconds, minutes)
    store("visitors", result, table(result), results)
