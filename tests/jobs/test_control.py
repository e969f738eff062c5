"""Tests of starting, cancelling and resuming with a backend that starts nothing; watching uses only files."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from skillviz import jobs
from skillviz.errors import BadInput, BadSize, ModelNotFound, RunNotFound, StoreError, UnknownTask
from skillviz.jobs import backend, control
from skillviz.runs.folder import RunFolder
from skillviz.runs.liveness import let_go
from skillviz.runs.record import Failure
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.store import FOLDER as STUDIES
from skillviz.studies.store import list_studies
from tests.patience import within
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_pair


class Paper:
    """A backend that only records the jobs it would start and cancel."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Path]] = []
        self.cancelled: list[str] = []

    def refuse(self) -> None:
        pass

    def start(self, folder: Path, words: Sequence[str], cwd: Path) -> None:
        assert list(words) == ["work", str(folder.resolve())]
        self.started.append((folder.name, cwd))

    def cancel(self, folder: Path) -> None:
        self.cancelled.append(folder.name)


@pytest.fixture
def paper() -> Paper:
    return Paper()


def test_a_job_is_queued_with_the_size_it_will_have(store: Store, world: Path, paper: Paper) -> None:
    one = jobs.start(spec_of(world), store, backend=paper)
    two = jobs.start(spec_of(world), store, device="cuda:1", backend=paper)
    three = jobs.start(spec_of(world), store, backend=paper)
    assert one.run_id.startswith("tiny-base-movement-222-s0-")
    assert [(j.slot, j.position) for j in (one, two, three)] == [("cpu", 0), ("cuda-1", 0), ("cpu", 1)]
    assert paper.started == [(j.run_id, Path.cwd()) for j in (one, two, three)]
    assert {j.run_id for j in jobs.list(store)} == {j.run_id for j in (one, two, three)}
    assert jobs.status(store, one.run_id[:-2]).spec == spec_of(world)
    assert jobs.progress(store, one.run_id).phase == "queued"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"sizes": ("5%", "200%")}, BadSize),
        ({"base": "/nowhere"}, ModelNotFound),
        ({"task": "sst3"}, UnknownTask),
        ({"others": ("sst3",)}, UnknownTask),
        ({"others": ("sst2",)}, BadInput),
        ({"localizer": "learned", "lean": True}, BadInput),
    ],
)
def test_what_cannot_be_used_is_said_before_there_is_a_folder(
    store: Store, world: Path, paper: Paper, changes: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        jobs.start(spec_of(world, **changes), store, backend=paper)
    assert paper.started == [] and not store.root.exists()


def test_what_a_localizer_cannot_be_used_with_is_said_before_there_is_a_folder(
    store: Store, world: Path, paper: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_pair(tmp_path, "opt", "causal")
    task = str(Path(__file__).parents[2] / "docs" / "examples" / "tell-place.yaml")
    for name in ("linearized", "fisher"):
        with pytest.raises(BadInput, match="a text that is generated has one reference"):
            jobs.start(spec_of(tmp_path, localizer=name, task=task), store, backend=paper)
    monkeypatch.setattr("skillviz.models.preflight.is_padded", lambda *_: True)
    with pytest.raises(BadInput, match=r"lean mode reads .* different numbers of rows"):
        jobs.start(spec_of(world, lean=True), store, backend=paper)
    assert paper.started == [] and not store.root.exists()


def test_a_store_that_cannot_be_written_is_one_sentence(
    store: Store, world: Path, paper: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    for root in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(StoreError, match="cannot be written .*SKILLVIZ_RUNS"):
            jobs.start(spec_of(world), Store(root), backend=paper)
    job = jobs.start(spec_of(world), store, backend=paper)
    RunFolder(job.path).fail(Failure(kind="bug", message="m", hint="h"))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("mkdir", "touch", "unlink"):
        monkeypatch.setattr(Path, name, refuse)
    monkeypatch.setattr(os, "rename", refuse)
    for act in (
        lambda: jobs.resume(store, job.run_id, backend=paper),
        lambda: store.set_note(job.run_id, "seen"),
        lambda: store.delete(job.run_id),
    ):
        with pytest.raises(StoreError, match="Read-only file system"):
            act()
    assert len(paper.started) == 1


def test_cancelled_by_whoever_asks(store: Store, world: Path, paper: Paper) -> None:
    job = jobs.start(spec_of(world), store, backend=paper)
    cut = jobs.cancel(store, job.run_id, backend=paper)
    assert cut.status == "cancelled" and cut.position is None and paper.cancelled == [job.run_id]
    assert not list((store.root / ".slots" / "cpu").glob("*-*"))
    with pytest.raises(StoreError, match="is cancelled"):
        jobs.cancel(store, job.run_id, backend=paper)
    with pytest.raises(RunNotFound):
        jobs.cancel(store, "nothing", backend=paper)


def test_an_error_on_the_way_out_is_no_failure(store: Store, world: Path, paper: Paper) -> None:
    """SIGTERM may interrupt an import or a kernel with any kind of error; the job still counts as cancelled."""
    job = jobs.start(spec_of(world), store, backend=paper)
    folder = RunFolder(job.path)
    (folder.work / "cancel").touch()
    folder.give_up(Failure(kind="bug", message="m", hint="h"))
    assert jobs.status(store, job.run_id).status == "cancelled"


def test_resumed_from_the_folder_it_was_started_in(
    store: Store, world: Path, paper: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_in = Path.cwd()
    job = jobs.start(spec_of(world), store, backend=paper)
    with pytest.raises(StoreError, match="is queued"):
        jobs.resume(store, job.run_id, backend=paper)
    RunFolder(job.path).fail(Failure(kind="bug", message="m", hint="h"))
    (job.path / "curve.parquet").write_text("half")
    monkeypatch.chdir(tmp_path)
    again = jobs.resume(store, job.run_id, backend=paper)
    assert (again.status, again.error, again.position) == ("queued", None, 0)
    assert paper.started[1:] == [(job.run_id, begun_in)] and not (job.path / "curve.parquet").exists()


def test_a_queued_job_whose_process_died_or_never_came_has_failed(store: Store, world: Path, paper: Paper) -> None:
    job = jobs.start(spec_of(world), store, backend=paper)
    then = time.time() - 3600
    os.utime(job.path / "run.json", (then, then))
    assert jobs.status(store, job.run_id).error.kind == "killed" and jobs.status(store, job.run_id).is_resumable
    jobs.resume(store, job.run_id, backend=paper)
    assert RunFolder(job.path).belongs_to_this_process() and jobs.status(store, job.run_id).status == "queued"
    let_go(job.path / "work")
    assert jobs.status(store, job.run_id).error.kind == "killed"
    (job.path / "work" / "process.json").write_text('{"pid": 1, "host": "elsewhere"}')
    unknown = jobs.status(store, job.run_id)
    assert (unknown.status, unknown.error.kind, unknown.is_open) == ("unknown", "unknown", False)
    with pytest.raises(StoreError, match="is unknown: only a queued or running job can be cancelled"):
        jobs.cancel(store, job.run_id, backend=paper)
    assert jobs.resume(store, job.run_id, backend=paper).status == "queued"


def told(job: jobs.Job, *events: object) -> None:
    lines = [event if isinstance(event, str) else json.dumps(event) + "\n" for event in events]
    with (job.path / "work" / "events.jsonl").open("a") as file:
        file.write("".join(lines))


def step(number: int, search: int = 1, **values: object) -> dict[str, object]:
    said = {"loss": 0.5, "size": 9, "added": 2, "removed": 1, "total": 10, "searches": 2, "left": 60.0}
    return {"time": time.time(), "phase": "search", "step": number, "search": search, "target": 9, **said, **values}


@pytest.fixture
def running(store: Store, world: Path, paper: Paper) -> jobs.Job:
    """Return a job that runs in this process."""
    job = jobs.start(spec_of(world), store, backend=paper)
    RunFolder(job.path).start()
    yield job
    RunFolder(job.path).cancel()


def test_progress_is_the_latest_that_was_told(store: Store, running: jobs.Job) -> None:
    assert jobs.progress(store, running.run_id) == jobs.JobProgress("check")
    told(running, {"time": 1.0, "phase": "load", "left": None})
    assert jobs.progress(store, running.run_id) == jobs.JobProgress("load")
    told(running, {"time": 2.0, "phase": "search", "left": None}, step(4), step(3, search=2, loss=None))
    far = jobs.progress(store, running.run_id)
    assert (far.phase, far.step, far.total, far.loss, far.added, far.share) == ("search", 13, 20, None, 2, 0.65)
    assert 55 < far.seconds_left <= 60
    told(running, {"time": time.time() - 5, "phase": "evaluate", "left": 2.0})
    far = jobs.progress(store, running.run_id)
    assert (far.phase, far.step, far.seconds_left) == ("evaluate", 13, 0.0), "late: longer than was measured"
    told(running, {"time": time.time(), "phase": "evaluate", "step": 30, "total": 40, "left": 2.0})
    far = jobs.progress(store, running.run_id)
    assert far.scored == 0.75 and 0 < far.seconds_left <= 2 and far.share == 0.65
    told(running, {"time": 9.0, "phase": "load", "left": None})
    assert jobs.progress(store, running.run_id).step is None, "another attempt"


def test_events_are_followed_by_whole_lines(store: Store, running: jobs.Job) -> None:
    assert jobs.events(store, running.run_id) == ([], 0)
    told(running, step(1), '{"half": ')
    found, place = jobs.events(store, running.run_id)
    assert [e["step"] for e in found] == [1]
    told(running, '"whole"}\n', step(2), "no json\n")
    assert [list(e)[0] for e in jobs.events(store, running.run_id, place)[0]] == ["half", "time"]
    assert jobs.events(store, running.run_id, 10**9)[0] == []


def test_long_events_come_in_pieces(store: Store, running: jobs.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    told(running, *(step(n) for n in range(1, 100)), '{"half": ')
    monkeypatch.setattr(jobs.watch, "PIECE", 1000)
    found = list(jobs.pieces(store, running.run_id))
    assert [e["step"] for events, _ in found for e in events] == list(range(1, 100)) and len(found) > 9
    assert found[-1][1] == jobs.events(store, running.run_id)[1]
    assert list(jobs.pieces(store, running.run_id, found[-1][1])) == []


def test_a_step_told_twice_counts_once(store: Store, running: jobs.Job) -> None:
    told(running, step(1), step(2), step(3, loss=0.1), {"phase": "resume", "steps": 2}, step(3, loss=0.9), step(1, 2))
    assert [(e["search"], e["step"], e["loss"]) for e in jobs.steps(store, running.run_id)] == [
        (1, 1, 0.5), (1, 2, 0.5), (1, 3, 0.9), (2, 1, 0.5),
    ]  # fmt: skip


def test_progress_reads_the_end_of_a_long_file_only(
    store: Store, running: jobs.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(running, *(step(n, total=9000) for n in range(1, 3000)))
    read: list[int] = []
    real = jobs.watch._lines
    monkeypatch.setattr(jobs.watch, "_lines", lambda path, since: (read.append(since), real(path, since))[1])
    assert jobs.progress(store, running.run_id).step == 2999
    assert read[0] > 300_000


def test_the_log_has_an_end(store: Store, running: jobs.Job) -> None:
    (running.path / "work" / "log.txt").write_text("".join(f"line {n}\n" for n in range(20_000)))
    assert jobs.log_tail(store, running.run_id, 2) == "line 19998\nline 19999"
    (running.path / "work" / "log.txt").unlink()
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
    from tests.test_torch_free import heavy_after

    assert heavy_after("skillviz.jobs", control.__name__, "skillviz.commands.jobs", "skillviz.commands.work") == {}
