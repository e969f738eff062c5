"""The shared store of fake runs, as the user's own folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ui.shared_store import make_store


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder and the ids of its runs by short name."""
    root = tmp_path_factory.mktemp("library")
    return root, make_store(root)


@pytest.fixture
def ids(made: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch, own_runs: Path) -> dict[str, str]:
    """The runs are there, and nothing ships; returns their ids by short name."""
    root, found = made
    monkeypatch.setenv("SKILLVIZ_RUNS", str(root))
    monkeypatch.setattr("skillviz.runs.library.shipped_root", lambda: root)
    return found


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_runs: Path) -> Path:
    """No run anywhere; returns the user's folder."""
    monkeypatch.setattr("skillviz.runs.library.shipped_root", lambda: tmp_path / "nothing")
    return own_runs


@pytest.fixture
def own_copy(
    made: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_runs: Path
) -> Path:
    """A copy of the runs that a test may change, as the user's folder; nothing ships."""
    shutil.copytree(made[0], own_runs)
    monkeypatch.setattr("skillviz.runs.library.shipped_root", lambda: tmp_path / "nothing")
    return own_runs
