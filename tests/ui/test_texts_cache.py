"""Texts are read once for all runs of a task, anew when its files change, and never shown from other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.errors import SkillvizError
from skillviz.runs.run import Run
from skillviz.ui import cache
from tests.runs.test_texts import run_of
from tests.tiny import tiny_task


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return run_of(tiny_task(tmp_path / "task"), tmp_path / "runs")


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The splits that were read."""
    read: list[str] = []
    original = cache.example_texts

    def reading(run: Run, split: str):  # type: ignore[no-untyped-def]
        read.append(split)
        return original(run, split)

    monkeypatch.setattr(cache, "example_texts", reading)
    return read


def test_texts_are_read_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    first, again = cache.texts(run, "test"), cache.texts(run, "test")
    assert read == ["test"] and first.equals(again) and len(first) == 32


def test_a_changed_file_is_read_anew_and_refused_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.texts(run, "test")
    read, path = counted(monkeypatch), tmp_path / "task" / "test.jsonl"
    before = path.read_text()
    path.write_text(before.replace("class", "kind") + before.splitlines()[0] + "\n")
    for _ in range(2):
        with pytest.raises(SkillvizError, match="have changed"):
            cache.texts(run, "test")
    assert read == ["test"]
    path.unlink()
    with pytest.raises(SkillvizError, match="there is no file"):
        cache.texts(run, "test")
