"""Fixtures of jobs on a tiny pair; each test ends the processes that it started, by process number."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skillviz import jobs
from tests.runs.conftest import world
from tests.runs.tiny_world import Run, RunSpec, Store, spec_of

LONG = 300.0  # seconds: processes are slow on a busy machine
STEPS = 1500


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store; jobs still alive at the end are cancelled."""
    found = Store(tmp_path / "runs")
    yield found
    for job in jobs.list(found):
        if job.is_open:
            jobs.cancel(found, job.name)


def long_spec(world: Path, **changes: Any) -> RunSpec:
    """Return stagewise on the tiny pair, with these fields changed: some seconds, and it can be cut in the middle."""
    return spec_of(
        world, **{"localizer": "stagewise", "steps": STEPS, "batch_size": 4, "sizes": ("5%", "1%"), **changes}
    )


@pytest.fixture(scope="session")
def whole(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the same run made without interruption, in this process, with a job's number of threads."""
    import torch

    from skillviz.runs.produce import produce

    before = torch.get_num_threads()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        return produce(long_spec(world), Store(tmp_path_factory.mktemp("whole")))
    finally:
        torch.set_num_threads(before)


def until(holds: Callable[[], Any], seconds: float = LONG) -> Any:
    """Return the first true answer of `holds`; fail the test at the time limit."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if found := holds():
            return found
        time.sleep(0.05)
    raise AssertionError(f"nothing after {seconds:.0f} s")


def ended(store: Store, run_id: str, seconds: float = LONG) -> jobs.Job:
    """Return the job once it neither waits nor runs; check that no partial run is listed meanwhile."""

    def over() -> jobs.Job | None:
        listed = {run.id for run in store.list()}
        job = jobs.status(store, run_id)
        assert store.unreadable() == [] and (job.run_id not in listed or job.status == "finished")
        return None if job.is_open else job

    return until(over, seconds)


def stepped(store: Store, run_id: str, least: int = 1) -> Callable[[], bool]:
    """Return a check that a job's search has made at least this many steps."""

    def holds() -> bool:
        job = jobs.status(store, run_id)
        assert job.is_open, (job.status, job.error, jobs.log_tail(store, run_id))
        return (jobs.progress(store, run_id).step or 0) >= least

    return holds
