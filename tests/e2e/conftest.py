"""A dashboard of its own for each test that asks, and headless Chromium."""

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
    """The folder of fake runs and their ids by short name."""
    root = tmp_path_factory.mktemp("library")
    return root, make_store(root)


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
    with server.served(project, logs, {"SKILLVIZ_RUNS": str(root)}) as address:
        yield address


def off_the_machine(url: str) -> list[str]:
    """The address where another machine is asked for it; else nothing."""
    at = urlsplit(url)
    is_away = at.scheme in ("http", "https", "ws", "wss") and at.hostname not in ("127.0.0.1", "localhost")
    return [f"a request left the machine: {url}"] if is_away else []


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a context of its own; an error that the page raises, or a request off the machine, fails."""
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
