"""The end of each test's workers; a client of a worker without models; a run, its pair and a worker in this process."""

import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from skillviz.live import client as started
from skillviz.live.client import Client

ECHO = Path(__file__).with_name("echo_worker.py")

MakeClient = Callable[..., Client]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def own_workers() -> Iterator[None]:
    """Ends the workers that the test starts."""
    before = list(started._processes)
    yield
    for process in [p for p in started._processes if p not in before]:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a trained tiny pair (base, finetuned), the tasks task and other, and `runs` with one run.

    Tests must not change it.
    """
    return _lived(tmp_path_factory.getbasetemp() / "lived")


@cache  # pytest makes an imported session fixture once per module; the cache makes it once per process
def _lived(folder: Path) -> Path:
    from skillviz.runs.produce import produce
    from skillviz.runs.store import Store
    from tests.runs.tiny_world import spec_of
    from tests.tiny import tiny_pair, tiny_task

    tiny_pair(folder, "bert", "head", steps=60)
    tiny_task(folder)
    tiny_task(folder / "other", rows=48)
    produce(spec_of(folder, sizes=("5%", "20%"), interpolation=True), Store(folder / "runs"))
    return folder


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    """Return a copy of the run's store, beside the shared models and tasks."""
    return Path(shutil.copytree(lived / "runs", tmp_path / "runs"))


@pytest.fixture
def run(place: Path) -> Any:
    from skillviz.runs.store import Store

    return Store(place).list()[0]


@pytest.fixture
def ask(place: Path, run: Any) -> Ask:
    """Return a function that asks one worker in this process about the run."""
    return asking(place, run)


def asking(place: Path, run: Any) -> Ask:
    """Return a function that asks a new worker in this process about the run; `pair` may name others."""
    from skillviz.live.operations import answer  # imports torch
    from skillviz.live.request import Worker

    worker = Worker(place)
    return lambda operation, **arguments: answer(worker, operation, {"pair": {"run": run.id}, **arguments})


@pytest.fixture(scope="module")
def pair(lived: Path) -> Any:
    from skillviz.models.pair import load_pair  # imports torch

    return load_pair(lived / "base", lived / "finetuned", task=lived / "task.yaml", device="cpu")


@pytest.fixture(scope="module")
def task(lived: Path) -> Any:
    from skillviz.tasks import registry

    return registry.task(lived / "task.yaml")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return an empty folder of runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def echo(store: Path) -> MakeClient:
    """Return a function that makes clients of an echo worker (see echo_worker)."""
    return lambda **options: Client(**{"store": store, "command": (sys.executable, str(ECHO)), **options})
