"""Fixtures of browser tests: a dashboard per test if needed, and headless Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from skillviz.tasks.project import PROJECT
from tests.e2e import server
from tests.e2e.server import PATIENCE, free_port, settle, wait_until_up
from tests.ui.shared_store import make_store

__all__ = ["PATIENCE", "free_port", "served", "settle", "wait_until_up"]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder of fake runs and their ids by short name."""
    root = tmp_path_factory.mktemp("library")
    return root, make_store(root)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Start a new dashboard over a folder of runs and return its address; it ends after the test."""
    with ExitStack() as servers:
        yield lambda root: servers.enter_context(served(root, tmp_path))


@pytest.fixture(scope="session")
def address(made: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of one dashboard over the fake runs, shared by all tests that change nothing."""
    with served(made[0], tmp_path_factory.mktemp("log")) as address:
        yield address


@contextmanager
def served(root: Path, logs: Path, project: Path = PROJECT) -> Iterator[str]:
    """Yield the address of a dashboard over this folder of runs and the runs shipped with `project`."""
    with server.served(project, logs, {"SKILLVIZ_RUNS": str(root)}) as address:
        yield address


def off_the_machine(url: str) -> list[str]:
    """Return the URL in a list if it points to another machine, else an empty list."""
    at = urlsplit(url)
    is_away = at.scheme in ("http", "https", "ws", "wss") and at.hostname not in ("127.0.0.1", "localhost")
    return [f"a request left the machine: {url}"] if is_away else []


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an address in its own context; fail on an error of the page or a request to another machine."""
    contexts, problems = [], []

    def open_page(url: str, **settings: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        context.on("request", lambda request: problems.extend(off_the_machine(request.url)))
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
