"""Tests of jobs as real processes: watched, cancelled, killed, orphaned, resumed, queued."""

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
from tests.cli.calls import call
from tests.jobs.conftest import STEPS, Run, Store, ended, long_spec, spec_of, stepped, until
from tests.refused import refuses


def process_of(job: jobs.Job) -> psutil.Process:
    return psutil.Process(json.loads((job.path / "work" / "process.json").read_text())["pid"])


def cancelled(store: Store, job: jobs.Job) -> jobs.Job:
    """Cancel a job, which is done within two and a half seconds."""
    begun = time.monotonic()
    cut = jobs.cancel(store, job.run_id)
    assert time.monotonic() - begun < 2.5
    assert cut.status == "cancelled"
    assert cut.is_resumable
    assert cut.error is None
    assert store.list() == []
    return cut


def resumes_like(whole: Run, store: Store, job: jobs.Job) -> None:
    """Resume a job; assert that it finds the region of the whole run in the same steps, each logged once."""
    assert jobs.resume(store, job.run_id).status == "queued"
    done, log = ended(store, job.run_id), jobs.log_tail(store, job.run_id)
    assert done.status == "finished", (done.error, log)
    run = store.open(job.run_id)
    columns = ["target", "step", "loss", "size", "added", "removed"]
    pd.testing.assert_frame_equal(whole.history()[columns], run.history()[columns])
    assert np.array_equal(whole.ranking(), run.ranking())
    assert whole.region() == run.region()
    assert whole.record.notes == run.record.notes
    assert store.verify(run.id) == []
    assert ([p.name for p in (run.path / "work").iterdir()], jobs.progress(store, run.id).phase) == (
        ["log.txt"],
        "finished",
    ) and "resuming after" in log


@pytest.mark.slow
@pytest.mark.nightly
def test_a_job_is_watched_cancelled_and_resumed_as_if_never_cut(store: Store, world: Path, whole: Run) -> None:
    job = jobs.start(long_spec(world), store)
    assert (job.status, job.position) == ("queued", 0) and job.run_id.startswith("tiny-base-stagewise-222-s0-")
    until(stepped(store, job.run_id, 20))
    process, first = process_of(job), jobs.progress(store, job.run_id)
    assert os.getpgid(process.pid) == process.pid and process.pid != os.getpgid(0), "a group of its own"
    assert first.phase == "search"
    assert first.total == 2 * STEPS
    assert 0 < first.share < 1
    assert None not in (first.loss, first.size, first.seconds_left)
    until(stepped(store, job.run_id, first.step + 20))
    _, place = jobs.events(store, job.run_id)
    assert until(lambda: jobs.events(store, job.run_id, place)[0])[0]["step"] > first.step
    refuses(StoreError, "only a failed, cancelled or stopped job", jobs.resume, store, job.run_id)

    cancelled(store, job)
    assert (
        not process.is_running()
        and (job.path / "work" / CHECKPOINT).is_file()
        and not json.loads((job.path / "run.json").read_text())["files"]
    )
    refuses(StoreError, "only a queued or running job", jobs.cancel, store, job.run_id)
    resumes_like(whole, store, job)


