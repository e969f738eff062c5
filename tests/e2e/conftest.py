"""A dashboard of its own for each test that asks, and headless Chromium."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from skillviz.ui.pages import PROJECT
from tests.ui.shared_store import make_store

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 60_000  # milliseconds; a shared machine can be slow


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder of fake runs and their ids by short name."""
    root = tmp_path_factory.mktemp("library")
    return root, make_store(root)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; skips where there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on the path; install it (apt-get install chromium) to run these")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is in requirements-dev.txt")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Starts a fresh dashboard over a folder of runs and returns its address; ended after the test."""
    with ExitStack() as servers:
        yield lambda root: servers.enter_context(served(root, tmp_path))


@pytest.fixture(scope="session")
def address(made: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One dashboard over the fake runs for all tests that change nothing."""
    with served(made[0], tmp_path_factory.mktemp("log")) as address:
        yield address


@contextmanager
def served(root: Path, logs: Path, project: Path = PROJECT) -> Iterator[str]:
    """The address of a dashboard over this folder of runs, and over those that ship with `project`."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.headless", "true"]
    environment = {**os.environ, "SKILLVIZ_RUNS": str(root)}
    with (logs / "server.log").open("w") as log:
        server = subprocess.Popen(
            [*command, "--server.port", str(port)], cwd=project, env=environment, stdout=log, stderr=log
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_up(address)
        yield address
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a context of its own; every error that the page raises fails the test."""
    contexts, problems = [], []

    def open_page(url: str, **settings: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(url)
        settle(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not problems


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_up(address: str) -> None:
    """Returns when the server answers."""
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"the dashboard at {address} did not answer")


def settle(page: Any) -> None:
    """Returns when no script runs and nothing is left over from the run before."""
    page.wait_for_selector("[data-testid='stApp'][data-test-script-state='notRunning']")
    page.wait_for_function('!document.querySelector(\'[data-stale="true"], [data-testid="stSkeleton"]\')')
    page.wait_for_selector("h1")
    assert page.locator("[data-testid='stException']").count() == 0, page.locator("body").inner_text()
