"""Fixtures of the shared store of fake runs as the user's own folder, of runs with models, and of jobs."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml

from skillviz.jobs.backend import LocalBackend
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from tests.live.conftest import lived, own_workers
from tests.runs.test_scoring import other_task
from tests.ui.conftest import ids, made, nobody_waits

Use = Callable[[Path], None]
OwnRun = Callable[[Path], Run]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Use:
    """Return a function that makes a folder the user's, and the only one."""

    def used(root: Path) -> None:
        monkeypatch.setenv("SKILLVIZ_RUNS", str(root))
        monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")

    return used


@pytest.fixture
def own_run(use: Use, user_runs: Path) -> OwnRun:
    """Return a function that makes a copy of a store the user's, and the only one, and returns its only run."""

    def copied(source: Path) -> Run:
        use(shutil.copytree(source, user_runs))
        (run,) = Store(user_runs).list()
        return run

    return copied


@pytest.fixture
def alive(lived: Path, own_run: OwnRun) -> Run:
    """Return a run of a tiny pair with weights and data in the user's folder."""
    return own_run(lived / "runs")


@pytest.fixture
def own_copy(made: tuple[Path, dict[str, str]], empty: Path) -> Path:
    """Make a copy of the runs that a test may change as the user's folder, without shipped runs."""
    shutil.copytree(made[0], empty)
    return empty


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Queue jobs without starting a process; return the ids of the jobs that would start."""
    started: list[str] = []
    monkeypatch.setattr(LocalBackend, "start", lambda self, folder, words, cwd: started.append(folder.name))
    return started


@pytest.fixture(scope="session")
def scored_world(lived: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the pair, its task, near.yaml, far.yaml and `runs`. Tests must not change it."""
    return _scored_world(lived, tmp_path_factory.getbasetemp() / "scored-world")


@cache  # pytest makes an imported session fixture once per module; the cache makes it once per process
def _scored_world(lived: Path, folder: Path) -> Path:
    from skillviz.runs.produce import produce
    from tests.runs.tiny_world import spec_of

    shutil.copytree(lived, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs", "other"))
    for name, seed in (("near", 70), ("far", 71)):
        told = yaml.safe_load(other_task(folder / name, name, seed=seed).read_text())
        data = {split: f"{name}/{file}" for split, file in told["data"].items()}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**told, "data": data}, sort_keys=False))
    spec = spec_of(folder, sizes=("5%", "20%"), others=(str(folder / "near.yaml"),), interpolation=True)
    produce(spec, Store(folder / "runs"))
    return folder


@pytest.fixture
def scored(scored_world: Path, own_run: OwnRun) -> str:
    """Return the run's id; a copy of the store is the user's folder, without shipped runs."""
    return own_run(scored_world / "runs").id
