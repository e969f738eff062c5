"""What is told while a run is scored: every pass through the model counts, and the time left goes down to none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillviz.core.objective import Objective
from skillviz.runs import estimate as counted
from skillviz.runs.estimate import OTHERS, Passed, passes
from skillviz.runs.folder import RunFolder
from skillviz.runs.produce import produce
from skillviz.runs.progress import Progress
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from tests.runs.test_scoring import other_task
from tests.runs.tiny_world import spec_of


@pytest.mark.cases(0, 2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": ("5%",)},
        pytest.param({"sizes": ("5%", "1%", "20%"), "others": "both", "interpolation": True}, marks=pytest.mark.slow),
        {"sizes": ("5%", "1%"), "interpolation": True, "localizer": "stagewise", "steps": 2, "batch_size": 8},
        {"sizes": ("5%",), "others": "both", "max_test": 9},
    ],
)
def test_the_examples_that_are_told_are_those_that_went_through_the_model(
    world: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    if changes.get("others"):
        changes = {**changes, "others": tuple(str(other_task(tmp_path / name, name)) for name in ("near", "far"))}
    through, told, events = 0, [], []
    real, say = Objective.logits, RunFolder.event

    def logits(self: Objective, rows: Any = None) -> Any:
        nonlocal through
        found = real(self, rows)
        through += len(found)
        return found

    def hear(progress: Progress) -> None:
        if progress.phase == "evaluate":
            told.append((progress, through))

    monkeypatch.setattr(Objective, "logits", logits)
    monkeypatch.setattr(RunFolder, "event", lambda self, **said: (events.append(said), say(self, **said))[1])
    produce(spec_of(world, **changes), store, hear, Session())
    begun = told[0][1]
    assert [progress.done for progress, _ in told[1:]][-1] == told[-1][0].total > 0
    apart = [now - begun - progress.done for progress, now in told[1:]]
    assert set(apart) == {0}, "told after each set of examples"
    left = [event["left"] for event in events if event["phase"] == "evaluate"]
    assert left[0] is not None and left[-1] == 0 and len(left) == len(told)
    assert all(event["left"] is not None for event in events if event["phase"] == "search" and "step" in event)


def test_each_kind_of_work_counts(world: Path) -> None:
    counts = {"train": 900, "validation": 10, "test": 100, OTHERS: 1000}
    assert passes(spec_of(world), {"train": 900, "validation": 10, "test": 100}, (9,)) == 2 * 110
    assert passes(spec_of(world), counts, (9, 5)) == 4 * 110 + 4 * 1000
    assert passes(spec_of(world, interpolation=True), counts, (9, 5)) == 4 * 110 + 4 * 1000 + 31 * 1100
    assert passes(spec_of(world, interpolation=True), {"train": 900, "validation": 10}, (9,)) == 20, "no test set"


def test_the_speed_is_the_one_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(counted.time, "perf_counter", lambda: now)
    passed = Passed(100, each=0.1)
    assert passed.left == 10.0 and Passed(100).left is None
    passed.begin()
    now, _ = 60.0, passed.add(20)
    assert passed.left == 40.0, "half a second each, whatever was thought before"
    passed.add(999)
    assert passed.left == 0.0
