"""Tests of the words on jobs, of the form filled from a spec, and of steps: once each, thinned, all switches kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz import errors
from skillviz.core.formats import SPACE
from skillviz.jobs import words as job_progress
from skillviz.jobs.job import Job, JobProgress
from skillviz.jobs.kinds import RunJob
from skillviz.plots.overview import search_history
from skillviz.runs.process import PHASES
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.ui import job_words as words
from skillviz.ui.job_words import Steps
from skillviz.ui.jobs_view import title


def job(position: int | None = None, **changes: object) -> Job:
    fields = {"base": "models/minilm", "finetuned": "org/tuned", "task": "my/reviews.yaml", **changes}
    spec = RunSpec(**fields)  # type: ignore[arg-type]
    record = RunRecord(run_id="x-1", spec=spec, key="k", status="queued", created="")
    return RunJob("x-1", Path("x-1"), "queued", record, slot="cpu", position=position)


def event(step: int, search: int = 1, **changes: object) -> dict[str, object]:
    fields = {"loss": 1 / step, "size": 9, "added": 2, "removed": 1, "total": 10, "searches": 2, "target": 9 * search}
    return {"phase": "search", "step": step, "search": search, **fields, **changes}


def test_a_job_is_named_as_the_run_bar_names_its_run() -> None:
    waiting = job(sizes=("0.1%", "1%"), seed=3, steps=40, task="sst2")
    assert title(waiting, {}) == "SST-2 · minilm · stagewise · 0.1%, 1% · seed 3 · steps 40"
    assert words.models(waiting) == "minilm → tuned · cpu"
    assert title(job(), {}).startswith("reviews · minilm · ")
    assert [words.task_word(t) for t in ("sst2", "/a/mine/task.yaml", "task.yaml")] == ["sst2", "mine", "task"]


def test_the_place_in_the_queue_is_a_number() -> None:
    assert "3 jobs" in words.waits(job(3)) and words.waits(job(0)) == words.waits(job())


def test_progress_has_step_loss_and_the_time_left() -> None:
    progress = job_progress.run_progress(JobProgress("search", 1031, 2000, 0.4123, 5, 1, 1, 75.2))
    assert all(number in progress for number in ("1,031 of 2,000", "0.412", "75 s"))
    assert job_progress.run_progress(JobProgress("search", 3)).endswith("step 3, time left: not measured yet")
    assert "longer than" in job_progress.run_progress(JobProgress("evaluate", seconds_left=0.0))
    study = JobProgress("steps", 3, 31, title="localize sst2")
    assert job_progress.study_progress(study) == "step 4 of 31: localize sst2, time left: not measured yet"


def test_the_bar_only_grows() -> None:
    assert list(job_progress.PHASES) == list(PHASES)
    shares = [words.share(JobProgress(phase, 10, 10) if phase == "search" else JobProgress(phase)) for phase in PHASES]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 1
    begun, half = (words.share(JobProgress("search", n, 10)) for n in (0, 5))
    scoring = [words.share(JobProgress("evaluate", scored=done)) for done in (None, 0.5, 1.0)]
    assert scoring == sorted(scoring) and scoring[0] < scoring[1] <= words.share(JobProgress("store"))
    assert words.share(JobProgress("predict")) < begun < half < words.share(JobProgress("evaluate"))


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (errors.OUT_OF_MEMORY, "Out of memory"), (errors.BUG, "A bug in skillviz"), ("killed", "Killed"),
        ("BadData", "Bad data"), ("BadLabelWord", "Invalid value"), ("RandomHead", "This model cannot"),
        ("NoDevice", "No such device"), ("DiskFull", "The disk is full"), ("nothing known", "Failed"),
    ],
)  # fmt: skip
def test_every_failure_has_a_class_and_something_to_do(kind: str, title: str) -> None:
    headline, todo = words.failure(kind)
    assert headline.startswith(title) and todo.endswith(".")


def test_the_form_is_filled_from_a_spec() -> None:
    spec = job(localizer="learned", options={"lr": 5.0}, steps=7, sizes=("1%", "9"), max_test=3).spec
    query = words.form_of(spec)
    assert query["new.source"] == "file" and query["new.file"] == "my/reviews.yaml" and query["new.size"] == "1%,9"
    assert (query["new.learned.lr"], query["new.learned.steps"], query["new.max-test"]) == ("5.0", "7", "3")
    assert query["new.max-train"] == query["new.also"] == "none" and query["new.readout"] == "auto"
    assert words.form_of(job(task="sst2").spec)["new.known"] == "sst2"
    by_hand = job(localizer="expression", options={"expression": {"layers": [0]}}).spec
    assert words.form_of(by_hand)["new.expression.expression"] == '{"layers": [0]}'


def test_steps_are_heard_piece_by_piece_and_the_last_telling_counts() -> None:
    steps = Steps()
    assert steps.frame("stagewise")[0].empty
    steps.add([{"phase": "load"}, event(1), event(2), {"phase": "search"}], 100)
    steps.add([event(2, loss=0.25, added=7), event(3, loss=None)], 200)
    frame, title = steps.frame("stagewise")
    assert steps.place == 200 and frame["step"].tolist() == [1, 2, 3] and frame["added"].tolist() == [2, 7, 2]
    assert np.isnan(frame["loss"][2]) and title == "The search for 9 entries (1 of 2 searches)"
    search_history(frame)
    steps.add([event(1, search=2, searches=2)], 300)
    frame, title = steps.frame("stagewise")
    assert len(frame) == 1 and title == "The search for 18 entries (2 of 2 searches)"


def test_a_long_search_takes_little_memory_and_loses_no_switch() -> None:
    steps = Steps()
    for place, first in enumerate(range(1, 30_001, 500)):
        steps.add([event(n, size=n, loss=None if n % 3 else 0.3) for n in range(first, first + 500)], place)
        assert sum(len(spans.rows) for spans in steps.searches.values()) <= 2 * words.MOST_POINTS
    frame, _ = steps.frame("stagewise")
    assert len(frame) <= words.MOST_POINTS and frame["size"].iloc[-1] == frame["step"].iloc[-1] == 30_000
    assert (frame["added"].sum(), frame["removed"].sum()) == (60_000, 30_000)
    assert np.allclose(frame["loss"], 0.3) and frame["step"].is_monotonic_increasing
    steps.add([event(n, added=0) for n in range(20_001, 20_011)], 99)
    frame, _ = steps.frame("stagewise")
    assert frame["step"].iloc[-1] == 20_010 and 2 * 19_000 < frame["added"].sum() <= 40_000, "told again"


def test_a_growing_chart_is_drawn_anew_after_some_seconds_only() -> None:
    steps = Steps()
    steps.add([event(1)], 1)
    first, _ = steps.drawing("stagewise", 10.0)
    steps.add([event(2)], 2)
    assert steps.drawing("stagewise", 10.0 + words.REDRAWN - 0.1)[0] is first and len(first) == 1
    assert len(steps.drawing("stagewise", 10.0 + words.REDRAWN)[0]) == 2


@pytest.mark.parametrize("n", [1, 2, 59, 60, 61, 600, 1234])
def test_thinning_keeps_ends_and_sums(n: int) -> None:
    steps = np.arange(1, n + 1)
    frame = pd.DataFrame(
        {"localizer": "random", "step": steps, "loss": 1.0 / steps, "size": steps, "added": 2, "removed": steps % 2}
    )
    before = frame.copy()
    thin = words.thinned(frame)
    assert len(thin) <= words.MOST_POINTS and thin["step"].iloc[-1] == n == thin["size"].iloc[-1]
    assert (thin["added"].sum(), thin["removed"].sum()) == (2 * n, frame["removed"].sum())
    assert thin["step"].is_monotonic_increasing and thin["loss"].between(1 / n, 1).all()
    pd.testing.assert_frame_equal(frame, before)
