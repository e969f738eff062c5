"""Tests that invalid lines of events.jsonl are skipped by every reader of events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillviz import jobs
from skillviz.runs.store import Store
from tests.fake_run import fake_run

STEP = {
    "time": 1.0, "phase": "search", "step": 1, "total": 3, "search": 1, "searches": 2, "loss": 0.5, "size": 3,
    "added": 1, "removed": 0, "left": None,
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store; its run names this process, so it must not be cancelled."""
    return Store(tmp_path / "runs")


def watched(store: Store, *events: Any) -> str:
    """Make a running run with these events; return its id."""
    run = fake_run(store, n={"validation": 20, "test": 30}, layers=1, width=8, steps=4, sizes=("5%",))
    folder = store.create(run.spec)
    folder.start()
    (folder.work / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder.id


def test_a_step_is_read(store: Store) -> None:
    name = watched(store, STEP)
    assert jobs.steps(store, name) == [STEP] and jobs.progress(store, name).total == 6


@pytest.mark.cases(4, 3)
@pytest.mark.parametrize(
    "change",
    [
        {"search": {}}, {"search": None}, {"step": [1]}, {"step": "1"}, {"total": True}, {"phase": 3}, {"size": None},
        {"left": 2.0, "time": None}, {"loss": "x"}, {"loss": float("inf")}, {"searches": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_event_is_passed_over(store: Store, change: dict[str, Any]) -> None:
    name = watched(store, STEP, STEP | {"step": 2} | change)
    assert jobs.steps(store, name) == [STEP]
    assert jobs.progress(store, name).step == 1


@pytest.mark.parametrize("cwd", [3, [], "", "\0", "x" * 5000])
def test_a_launch_note_with_a_strange_folder_starts_from_this_one(store: Store, cwd: Any) -> None:
    name = watched(store, STEP)
    (store.root / name / "work" / "launch.json").write_text(json.dumps({"cwd": cwd}))
    assert jobs.status(store, name).status == "running"
