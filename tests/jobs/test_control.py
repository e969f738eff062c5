"""Tests of starting, cancelling and resuming with a backend that starts nothing; watching uses only files."""

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from skillviz import jobs
from skillviz.errors import BadInput, BadSize, ModelNotFound, RunNotFound, StoreError, UnknownTask
from skillviz.jobs import control
from skillviz.runs.folder import RunFolder
from skillviz.runs.liveness import let_go
from skillviz.runs.record import Failure
from skillviz.studies.store import FOLDER as STUDIES
from skillviz.studies.store import list_studies
from tests.patience import within
from tests.refused import refuses
from tests.runs.tiny_world import Store, spec_of
from tests.test_torch_free import heavy_after
from tests.tiny import tiny_pair

FAILURE = Failure(kind="bug", message="m", hint="h")
PLACE = str(Path(__file__).parents[2] / "docs" / "examples" / "tell-place.yaml")


@pytest.fixture
def paper() -> Mock:
    """Return a backend that only records the jobs it would start and cancel."""
    return Mock(spec=["refuse", "start", "cancel"])


def started(paper: Mock) -> list[tuple[str, Path]]:
    """Return the names of the started jobs, and the folders they were started in."""
    for folder, words, _ in (call.args for call in paper.start.call_args_list):
        assert list(words) == ["work", str(folder.resolve())]
    return [(call.args[0].name, call.args[2]) for call in paper.start.call_args_list]


@pytest.fixture
def job(store: Store, world: Path, paper: Mock) -> jobs.Job:
    return jobs.start(spec_of(world), store, backend=paper)


def test_a_job_is_queued_with_the_size_it_will_have(store: Store, world: Path, paper: Mock) -> None:
    one, two, three = made = [
        jobs.start(spec_of(world), store, device=device, backend=paper) for device in (None, "cuda:1", None)
    ]
    assert one.run_id.startswith("tiny-base-movement-222-s0-")
    assert ([(j.slot, j.position) for j in made], started(paper), {j.run_id for j in jobs.list(store)}) == (
        [("cpu", 0), ("cuda-1", 0), ("cpu", 1)],
        [(j.run_id, Path.cwd()) for j in made],
        {j.run_id for j in made},
    )
    assert (jobs.status(store, one.run_id[:-2]).spec, jobs.progress(store, one.run_id).phase) == (
        spec_of(world),
        "queued",
    )


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"sizes": ("5%", "200%")}, BadSize, None),
        ({"base": "/nowhere"}, ModelNotFound, None),
        ({"task": "sst3"}, UnknownTask, None),
        ({"others": ("sst3",)}, UnknownTask, None),
        ({"others": ("sst2",)}, BadInput, None),
        ({"localizer": "learned", "lean": True}, BadInput, "'learned' keeps numbers for every parameter"),
        ({"localizer": "linearized", "task": PLACE}, BadInput, "a text that is generated has one reference"),
        ({"localizer": "fisher", "task": PLACE}, BadInput, "a text that is generated has one reference"),
        ({"lean": True}, BadInput, r"lean mode reads .* different numbers of rows"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_said_before_there_is_a_folder(
    store: Store, world: Path, paper: Mock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any], error: type[Exception], words: str | None,
) -> None:  # fmt: skip
    monkeypatch.setattr("skillviz.models.preflight.is_padded", lambda *_: True)
    if changes.get("task") == PLACE:
        tiny_pair(tmp_path, "opt", "causal")
        world = tmp_path
    refuses(
        error, words, jobs.start, spec_of(world, **{"task": str(world / "task.yaml"), **changes}), store, backend=paper
    )
    assert started(paper) == [] and not store.root.exists()


