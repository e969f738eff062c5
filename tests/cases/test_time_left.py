"""Tests of the time left: the measured pace times the remaining work of the search and the scoring together."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.core.batches import Batches
from skillviz.jobs.job import JobProgress
from skillviz.jobs.words import run_progress
from skillviz.runs.folder import RunFolder
from skillviz.runs.pace import Pace, Scored
from skillviz.runs.process import Progress
from skillviz.runs.produce import produce
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.cases.build import Rows, task_file, tiny_rows
from tests.tiny import tiny_pair

EACH = 0.004  # seconds per token on the test's clock


class Clock:
    """A clock that advances only when examples pass through the model."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.pace = 100.0, 1.0
        real = Batches.batch

        def batch(batches: Batches, rows: np.ndarray, *others: Any) -> Any:
            self.now += self.pace * EACH * float(batches.lengths[rows].sum())
            return real(batches, rows, *others)

        monkeypatch.setattr(Batches, "batch", batch)
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


def long(rows: Rows) -> Rows:
    """The rows with texts three times as long."""
    return [{"text": " ".join([row["text"]] * 3), "label": row["label"]} for row in rows]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pair")
    base, finetuned = tiny_pair(folder, steps=5)
    task = task_file(folder / "own", tiny_rows(96), tiny_rows(40, seed=1))
    other = task_file(folder / "other", tiny_rows(8, seed=2), long(tiny_rows(60, seed=3)))
    return {"base": str(base), "finetuned": str(finetuned), "task": str(task), "others": (str(other),)}


@pytest.mark.slow
@pytest.mark.cases(1, 3)
@pytest.mark.parametrize(
    "changes",
    [
        {"localizer": "stagewise", "steps": 12},
        {"localizer": "stagewise", "steps": 12, "interpolation": True, "sizes": ("5%", "2%")},
        {"localizer": "frank-wolfe", "steps": 8, "interpolation": True},
        {"localizer": "movement", "interpolation": True, "sizes": ("5%", "2%", "1%")},
    ],
)
def test_what_is_told_is_what_it_takes(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    clock, told, say = Clock(monkeypatch), list[tuple[float, float | None, str]](), RunFolder.event

    def event(folder: RunFolder, **fields: Any) -> None:
        told.append((clock.now, fields.get("left"), fields.get("phase", "")))
        say(folder, **fields)

    monkeypatch.setattr(RunFolder, "event", event)
    ended = 0.0

    def hear(progress: Progress) -> None:
        nonlocal ended
        if progress.text.startswith("checking both ends"):
            ended = clock.now

    fields = {"sizes": ("5%",), "batch_size": 16, "device": "cpu", **members, **changes}
    produce(RunSpec(**fields), Store(tmp_path), hear)
    known = [(ended - now, left) for now, left, _ in told if left is not None and now < ended]
    assert len(known) > 5 and ended > 0
    for left, words in known:
        assert words == pytest.approx(left, rel=0.25, abs=1.0), known
    before = [left for _, left, phase in told if phase in ("load", "predict")]
    assert before and set(before) == {None}, "nothing is known of the search yet"


def test_the_newest_minute_counts() -> None:
    """Regression: it announced 10 minutes at 20 s, 5 at 17 min and 37 at 18 min, because other work slowed the run."""
    pace = Pace()
    assert pace.left(100) is None and pace.left(0) == 0.0
    for _ in range(600):
        pace.add(10, 1.0)
    assert pace.left(1000) == pytest.approx(100)
    for _ in range(180):
        pace.add(10, 3.0)
    assert pace.left(1000) == pytest.approx(300, rel=0.01)


def test_longer_texts_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    scored = Scored(examples=110, tokens=100 * 10 + 10 * 500)
    assert scored.left is None
    now = 1.0
    scored.add(100, 1000)
    assert scored.left == 5.0, "a tenth of the examples, and five sixths of the tokens"
    scored.add(10, 5000, is_new=False)
    assert scored.left == 0.0 and scored.pace.work == 1000, "an earlier attempt's scores measure nothing"


def test_words_say_that_nothing_is_measured() -> None:
    assert run_progress(JobProgress("load")).endswith("time left: not measured yet")
    assert run_progress(JobProgress("search", 3, 50, seconds_left=240.0)).endswith("about 4 min left")
    assert run_progress(JobProgress("evaluate", seconds_left=0.0)).endswith("longer than measured so far")
