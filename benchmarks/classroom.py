"""Measure a hosted tour with a class of forty: how fast their pages follow the teacher's, and how fast answers count.

    python -m benchmarks classroom [--students 40] [--results FOLDER]

The teacher and most students are websocket clients that use Streamlit's own protocol, with the timers of a browser;
three students are browsers, in which a step counts once its heading is visible. Server and class share the machine.
At each step of the tour the teacher presses *Next*, every student answers once at a random moment, and the teacher
presses *Reveal*. Only then does the next step follow.

Needs the packages of deploy/requirements-dev.txt and a Chromium on the path.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import secrets
import shutil
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import websockets
from playwright.async_api import async_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.frame import RESULTS, ROOT, machine, store, verdict
from benchmarks.visitors import Server
from skillviz.core.formats import markdown_table
from skillviz.serving.guard import BROWSER
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.e2e.server import PATIENCE
from tests.e2e.websocket import WAIT

BROWSERS, PAUSE = 3, 4.0  # students with a browser; seconds in which the answers to a step are sent
FOLLOWS = 2.0  # target: seconds until a student's page shows the next step, at the 95th percentile
ANSWERED = re.compile(r"\*\*(\d+) of \d+ students? answered")


class Page:
    """A page of the tour as its browser sees it: the moment of each text, the widgets, and timers of fragments."""

    def __init__(self, address: str) -> None:
        self.url = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
        self.cookie, self.query, self.hash, self.chosen = secrets.token_hex(16), "", "", dict[str, str]()
        self.seen, self.counts, self.errors = dict[str, float](), dict[int, float](), list[str]()
        self.buttons, self.radio = dict[str, str](), ("", [""])
        self.timers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Page:
        cookie = {"Cookie": f"{BROWSER}={self.cookie}"}
        self.socket = await websockets.connect(
            self.url, subprotocols=["streamlit"], max_size=None, open_timeout=WAIT, additional_headers=cookie
        )
        self.reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self.reader, *self.timers):
            task.cancel()
        await self.socket.close()

    async def run(self, fragment: str = "", is_timer: bool = False, pressed: str = "") -> None:
        """Request a script run, or one of a fragment, as after a choice or after a click on the pressed button."""
        message = BackMsg()
        script = message.rerun_script
        script.query_string, script.fragment_id, script.is_auto_rerun = self.query, fragment, is_timer
        script.page_name, script.page_script_hash = "tour" if self.hash else "", self.hash
        for name, value in self.chosen.items():
            script.widget_states.widgets.add(id=name, string_value=value)
        if pressed:
            script.widget_states.widgets.add(id=self.buttons[pressed], trigger_value=True)
        await self.socket.send(message.SerializeToString())

    async def open(self, query: str = "") -> None:
        """Open the tour."""
        await self.run()
        await until(lambda: self.hash)
        self.query = query
        await self.run()

    async def _read(self) -> None:
        while True:
            answer = ForwardMsg()
            answer.ParseFromString(await self.socket.recv())
            kind = answer.WhichOneof("type")
            if kind == "navigation":
                pages = answer.navigation.app_pages
                self.hash = next(one.page_script_hash for one in pages if one.url_pathname == "tour")
            elif kind == "page_info_changed":
                self.query = answer.page_info_changed.query_string
            elif kind == "new_session" and not answer.metadata.run.fragment_ids:
                for task in self.timers:
                    task.cancel()
            elif kind == "auto_rerun":
                self.timers.append(asyncio.create_task(self._repeat(answer.auto_rerun)))
            elif kind == "delta":
                self._note(answer.delta.new_element, answer.delta.fragment_id)

    async def _repeat(self, timer: Any) -> None:
        while True:
            await asyncio.sleep(timer.interval)
            await self.run(timer.fragment_id, is_timer=True)

    def _note(self, element: Any, fragment: str) -> None:
        kind, now = element.WhichOneof("type"), time.monotonic()
        if kind == "markdown":
            self.seen.setdefault(element.markdown.body, now)
            if counted := ANSWERED.search(element.markdown.body):
                self.counts.setdefault(int(counted[1]), now)
        elif kind == "button":
            self.buttons[element.button.label] = element.button.id
        elif kind == "radio":
            self.radio, self.fragment = (element.radio.id, list(element.radio.options)), fragment
        elif kind == "exception":
            self.errors.append(element.exception.message)


async def until(is_so: Any) -> None:
    """Wait until the function returns a true value; raise TimeoutError if it takes too long."""
    async with asyncio.timeout(WAIT):
        while not is_so():
            await asyncio.sleep(0.005)


async def lesson(server: Server, students: int, playwright: Any) -> dict[str, Any]:
    """Go through the tour with a class; return the seconds of pages and answers, the memory, and errors."""
    draw, follows, shown, counted = random.Random(0), list[float](), list[float](), list[float]()
    memory = [server.process.memory_info().rss]
    chromium = await playwright.chromium.launch(executable_path=shutil.which("chromium"))
    async with AsyncExitStack() as open_pages:
        teacher = await open_pages.enter_async_context(Page(server.address))
        await teacher.open()
        await until(lambda: "Host this tour" in teacher.buttons)
        await teacher.run(pressed="Host this tour")
        await until(lambda: "Start" in teacher.buttons)
        join = teacher.query.replace("host=", "join=")
        pages = [await open_pages.enter_async_context(Page(server.address)) for _ in range(students - BROWSERS)]
        browsers = [await (await chromium.new_context()).new_page() for _ in range(BROWSERS)]
        for page in pages:
            await page.open(join)
        for browser in browsers:
            browser.set_default_timeout(PATIENCE)
            await browser.goto(f"{server.address}/tour?{join}")
            await browser.get_by_text("You have joined").wait_for()
        begun = server.processor_seconds, time.monotonic()

        async def answers(page: Page) -> float:
            await asyncio.sleep(draw.uniform(0, PAUSE))
            page.chosen = {page.radio[0]: draw.choice(page.radio[1])}
            sent = time.monotonic()
            await page.run(page.fragment)
            return sent

        for number, step in enumerate(STEPS):
            heading, teacher.counts = f"## {step.title}", {}
            for page in pages:
                page.seen.clear()  # another page may have the same heading
            pressed = time.monotonic()
            await teacher.run(pressed="Next" if number else "Start")

            async def sees(browser: Any, title: str = step.title, since: float = pressed) -> float:
                await browser.locator("h2", has_text=title).wait_for()
                return time.monotonic() - since

            shown += await asyncio.gather(*(sees(browser) for browser in browsers))
            await until(lambda heading=heading: all(heading in page.seen for page in pages))
            follows += [page.seen[heading] - pressed for page in pages]
            await asyncio.sleep(1.5)  # the question is drawn below its heading
            sent = sorted(await asyncio.gather(*map(answers, pages)))
            await until(lambda: len(pages) in teacher.counts)
            seen = [min(at for count, at in teacher.counts.items() if count > k) for k in range(len(sent))]
            counted += [max(at - since, 0.0) for at, since in zip(seen, sent, strict=True)]
            memory.append(server.process.memory_info().rss)
            await teacher.run(pressed="Reveal")
            await asyncio.sleep(2.5)
        load = (server.processor_seconds - begun[0]) / (time.monotonic() - begun[1])
        errors = [error for page in (teacher, *pages) for error in page.errors]
    await chromium.close()
    seconds = {"a student's page shows the step": follows, "a student's browser shows it": shown,
               "the teacher's page counts an answer": counted}  # fmt: skip
    rows = [
        {"what": name, "n": len(of), "median": round(float(np.median(of)), 2),
         "p95": round(float(np.quantile(of, 0.95)), 2), "worst": round(max(of), 2)}
        for name, of in seconds.items()
    ]  # fmt: skip
    sizes = {"before": round(memory[0] / 2**20), "most": round(max(memory) / 2**20)}
    return {"students": students, "rows": rows, "memory": sizes, "processor": round(load, 2), "errors": errors}


def table(result: dict[str, Any]) -> list[str]:
    """Return the result as Markdown."""
    rows, there, memory = result["rows"], result["machine"], result["memory"]
    return [
        f"A class of {result['students']}, {BROWSERS} of them browsers, over the {len(STEPS)} steps:", "",
        *markdown_table(("from the click until", "times", "median, s", "95th percentile, s", "worst, s"), (
            (row["what"], str(row["n"]), *(f"{row[name]:.2f}" for name in ("median", "p95", "worst"))) for row in rows
        )),
        "", f"95th percentile of a student's page: target {verdict(rows[0]['p95'], FOLLOWS)}. The server takes "
        f"{result['processor']:.0%} of one core and grows from {memory['before']} to {memory['most']} MiB; "
        f"errors: {len(result['errors'])}.",
        "", f"The class and the server share the machine: {there['cpu']}, {there['cores']} cores; load at the start "
        f"{there['load']}.",
    ]  # fmt: skip


async def measure(students: int) -> dict[str, Any]:
    """Return the measurements of a class, with the machine."""
    there = machine()
    with tempfile.TemporaryDirectory() as folder, Server(ROOT, Path(folder)) as server:
        async with async_playwright() as playwright:
            return {"machine": there, **await lesson(server, students, playwright)}


def main(students: int = 40, results: Path = RESULTS) -> None:
    """Measure a hosted tour: how fast the pages of a class follow the teacher's, and how fast answers count."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    result = asyncio.run(measure(students))
    store("classroom", result, table(result), results)
