"""Fixtures of a pair, a task and one finished run, which the command-line tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.api import finetune
from skillviz.tasks.registry import task
from tests.cli.calls import Said, call
from tests.tiny import tiny_pair, tiny_task

QUICK = ("--device", "cpu", "--steps", "3", "--batch-size", "16")


@pytest.fixture(scope="session")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A YAML task with its data beside it."""
    return tiny_task(tmp_path_factory.mktemp("task"), rows=48)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, task_file: Path) -> tuple[Path, Path]:
    """A bare encoder and a fine-tuned classifier made from it."""
    folder = tmp_path_factory.mktemp("pair")
    base, _ = tiny_pair(folder, "bert", "head")
    tuned = finetune(str(base), task(task_file), out=folder / "tuned", steps=150, lr=0.3, device="cpu")
    return base, tuned.path


@pytest.fixture(scope="session")
def localized(pair: tuple[Path, Path], task_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """Return a folder of runs with one finished run of three sizes, and the command's output."""
    runs = tmp_path_factory.mktemp("store")
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file)
    sizes = ("--size", "10%", "5%", "600")
    return runs, call("localize", *members, *sizes, *QUICK, "--runs-dir", runs, "--json")
