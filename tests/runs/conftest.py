"""A store with one small invented run, shared by the tests that only read or copy it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.fake_run import fake_run

SMALL = {"n": {"validation": 30, "test": 40}, "layers": 2, "width": 8, "steps": 5, "sizes": ("1%", "10%")}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return one finished run. Tests must not change it."""
    return fake_run(Store(tmp_path_factory.mktemp("made")), interpolation=True, **SMALL)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store whose root does not exist yet."""
    return Store(tmp_path / "runs")


@pytest.fixture
def run(store: Store, made: Run) -> Run:
    """Return a copy of the finished run in `store`, which a test may damage."""
    shutil.copytree(made.path, store.root / made.id)
    return store.open(made.id)


@pytest.fixture
def spec() -> RunSpec:
    """Return a spec whose models and task do not exist."""
    return RunSpec(base="org/MiniLM_L6@main", finetuned="out/tuned", task="sst2", sizes=("0.1%",))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a trained tiny pair (base, finetuned) and a task. Tests must not change it."""
    from tests.tiny import tiny_pair, tiny_task  # needs torch, which tests of the store do not

    folder = tmp_path_factory.mktemp("world")
    tiny_pair(folder, steps=60)
    tiny_task(folder)
    return folder


@pytest.fixture(scope="module")
def session() -> Session:
    """Return a session that the tests of one file share, like the runs of a study."""
    return Session()
