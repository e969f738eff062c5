"""Fixtures of a pair, a task and one finished run, which the command-line tests share."""

import shutil
from pathlib import Path

import pytest

from skillviz.api import finetune
from skillviz.runs.store import Store
from skillviz.tasks.registry import task
from tests.cli.calls import Said, call
from tests.tiny import tiny_pair, tiny_task

QUICK = ("--device", "cpu", "--steps", "3", "--batch-size", "16")
Members = tuple[str | Path, ...]


def members_of(base: Path, finetuned: Path, task: Path | str) -> Members:
    return "--base", base, "--finetuned", finetuned, "--task", task


@pytest.fixture(scope="session")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_task(tmp_path_factory.mktemp("task"), rows=48)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, task_file: Path) -> tuple[Path, Path]:
    """A bare encoder and a fine-tuned classifier made from it."""
    folder = tmp_path_factory.mktemp("pair")
    base, _ = tiny_pair(folder, "bert", "head")
    return base, finetune(str(base), task(task_file), out=folder / "tuned", steps=150, lr=0.3, device="cpu").path


@pytest.fixture(scope="session")
def members(pair: tuple[Path, Path], task_file: Path) -> Members:
    return members_of(*pair, task_file)


@pytest.fixture(scope="session")
def localized(members: Members, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """Return a folder of runs with one finished run of three sizes, and the command's output."""
    runs = tmp_path_factory.mktemp("store")
    return runs, call("localize", *members, "--size", "10%", "5%", "600", *QUICK, "--runs-dir", runs, "--json")


@pytest.fixture
def store(localized: tuple[Path, Said], user_runs: Path) -> tuple[Path, str]:
    """Return a store for this test only with the finished run in it, and the run's id."""
    shutil.copytree(localized[0], user_runs)
    return user_runs, Store(user_runs).list()[0].id


@pytest.fixture
def finished(localized: tuple[Path, Said]) -> tuple[str | Path, ...]:
    """Return the words that name the finished run to a command: its id, and the folder of runs."""
    return localized[1].json["run_id"], "--runs-dir", localized[0]