@pytest.mark.slow
@pytest.mark.nightly
def test_kill_9_shows_as_killed_and_the_job_goes_on(
    store: Store, world: Path, whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(state_file.ENVIRONMENT, "0.05")
    job = jobs.start(long_spec(world), store)
    until((job.path / "work" / CHECKPOINT).is_file)
    os.kill(process_of(job).pid, signal.SIGKILL)
    killed = ended(store, job.run_id)
    assert (killed.status, killed.error.kind) == ("failed", "killed") and "jobs resume" in killed.error.hint
    assert store.list() == store.unreadable() == [] and jobs.steps(store, job.run_id)
    resumes_like(whole, store, job)


@pytest.mark.slow
@pytest.mark.nightly
def test_two_jobs_on_a_device_queue_and_both_finish(store: Store, world: Path) -> None:
    """The first job is started by a process that is killed with its group, and continues; the second waits for it."""
    spec = long_spec(world, steps=600, sizes=("5%",))
    code = (
        "import os, signal, sys; from skillviz import jobs; from skillviz.runs.spec import RunSpec\n"
        "from skillviz.runs.store import Store\n"
        "job = jobs.start(RunSpec.model_validate_json(sys.argv[1]), Store(sys.argv[2]))\n"
        "print(job.run_id, flush=True)\n"
        "os.killpg(0, signal.SIGKILL)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code, spec.model_dump_json(), str(store.root)],
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    said = call(
        "localize", "--base", spec.base, "--finetuned", spec.finetuned, "--task", spec.task, "--size", "9",
        "--method", "movement", "--device", "cpu", "--runs-dir", store.root, "--detach",
    )  # fmt: skip
    assert (parent.returncode, said.code) == (-signal.SIGKILL, 0)
    first, second = parent.stdout.strip(), said.out.strip().splitlines()[-1]
    until(stepped(store, first))
    waiting = jobs.status(store, second)
    assert (waiting.status, waiting.position, jobs.status(store, first).position) == ("queued", 1, 0)
    listed = call("jobs", "list", "--runs-dir", store.root, "--json")
    assert (
        sorted(job["run_id"] for job in listed.json["jobs"]) == sorted([first, second]) and "1 before it" in listed.out
    )
    one, two = ended(store, first), ended(store, second)
    assert (one.status, two.status) == ("finished", "finished"), jobs.log_tail(store, second)
    assert one.record.finished <= two.record.started, "one at a time"
    assert {run.id for run in store.list()} == {first, second}
    assert until(lambda: not list((store.root / ".slots" / "cpu").glob("[0-9]*"))), "a ticket is left after its job"


@pytest.mark.slow
@pytest.mark.nightly
def test_a_waiting_job_is_cancelled(store: Store, world: Path) -> None:
    first = jobs.start(long_spec(world, steps=100_000), store)
    until(stepped(store, first.run_id))
    waiting = jobs.start(spec_of(world), store)
    until((waiting.path / "work" / "process.json").is_file)
    cancelled(store, waiting)
    assert jobs.status(store, first.run_id).is_open
    never_named = jobs.start(spec_of(world), store)  # cancelled before its process has read its arguments
    assert [jobs.cancel(store, job.run_id).status for job in (never_named, first)] == ["cancelled"] * 2
    time.sleep(1)
    assert jobs.status(store, never_named.run_id).status == "cancelled" and store.list() == []


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.nightly
def test_a_failure_shows_its_class_and_what_to_do(store: Store, world: Path, tmp_path: Path) -> None:
    own = shutil.copytree(world, tmp_path / "world")
    (own / "train.jsonl").write_text('{"text": "a", "label": 7}\n')
    job = jobs.start(spec_of(own), store)
    failed = ended(store, job.run_id)
    assert failed.status == "failed"
    assert failed.error.kind == "BadData"
    assert failed.error.hint
    assert "BadData" in jobs.log_tail(store, job.run_id)
    shutil.copy(world / "train.jsonl", own)
    assert call("jobs", "resume", job.run_id, "--runs-dir", store.root).out.strip() == job.run_id
    watched = call("jobs", "watch", job.run_id, "--runs-dir", store.root, "--json")
    assert watched.code == 0 and watched.json["status"] == "finished", watched.err
    refuses(StoreError, "finished", jobs.resume, store, job.run_id)


@pytest.mark.gpu
def test_a_job_on_a_gpu_is_cancelled_resumed_and_finished(store: Store, world: Path) -> None:
    job = jobs.start(long_spec(world), store, device="cuda")
    assert job.slot == "cuda-0" and job.position == 0
    until(stepped(store, job.run_id, 20))
    assert jobs.cancel(store, job.run_id).status == "cancelled" and (job.path / "work" / CHECKPOINT).is_file()
    assert jobs.resume(store, job.run_id).slot == "cuda-0"
    done = ended(store, job.run_id)
    assert done.status == "finished", (done.error, jobs.log_tail(store, job.run_id))
    run = store.open(job.run_id)
    assert (run.record.device or "").startswith("cuda (")
    assert store.verify(run.id) == []
    assert all(check.passed for check in run.record.checks)
    assert "resuming after" in jobs.log_tail(store, run.id)


@pytest.mark.gpu
def test_a_job_with_recorded_passes_finds_the_region_of_one_without(store: Store, world: Path) -> None:
    jobs_of = [jobs.start(long_spec(world, steps=5, cuda_graphs=graphs), store, device="cuda") for graphs in (0, 1)]
    ends = [ended(store, job.run_id) for job in jobs_of]
    assert {end.status for end in ends} == {"finished"}, jobs.log_tail(store, jobs_of[1].run_id)
    plain, recorded = (store.open(job.run_id).region() for job in jobs_of)
    assert plain.iou(recorded) > 0.9


@pytest.mark.gpu
def test_auto_is_queued_for_the_gpu_that_it_takes(store: Store, world: Path) -> None:
    job = jobs.start(long_spec(world, steps=5), store, device="auto")
    assert (job.slot, ended(store, job.run_id).status) == ("cuda-0", "finished") and (
        store.open(job.run_id).record.device or ""
    ).startswith("cuda (")
