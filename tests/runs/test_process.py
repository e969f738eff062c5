"""Tests of the processes that skillviz starts: their environment, and the progress that they report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import skillviz
from skillviz.core.objective import Objective
from skillviz.runs.folder import RunFolder
from skillviz.runs.pace import OTHERS, passes
from skillviz.runs.process import SPIN, Progress, environment
from skillviz.runs.produce import produce
from skillviz.runs.scoring import Scoring
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from tests.runs.test_scoring import other_task
from tests.runs.tiny_world import spec_of


def test_waits_are_short_unless_something_else_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SPIN, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    assert environment()[SPIN] == "1000"
    monkeypatch.setenv(SPIN, "7")
    assert environment()[SPIN] == "7"
    monkeypatch.delenv(SPIN)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert SPIN not in environment()


def test_the_package_is_found_first_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    project = str(Path(skillviz.__file__).resolve().parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/elsewhere", project]))
    assert environment()["PYTHONPATH"].split(os.pathsep) == [project, "/elsewhere"]
    monkeypatch.delenv("PYTHONPATH")
    assert environment()["PYTHONPATH"] == project


@pytest.mark.cases(0, 3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": ("5%",)},
        pytest.param({"sizes": ("5%", "1%", "20%"), "others": "both", "interpolation": True}, marks=pytest.mark.slow),
        {"sizes": ("5%", "1%"), "interpolation": True, "localizer": "stagewise", "steps": 2, "batch_size": 8},
        {"sizes": ("5%",), "others": "both", "max_test": 9},
        {"sizes": ("50%",), "gain": "kinds"},
    ],
)
def test_the_examples_that_are_told_are_those_that_went_through_the_model(
    world: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    if changes.get("others"):
        changes = {**changes, "others": tuple(str(other_task(tmp_path / name, name)) for name in ("near", "far"))}
    through, checked, told, events = 0, 0, [], []
    real, say, check = Objective.answers, RunFolder.event, Scoring.checks

    def answers(self: Objective, rows: Any) -> Any:
        nonlocal through
        through += len(rows)
        return real(self, rows)

    def checks(self: Scoring, searched: Any) -> Any:
        nonlocal checked
        before = through
        found = check(self, searched)
        checked = through - before
        return found

    def hear(progress: Progress) -> None:
        if progress.phase == "evaluate":
            told.append((progress, through))

    monkeypatch.setattr(Objective, "answers", answers)
    monkeypatch.setattr(Scoring, "checks", checks)
    monkeypatch.setattr(RunFolder, "event", lambda self, **said: (events.append(said), say(self, **said))[1])
    produce(spec_of(world, **changes), store, hear, Session())
    begun = told[0][1]
    done = [progress.done for progress, _ in told[1:]]
    assert done == sorted(done) and done[-1] == told[-1][0].total == through - begun - checked > 0
    left = [event["left"] for event in events if event["phase"] == "evaluate"]
    assert left[0] is not None and left[-1] == 0 and len(left) == len(told)
    steps = [event["left"] for event in events if event["phase"] == "search" and "step" in event]
    assert all(left is not None for left in steps[1:]), "the first step measures nothing"


def test_each_kind_of_work_counts(world: Path) -> None:
    counts = {"train": 900, "validation": 10, "test": 100, OTHERS: 1000}
    assert passes(spec_of(world), {"train": 900, "validation": 10, "test": 100}, (9,)) == 2 * 110
    assert passes(spec_of(world), counts, (9, 5)) == 4 * 110 + 4 * 1000
    assert passes(spec_of(world, interpolation=True), counts, (9, 5)) == 4 * 110 + 4 * 1000 + 31 * 1100
    assert passes(spec_of(world, interpolation=True), {"train": 900, "validation": 10}, (9,)) == 20, "no test set"
    one, by_kind = (passes(spec_of(world, gain=gain), {"validation": 10}, (9,), 3) for gain in ("fit", "kinds"))
    assert by_kind - one == 10 + 2 * 3 * 17 * 5, "a state more, and half of the examples at each gain of three kinds"
