"""A tiny base with two tasks, for studies that make their own fine-tuned models."""

from pathlib import Path

import pytest

from tests.runs.conftest import store
from tests.studies.tiny_study import tiny_world, write_world


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny base and the tasks one and two. Tests must not change it."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_world(folder)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny base with a language-model head, and two tasks with the same labels."""
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of runs and models of all tests in one file."""
    return tmp_path_factory.mktemp("stored")