def test_a_store_that_cannot_be_written_is_one_sentence(
    store: Store, world: Path, paper: Mock, job: jobs.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    RunFolder(job.path).fail(FAILURE)
    for root in (tmp_path / "file", tmp_path / "file" / "runs"):
        refuses(StoreError, "cannot be written .*SKILLVIZ_RUNS", jobs.start, spec_of(world), Store(root), backend=paper)
    read_only = Mock(side_effect=OSError(errno.EROFS, os.strerror(errno.EROFS)))
    for of, name in ((Path, "mkdir"), (Path, "touch"), (Path, "unlink"), (os, "rename")):
        monkeypatch.setattr(of, name, read_only)
    for act in (
        lambda: jobs.resume(store, job.run_id, backend=paper),
        lambda: store.set_note(job.run_id, "seen"),
        lambda: store.delete(job.run_id),
    ):
        refuses(StoreError, "Read-only file system", act)
    assert len(started(paper)) == 1


def test_cancelled_by_whoever_asks(store: Store, paper: Mock, job: jobs.Job) -> None:
    cut = jobs.cancel(store, job.run_id, backend=paper)
    assert (cut.status, cut.position) == ("cancelled", None)
    paper.cancel.assert_called_once_with(job.path)
    assert not list((store.root / ".slots" / "cpu").glob("*-*"))
    for name, error, words in ((job.run_id, StoreError, "is cancelled"), ("nothing", RunNotFound, None)):
        refuses(error, words, jobs.cancel, store, name, backend=paper)


def test_an_error_on_the_way_out_is_no_failure(store: Store, job: jobs.Job) -> None:
    """SIGTERM may interrupt an import or a kernel with any kind of error; the job still counts as cancelled."""
    (job.path / "work" / "cancel").touch()
    RunFolder(job.path).give_up(FAILURE)
    assert jobs.status(store, job.run_id).status == "cancelled"


def test_resumed_from_the_folder_it_was_started_in(
    store: Store, paper: Mock, job: jobs.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_in = Path.cwd()
    refuses(StoreError, "is queued", jobs.resume, store, job.run_id, backend=paper)
    RunFolder(job.path).fail(FAILURE)
    (job.path / "curve.parquet").write_text("half")
    monkeypatch.chdir(tmp_path)
    again = jobs.resume(store, job.run_id, backend=paper)
    assert again.status == "queued"
    assert again.error is None
    assert again.position == 0
    assert started(paper) == [(job.run_id, begun_in)] * 2
    assert not (job.path / "curve.parquet").exists()


def test_a_queued_job_whose_process_died_or_never_came_has_failed(store: Store, paper: Mock, job: jobs.Job) -> None:
    def state() -> tuple[str, str | None, bool]:
        now = jobs.status(store, job.run_id)
        return now.status, now.error and now.error.kind, now.is_open

    os.utime(job.path / "run.json", (time.time() - 3600,) * 2)
    assert state() == ("failed", "killed", False) and jobs.status(store, job.run_id).is_resumable
    jobs.resume(store, job.run_id, backend=paper)
    assert RunFolder(job.path).belongs_to_this_process() and state() == ("queued", None, True)
    let_go(job.path / "work")
    assert state() == ("failed", "killed", False)
    (job.path / "work" / "process.json").write_text('{"pid": 1, "host": "elsewhere"}')
    assert state() == ("unknown", "unknown", False)
    refuses(
        StoreError, "is unknown: only a queued or running job can be cancelled", jobs.cancel, store, job.run_id,
        backend=paper,
    )  # fmt: skip
    assert jobs.resume(store, job.run_id, backend=paper).status == "queued"


def told(job: jobs.Job, *events: object) -> None:
    """Add events to those of a job; a text is written as it is."""
    with (job.path / "work" / "events.jsonl").open("a") as file:
        file.writelines(event if isinstance(event, str) else json.dumps(event) + "\n" for event in events)


def step(number: int, search: int = 1, **values: object) -> dict[str, object]:
    return {
        "time": time.time(), "phase": "search", "step": number, "search": search, "target": 9, "loss": 0.5, "size": 9,
        "added": 2, "removed": 1, "total": 10, "searches": 2, "left": 60.0, **values,
    }  # fmt: skip


@pytest.fixture
def running(job: jobs.Job) -> Iterator[jobs.Job]:
    """Return a job that runs in this process."""
    RunFolder(job.path).start()
    yield job
    RunFolder(job.path).cancel()


def test_progress_is_the_latest_that_was_told(store: Store, running: jobs.Job) -> None:
    def after(*events: object) -> jobs.JobProgress:
        told(running, *events)
        return jobs.progress(store, running.run_id)

    assert (after(), after({"time": 1.0, "phase": "load", "left": None})) == (
        jobs.JobProgress("check"),
        jobs.JobProgress("load"),
    )
    far = after({"time": 2.0, "phase": "search", "left": None}, step(4), step(3, search=2, loss=None))
    assert far.phase == "search"
    assert far.step == 13
    assert far.total == 20
    assert far.loss is None
    assert far.added == 2
    assert far.share == 0.65
    assert 55 < far.seconds_left <= 60
    far = after({"time": time.time() - 5, "phase": "evaluate", "left": 2.0})
    assert (far.phase, far.step, far.seconds_left) == ("evaluate", 13, 0.0), "late: longer than was measured"
    far = after({"time": time.time(), "phase": "evaluate", "step": 30, "total": 40, "left": 2.0})
    assert (far.scored, far.share) == (0.75, 0.65) and 0 < far.seconds_left <= 2
    assert after({"time": 9.0, "phase": "load", "left": None}).step is None, "another attempt"


def test_events_are_followed_by_whole_lines(store: Store, running: jobs.Job) -> None:
    assert jobs.events(store, running.run_id) == ([], 0)
    told(running, step(1), '{"half": ')
    found, place = jobs.events(store, running.run_id)
    assert [e["step"] for e in found] == [1]
    told(running, '"whole"}\n', step(2), "no json\n")
    assert (
        [list(e)[0] for e in jobs.events(store, running.run_id, place)[0]],
        jobs.events(store, running.run_id, 10**9)[0],
    ) == (["half", "time"], [])


def test_long_events_come_in_pieces(store: Store, running: jobs.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    told(running, *(step(n) for n in range(1, 100)), '{"half": ')
    monkeypatch.setattr(jobs.watch, "PIECE", 1000)
    found = list(jobs.pieces(store, running.run_id))
    assert [e["step"] for events, _ in found for e in events] == list(range(1, 100))
    assert found[-1][1] == jobs.events(store, running.run_id)[1]
    assert list(jobs.pieces(store, running.run_id, found[-1][1])) == []
    assert len(found) > 9


def test_a_step_told_twice_counts_once(store: Store, running: jobs.Job) -> None:
    told(running, step(1), step(2), step(3, loss=0.1), {"phase": "resume", "steps": 2}, step(3, loss=0.9), step(1, 2))
    assert [(e["search"], e["step"], e["loss"]) for e in jobs.steps(store, running.run_id)] == [
        (1, 1, 0.5), (1, 2, 0.5), (1, 3, 0.9), (2, 1, 0.5),
    ]  # fmt: skip


@pytest.mark.cases(4, 3)
@pytest.mark.parametrize(
    "change",
    [
        {"search": {}}, {"search": None}, {"step": [1]}, {"step": "1"}, {"total": True}, {"phase": 3}, {"size": None},
        {"left": 2.0, "time": None}, {"loss": "x"}, {"loss": float("inf")}, {"searches": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_event_is_passed_over(store: Store, running: jobs.Job, change: dict[str, Any]) -> None:
    good = step(1)
    told(running, good, step(2) | change)
    assert jobs.steps(store, running.run_id) == [good]
    far = jobs.progress(store, running.run_id)
    assert (far.step, far.total) == (1, 20)


@pytest.mark.parametrize("cwd", [3, [], "", "\0", "x" * 5000])
def test_a_launch_note_with_a_strange_folder_starts_from_this_one(store: Store, running: jobs.Job, cwd: Any) -> None:
    (running.path / "work" / "launch.json").write_text(json.dumps({"cwd": cwd}))
    assert jobs.status(store, running.run_id).status == "running"


def test_progress_reads_the_end_of_a_long_file_only(
    store: Store, running: jobs.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(running, *(step(n, total=9000) for n in range(1, 3000)))
    lines = Mock(wraps=jobs.watch._lines)
    monkeypatch.setattr(jobs.watch, "_lines", lines)
    assert jobs.progress(store, running.run_id).step == 2999 and lines.call_args_list[0].args[1] > 300_000


def test_the_log_has_an_end(store: Store, running: jobs.Job) -> None:
    log = running.path / "work" / "log.txt"
    log.write_text("".join(f"line {n}\n" for n in range(20_000)))
    assert jobs.log_tail(store, running.run_id, 2) == "line 19998\nline 19999"
    log.unlink()
    assert jobs.log_tail(store, running.run_id) == ""


def test_pipes_in_place_of_notes_keep_nobody_waiting(store: Store, running: jobs.Job) -> None:
    study = store.root / STUDIES / "one" / "study.json"
    study.parent.mkdir(parents=True)
    for path in (*(running.path / "work" / name for name in ("process.json", "launch.json", "events.jsonl")), study):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    with within(20):
        assert [job.name for job in jobs.list(store, finished=True)] == [running.name]
        jobs.progress(store, running.name)
        assert list_studies(store) == []


@pytest.mark.nightly
def test_the_check_is_torch_free() -> None:
    assert heavy_after("skillviz.jobs", control.__name__, "skillviz.commands.jobs", "skillviz.commands.work") == {}
