"""Start, list, cancel and resume jobs. All state is in the run folders, so any process may ask, at any time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from skillviz.atomic import write_text
from skillviz.errors import StoreError
from skillviz.jobs.backend import LOCAL, Backend
from skillviz.jobs.job import Job
from skillviz.jobs.slots import LAUNCH, SLOTS, give_up_ticket, position, slot_in, slot_of, take_ticket
from skillviz.models.preflight import preflight
from skillviz.runs.folder import CANCEL, OPEN, WORK, RunFolder
from skillviz.runs.library import library
from skillviz.runs.record import RunRecord
from skillviz.runs.region_expression import NAME, by_hand
from skillviz.runs.run import read_record
from skillviz.runs.spec import RunSpec, parse_size
from skillviz.runs.store import Store, Unreadable, is_awaited, written
from skillviz.runs.transfer import refuse_unfit
from skillviz.tasks import registry


def start(spec: RunSpec, store: Store, device: str | None = None, backend: Backend = LOCAL) -> Job:
    """A queued job that makes the run of `spec` (on `device`, where one is named); returns at once.

    What headers and the task's file tell is checked first: raises a SkillvizError and leaves no folder where
    the pair, the task or a size cannot be used.
    """
    if device is not None:
        spec = spec.model_copy(update={"device": device})
    size, task = checked(spec, store)
    folder = store.create(spec, size=size, task=task)
    _launch(store, folder, Path.cwd(), backend)
    return status(store, folder.id)


def checked(spec: RunSpec, store: Store) -> tuple[int, str]:
    """The main size in entries and the task's name; raises the first thing that stands against the run.

    A region made by hand may name runs of the store and those that ship.
    """
    task = registry.task(spec.task)
    refuse_unfit(task, {name: registry.task(name) for name in spec.others})
    found = preflight(spec.base, spec.finetuned, task, spec.readout)
    found.raise_first()
    if spec.localizer == NAME and found.table is not None:
        return by_hand(spec.options, found.table, library(store.root)).size, task.name
    sizes = [parse_size(size, found.d or 0) for size in spec.sizes]
    return sizes[0], task.name


def listed(store: Store, finished: bool = False) -> Sequence[Job]:
    """The jobs of a store, newest first: queued, running, failed and cancelled ones, `finished` ones on request."""
    found = [job_of(store, entry.path, entry.record) for entry in store.unfinished()]
    if finished:
        found += [job_of(store, run.path, run.record) for run in store.list()]
    return sorted(found, key=lambda job: (job.record.created, job.run_id), reverse=True)


def status(store: Store, run_id: str) -> Job:
    """The job of this id or unique prefix as it is now; raises RunNotFound."""
    found = store.look(run_id)
    return job_of(store, found.path, read_record(found.path) if isinstance(found, Unreadable) else found.record)


def cancel(store: Store, run_id: str, backend: Backend = LOCAL) -> Job:
    """The job after its end, within two seconds: cancelled, or what it had become by itself just before.

    Raises StoreError where it neither waits nor runs.
    """
    job = status(store, run_id)
    if not job.is_open:
        raise StoreError(f"run {job.run_id} is {job.status}: only a queued or running job can be cancelled.")
    with written(store.root):
        (job.path / WORK / CANCEL).touch()  # seen by a process that starts just now
    backend.cancel(job.path)
    folder = RunFolder(job.path)
    if folder.record.status in OPEN:
        folder.cancel()
    give_up_ticket(store.root, job.run_id)
    return status(store, job.run_id)


def resume(store: Store, run_id: str, backend: Backend = LOCAL) -> Job:
    """The job, queued again: it goes on from its last checkpoint, bit for bit, or begins anew without one.

    Raises StoreError where it is finished, waits or runs, or the store cannot be written.
    """
    lock = FileLock(store.root / SLOTS / "resume.lock")  # of two who ask at once, one is told that it is queued
    with written(store.root):
        (store.root / SLOTS).mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        job = status(store, run_id)
        if not job.is_resumable:
            raise StoreError(f"run {job.run_id} is {job.status}: only a failed or cancelled one can be resumed.")
        folder = RunFolder(job.path)
        with written(store.root):
            folder.reopen()
        _launch(store, folder, _cwd(folder), backend)
    finally:
        lock.release()
    return status(store, job.run_id)


def job_of(store: Store, path: Path, record: RunRecord) -> Job:
    """A run's record as a job, with its place in the queue."""
    slot = slot_in(path, record.spec.device)
    waits = record.status in OPEN and is_awaited(path)
    return Job(path, record, slot, position(store.root, slot, record.run_id) if waits else None)


def _launch(store: Store, folder: RunFolder, cwd: Path, backend: Backend) -> None:
    """Takes the place in the queue, then starts the process that waits for its turn."""
    slot = slot_of(folder.record.spec.device)
    with written(store.root):
        write_text(folder.work / LAUNCH, json.dumps({"cwd": str(cwd), "slot": slot}))
        take_ticket(store.root, slot, folder.id)
        folder.log(f"queued for {slot}")
    backend.start(folder.path, cwd)


def _cwd(folder: RunFolder) -> Path:
    """The folder that the run's relative paths start from; this process's where that one is gone."""
    try:
        cwd = Path(json.loads((folder.work / LAUNCH).read_text(encoding="utf-8"))["cwd"])
    except (OSError, ValueError, KeyError):
        return Path.cwd()
    return cwd if cwd.is_dir() else Path.cwd()
