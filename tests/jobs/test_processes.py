"""Tests of jobs as real processes: watched, cancelled, killed, orphaned, resumed, queued."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from skillviz import jobs
from skillviz.errors import StoreError
from skillviz.models import state_file
from skillviz.runs.checkpoint import CHECKPOINT
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.cli.calls import call
from tests.jobs.conftest import STEPS, ended, long_spec, stepped, until
from tests.runs.tiny_world import spec_of

pytestmark = pytest.mark.slow


def process_of(job: jobs.Job) -> psutil.Process:
    """Return the process that a running job names."""
    return psutil.Process(json.loads((job.path / "work" / "process.json").read_text())["pid"])


def same(one: Run, other: Run) -> None:
    """Assert that both runs found the same region in the same steps, each logged once."""
    assert np.array_equal(one.ranking(), other.ranking()) and one.region() == other.region()
    columns = ["target", "step", "loss", "size", "added", "removed"]
    pd.testing.assert_frame_equal(one.history()[columns], other.history()[columns])
    assert one.record.notes == other.record.notes


@pytest.mark.nightly
def test_a_job_is_watched_cancelled_and_resumed_as_if_never_cut(store: Store, long: RunSpec, whole: Run) -> None:
    job = jobs.start(long, store)
    assert job.status == "queued" and job.position == 0 and job.run_id.startswith("tiny-base-stagewise-222-s0-")
    until(stepped(store, job.run_id, 20))
    process = process_of(job)
    assert os.getpgid(process.pid) == process.pid and process.pid != os.getpgid(0), "a group of its own"
    first = jobs.progress(store, job.run_id)
    assert (first.phase, first.total) == ("search", 2 * STEPS) and first.loss is not None and first.size is not None
    assert first.seconds_left is not None and 0 < first.share < 1
    until(stepped(store, job.run_id, first.step + 20))
    _, place = jobs.events(store, job.run_id)
    later = until(lambda: jobs.events(store, job.run_id, place)[0])
    assert later[0]["step"] > first.step
    with pytest.raises(StoreError, match="only a failed, cancelled or stopped job"):
        jobs.resume(store, job.run_id)

    begun = time.monotonic()
    cut = jobs.cancel(store, job.run_id)
    assert time.monotonic() - begun < 2.5
    assert cut.status == "cancelled" and cut.is_resumable and cut.error is None and not process.is_running()
    assert store.list() == [] and (job.path / "work" / CHECKPOINT).is_file()
    assert not json.loads((job.path / "run.json").read_text())["files"]
    with pytest.raises(StoreError, match="only a queued or running job"):
        jobs.cancel(store, job.run_id)

    assert jobs.resume(store, job.run_id).status == "queued"
    done = ended(store, job.run_id)
    assert done.status == "finished", (done.error, jobs.log_tail(store, job.run_id))
    run = store.open(job.run_id)
    same(whole, run)
    assert store.verify(run.id) == [] and [p.name for p in (run.path / "work").iterdir()] == ["log.txt"]
    assert "resuming after" in jobs.log_tail(store, run.id)
    assert jobs.progress(store, run.id).phase == "finished"


@pytest.mark.nightly
def test_kill_9_shows_as_killed_and_the_job_goes_on(
    store: Store, long: RunSpec, whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(state_file.ENVIRONMENT, "0.05")
    job = jobs.start(long, store)
    until((job.path / "work" / CHECKPOINT).is_file)
    os.kill(process_of(job).pid, signal.SIGKILL)
    killed = ended(store, job.run_id)
    assert (killed.status, killed.error.kind) == ("failed", "killed") and "jobs resume" in killed.error.hint
    assert store.list() == [] and store.unreadable() == []
    before = len(jobs.steps(store, job.run_id))
    jobs.resume(store, job.run_id)
    assert ended(store, job.run_id).status == "finished"
    same(whole, store.open(job.run_id))
    assert "resuming after" in jobs.log_tail(store, job.run_id) and before > 0


@pytest.mark.nightly
def test_two_jobs_on_a_device_queue_and_both_finish(store: Store, world: Path, tmp_path: Path) -> None:
    """The first job is started by a process that is killed with its group, and continues; the second waits for it."""
    spec = long_spec(world, steps=600, sizes=("5%",))
    code = (
        "import os, signal, sys; from skillviz import jobs; from skillviz.runs.spec import RunSpec\n"
        "from skillviz.runs.store import Store\n"
        "job = jobs.start(RunSpec.model_validate_json(sys.argv[1]), Store(sys.argv[2]))\n"
        "print(job.run_id, flush=True)\n"
        "os.killpg(0, signal.SIGKILL)"
    )
    words = [sys.executable, "-c", code, spec.model_dump_json(), str(store.root)]
    parent = subprocess.run(words, capture_output=True, text=True, start_new_session=True)
    assert parent.returncode == -signal.SIGKILL
    first = parent.stdout.strip()
    said = call(
        "localize", "--base", spec.base, "--finetuned", spec.finetuned, "--task", spec.task, "--size", "9",
        "--method", "movement", "--device", "cpu", "--runs-dir", store.root, "--detach",
    )  # fmt: skip
    assert said.code == 0
    second = said.out.strip().splitlines()[-1]
    until(stepped(store, first))
    waiting = jobs.status(store, second)
    assert (waiting.status, waiting.position, jobs.status(store, first).position) == ("queued", 1, 0)
    listed = call("jobs", "list", "--runs-dir", store.root, "--json")
    assert [job["run_id"] for job in listed.json["jobs"]] == [second, first] or len(listed.json["jobs"]) == 2
    assert "1 before it" in listed.out
    one, two = ended(store, first), ended(store, second)
    assert (one.status, two.status) == ("finished", "finished"), jobs.log_tail(store, second)
    assert one.record.finished <= two.record.started, "one at a time"
    assert {run.id for run in store.list()} == {first, second}
    tickets = store.root / ".slots" / "cpu"
    assert until(lambda: not list(tickets.glob("[0-9]*"))), "a ticket is left after its job"


@pytest.mark.nightly
def test_a_waiting_job_is_cancelled_and_a_failed_one_resumed(store: Store, world: Path, tmp_path: Path) -> None:
    jobs_before = jobs.start(long_spec(world, steps=100_000), store)
    until(stepped(store, jobs_before.run_id))
    waiting = jobs.start(spec_of(world), store)
    until((waiting.path / "work" / "process.json").is_file)
    begun = time.monotonic()
    assert jobs.cancel(store, waiting.run_id).status == "cancelled"
    assert time.monotonic() - begun < 2.5 and jobs.status(store, jobs_before.run_id).is_open
    never_named = jobs.start(spec_of(world), store)  # cancelled before its process has read its arguments
    assert jobs.cancel(store, never_named.run_id).status == "cancelled"
    assert jobs.cancel(store, jobs_before.run_id).status == "cancelled"
    time.sleep(1)
    assert jobs.status(store, never_named.run_id).status == "cancelled" and store.list() == []


def test_a_process_that_dies_before_it_says_a_word_is_noticed_at_once(
    store: Store, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("skillviz.jobs.backend.sys.executable", shutil.which("false"))
        job = jobs.start(spec_of(world), store)
    killed = until(lambda: (found := jobs.status(store, job.run_id)).is_resumable and found, 30)
    assert (killed.status, killed.error.kind) == ("failed", "killed")
    jobs.resume(store, job.run_id)
    assert ended(store, job.run_id).status == "finished"


@pytest.mark.nightly
def test_a_failure_shows_its_class_and_what_to_do(store: Store, world: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for path in world.glob("*.jsonl"):
        (data / path.name).write_text(path.read_text())
    (data / "task.yaml").write_text((world / "task.yaml").read_text())
    good = (data / "train.jsonl").read_text()
    (data / "train.jsonl").write_text('{"text": "a", "label": 7}\n')
    job = jobs.start(spec_of(world, task=str(data / "task.yaml")), store)
    failed = ended(store, job.run_id)
    assert (failed.status, failed.error.kind) == ("failed", "BadData") and failed.error.hint
    assert "BadData" in jobs.log_tail(store, job.run_id)
    (data / "train.jsonl").write_text(good)
    assert call("jobs", "resume", job.run_id, "--runs-dir", store.root).out.strip() == job.run_id
    watched = call("jobs", "watch", job.run_id, "--runs-dir", store.root, "--json")
    assert watched.code == 0 and watched.json["status"] == "finished", watched.err
    with pytest.raises(StoreError, match="finished"):
        jobs.resume(store, job.run_id)
