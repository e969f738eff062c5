"""Start, cancel and resume jobs. All state is in the folders of runs and studies, so any process may call."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from skillviz.atomic import write_text
from skillviz.core.localizers.table import EXPRESSION
from skillviz.core.size import parse_size
from skillviz.errors import StoreError
from skillviz.jobs.backend import LOCAL, Backend
from skillviz.jobs.job import Job
from skillviz.jobs.slots import LAUNCH, SLOTS, give_up_ticket, slot_of, take_ticket
from skillviz.jobs.watch import status, study_job
from skillviz.models.preflight import preflight
from skillviz.runs.folder import CANCEL, EVENTS, OPEN, WORK, RunFolder
from skillviz.runs.library import library
from skillviz.runs.process import PROCESS, is_alive
from skillviz.runs.region_expression import resolved_expression
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, written
from skillviz.runs.transfer import refuse_unfit
from skillviz.studies.check import check
from skillviz.studies.cores import cores, workers_for
from skillviz.studies.plan import plan
from skillviz.studies.spec import read_study
from skillviz.studies.status import Snapshot
from skillviz.studies.store import FILE, StudyRecord, study_path
from skillviz.tasks import registry


def start(spec: RunSpec, store: Store, device: str | None = None, backend: Backend = LOCAL) -> Job:
    """A queued job that makes the run of `spec` (on `device`, where one is named); returns at once.

    Headers and the task's file are checked first: raises a SkillvizError and leaves no folder where the pair, the task
    or a size cannot be used.
    """
    if device is not None:
        spec = spec.model_copy(update={"device": device})
    size, task = checked(spec, store)
    folder = store.create(spec, size=size, task=task)
    _launch_run(store, folder, Path.cwd(), backend)
    return status(store, folder.id)


def start_study(file: Path | str, store: Store, workers: int = 1, backend: Backend = LOCAL) -> Job:
    """A running job that makes the study of a file with `workers` processes; returns at once.

    Files and headers are checked first: raises a SkillvizError where the study cannot be made, StoreError where it
    runs already. Relative names in it start from this process's folder.
    """
    file = Path(file).absolute()
    study = read_study(file)
    check(Snapshot(plan(study), store))
    path = study_path(store.root, study)
    if is_alive(path / WORK):
        raise StoreError(f"the study '{study.name}' is running; wait for it, or cancel it.")
    with written(store.root):
        (path / WORK).mkdir(parents=True, exist_ok=True)
        if not (path / FILE).exists():
            write_text(path / FILE, study.yaml_text())
        (path / WORK / EVENTS).unlink(missing_ok=True)
        words = ["study", "run", str(file), "--runs-dir", str(store.root.absolute()), "--workers", str(workers)]
        backend.start(path, words, Path.cwd())
    return study_job(path)


def checked(spec: RunSpec, store: Store) -> tuple[int, str]:
    """The main size in entries and the task's name; raises the first thing that stands against the run.

    A region made by hand may name runs of the store and those that ship.
    """
    task = registry.task(spec.task)
    refuse_unfit(task, {name: registry.task(name) for name in spec.others})
    report = preflight(spec.base, spec.finetuned, task, spec.readout)
    report.raise_first()
    if spec.localizer == EXPRESSION and report.table is not None:
        return resolved_expression(spec.options, report.table, library(store.root)).size, task.name
    sizes = [parse_size(size, report.d or 0) for size in spec.sizes]
    return sizes[0], task.name


def cancel(store: Store, name: str, backend: Backend = LOCAL) -> Job:
    """The job after its end, within two seconds: cancelled, or what it had become by itself just before.

    Raises StoreError where it neither waits nor runs.
    """
    job = status(store, name)
    if not job.is_open:
        raise StoreError(f"{job.title} is {job.status}: only a queued or running job can be cancelled.")
    if job.kind == "run":
        with written(store.root):
            (job.path / WORK / CANCEL).touch()  # seen by a process that starts just now
    backend.cancel(job.path)
    if job.kind == "run":
        folder = RunFolder(job.path)
        if folder.record.status in OPEN:
            folder.cancel()
        give_up_ticket(store.root, job.name)
    elif not is_alive(job.path / WORK):
        with suppress(OSError):
            (job.path / WORK / PROCESS).unlink(missing_ok=True)
    return status(store, job.name)


def resume(store: Store, name: str, backend: Backend = LOCAL) -> Job:
    """The job, started again. A run continues from its last checkpoint, bit for bit, or starts over without one.

    A study continues with what is not finished, with as many processes as before. Raises StoreError where the job is
    finished, waits or runs, or the store cannot be written.
    """
    lock = FileLock(store.root / SLOTS / "resume.lock")  # of two calls at once, the later one sees a queued job
    with written(store.root):
        (store.root / SLOTS).mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        job = status(store, name)
        if not job.is_resumable:
            raise StoreError(f"{job.title} is {job.status}: only a failed, cancelled or stopped job can be resumed.")
        if job.kind == "study":
            file, record = job.path / FILE, job.record
            usual = workers_for(read_study(file), cores())
            return start_study(file, store, record.workers if isinstance(record, StudyRecord) else usual, backend)
        folder = RunFolder(job.path)
        with written(store.root):
            folder.reopen()
        _launch_run(store, folder, _cwd(folder), backend)
    finally:
        lock.release()
    return status(store, job.name)


def _launch_run(store: Store, folder: RunFolder, cwd: Path, backend: Backend) -> None:
    """Takes the place in the queue, then starts the process that waits for its turn."""
    slot = slot_of(folder.record.spec.device)
    with written(store.root):
        write_text(folder.work / LAUNCH, json.dumps({"cwd": str(cwd), "slot": slot}))
        take_ticket(store.root, slot, folder.id)
        folder.log(f"queued for {slot}")
    backend.start(folder.path, ["work", str(folder.path.resolve())], cwd)
    if not folder.is_open:  # it was so fast that it is done
        (folder.work / PROCESS).unlink(missing_ok=True)


def _cwd(folder: RunFolder) -> Path:
    """The folder that the run's relative paths start from; this process's where that one is gone."""
    try:
        cwd = Path(json.loads((folder.work / LAUNCH).read_text(encoding="utf-8"))["cwd"])
    except (OSError, ValueError, KeyError):
        return Path.cwd()
    return cwd if cwd.is_dir() else Path.cwd()
