"""Test of a job on a CUDA device: started, watched, cancelled, resumed, finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz import jobs
from skillviz.runs.checkpoint import CHECKPOINT
from skillviz.runs.store import Store
from tests.jobs.conftest import ended, long_spec, stepped, until

pytestmark = pytest.mark.gpu


def test_a_job_on_a_gpu_is_cancelled_resumed_and_finished(store: Store, world: Path) -> None:
    job = jobs.start(long_spec(world), store, device="cuda")
    assert job.slot == "cuda-0" and job.position == 0
    until(stepped(store, job.run_id, 20))
    assert jobs.cancel(store, job.run_id).status == "cancelled" and (job.path / "work" / CHECKPOINT).is_file()
    assert jobs.resume(store, job.run_id).slot == "cuda-0"
    done = ended(store, job.run_id)
    assert done.status == "finished", (done.error, jobs.log_tail(store, job.run_id))
    run = store.open(job.run_id)
    assert (run.record.device or "").startswith("cuda (") and store.verify(run.id) == []
    assert all(check.passed for check in run.record.checks) and "resuming after" in jobs.log_tail(store, run.id)


def test_a_job_with_recorded_passes_finds_the_region_of_one_without(store: Store, world: Path) -> None:
    jobs_of = [jobs.start(long_spec(world, steps=5, cuda_graphs=graphs), store, device="cuda") for graphs in (0, 1)]
    ends = [ended(store, job.run_id) for job in jobs_of]
    assert {end.status for end in ends} == {"finished"}, jobs.log_tail(store, jobs_of[1].run_id)
    plain, recorded = (store.open(job.run_id).region() for job in jobs_of)
    assert plain.iou(recorded) > 0.9


def test_auto_is_queued_for_the_gpu_that_it_takes(store: Store, world: Path) -> None:
    job = jobs.start(long_spec(world, steps=5), store, device="auto")
    assert job.slot == "cuda-0"
    assert ended(store, job.run_id).status == "finished"
    assert (store.open(job.run_id).record.device or "").startswith("cuda (")
