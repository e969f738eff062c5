"""A tiny base with two tasks, for studies that make their own fine-tuned models."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.runs.store import Store
from tests.studies.tiny_study import tiny_world


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny base and the tasks one and two. Tests must not change it."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_world(folder)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store whose root does not exist yet."""
    return Store(tmp_path / "runs")
