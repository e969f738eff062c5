"""Fixtures of browser tests: a dashboard per test if needed, and headless Chromium."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from skillviz import jobs
from skillviz.runs.store import Store
from skillviz.tasks.project import PROJECT
from tests.e2e import server
from tests.e2e.server import PATIENCE, free_port, settle, wait_until_up
from tests.small_world import opening_run
from tests.ui.shared_store import make_store

Made = tuple[Path, dict[str, str]]
Serve, Visit = Callable[[Path], str], Callable[..., Any]
LONG = 240_000  # milliseconds until a new process has torch and a model, on a busy machine
SEARCHING = re.compile(r"searching: step [\d,]+")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of this folder: it drives a browser."""
    item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return the folder of fake runs and their ids by short name."""
    root = tmp_path_factory.mktemp("library")
    return root, make_store(root)


@pytest.fixture(scope="session")
def ids(made: Made) -> dict[str, str]:
    """Return the ids of the fake runs by short name."""
    return made[1]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store of the user; jobs still open at the end are cancelled."""
    found = Store(tmp_path / "runs")
    yield found
    cancel_open(found)


def cancel_open(store: Store) -> None:
    """Cancel the queued and running jobs of a store."""
    for job in jobs.list(store):
        if job.is_open:
            jobs.cancel(store, job.run_id)


@pytest.fixture(scope="session")
def run_id() -> str:
    """Return the id of the run that the dashboard opens on."""
    return opening_run().id


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a new dashboard over a folder of runs and return its address; it ends after the test."""
    with ExitStack() as servers:
        yield lambda root: servers.enter_context(served(root, tmp_path))


@pytest.fixture(scope="session")
def address(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of one dashboard over the fake runs, shared by all tests that change nothing."""
    with served(made[0], tmp_path_factory.mktemp("log")) as address:
        yield address


@contextmanager
def served(root: Path, logs: Path, project: Path = PROJECT) -> Iterator[str]:
    """Yield the address of a dashboard over this folder of runs and the runs shipped with `project`."""
    with server.served(project, logs, {"SKILLVIZ_RUNS": str(root)}) as address:
        yield address


def without_runs(folder: Path) -> Path:
    """Copy the project without its shipped runs into a folder."""
    for name in ("skillviz", "pages", ".streamlit"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dashboard.py", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder / name)
    return folder


def cancel(page: Any) -> None:
    """Cancel the job that the page shows, and wait until the page says that it can be resumed."""
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("resumes from its last checkpoint").wait_for()


def resume(page: Any) -> None:
    """Resume the job that the page shows, and wait until it searches."""
    page.get_by_role("button", name="Resume").click()
    page.get_by_text(SEARCHING).wait_for(timeout=LONG)


def go_to(page: Any, url: str) -> None:
    """Open an address in a page, and return when it is still."""
    page.goto(url)
    settle(page)


def off_the_machine(url: str) -> list[str]:
    """Return the URL in a list if it points to another machine, else an empty list."""
    at = urlsplit(url)
    is_away = at.scheme in ("http", "https", "ws", "wss") and at.hostname not in ("127.0.0.1", "localhost")
    return [f"a request left the machine: {url}"] if is_away else []


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Open an address in its own context; fail on an error of the page or a request to another machine."""
    contexts, problems = [], []

    def open_page(url: str, **settings: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        context.on("request", lambda request: problems.extend(off_the_machine(request.url)))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        go_to(page, url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not problems
