"""Fixture of the shared store of fake runs as the user's own folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ui.conftest import ids, made, nobody_waits

__all__ = ["ids", "made", "nobody_waits"]


@pytest.fixture
def own_copy(
    made: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_runs: Path
) -> Path:
    """Make a copy of the runs that a test may change as the user's folder, without shipped runs."""
    shutil.copytree(made[0], user_runs)
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")
    return user_runs
