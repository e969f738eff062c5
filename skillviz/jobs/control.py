"""Start, cancel and resume jobs. All state is in the folders of runs and studies, so any process may do this."""

from __future__ import annotations

from pathlib import Path

from skillviz.errors import BadInput, NoCluster, StoreError
from skillviz.jobs.backend import LOCAL, Backend
from skillviz.jobs.job import Job
from skillviz.jobs.kinds import RunJob, StudyJob, backend_of
from skillviz.jobs.slots import kind_of
from skillviz.jobs.watch import growing, progress, status
from skillviz.runs.folder import RunFolder
from skillviz.runs.plan import checked_spec
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, library, written
from skillviz.serving import quota, read_only
from skillviz.serving.users import user_of
from skillviz.studies.check import check
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.status import Snapshot
from skillviz.studies.store import FILE, study_path
from skillviz.tasks import registry


def start(spec: RunSpec, store: Store, device: str | None = None, backend: Backend = LOCAL) -> Job:
    """Starts a queued job that makes the run of `spec` (on `device`, if given); returns at once.

    Headers and the task's file are checked first: raises a SkillvizError and leaves no folder if the pair, the task or
    a size cannot be used. Raises OverQuota if the store's user may start no new job.
    """
    read_only.refuse()
    quota.refuse_job(store)
    if device is not None:
        spec = spec.model_copy(update={"device": device})
    backend.refuse()
    session, device_kind = Session(), kind_of(spec.device) if backend is LOCAL else ""
    task = registry.task(spec.task)
    found = checked_spec(
        spec, task, session.other_tasks(spec), session.preflight(spec), library(store.root), device_kind
    )
    with quota.in_turn(store.root):  # of two calls at once, the later one sees a queued job
        quota.refuse_job(store)
        folder = store.create(spec, size=found.size or 0, task=task.name)
    try:
        RunJob.launch(store.root, folder, Path.cwd(), backend)
    except NoCluster:  # Slurm refused the job: there is nothing to resume
        store.delete(folder.id)
        raise
    return status(store, folder.id)


def start_study(file: Path | str, store: Store, workers: int = 1, backend: Backend = LOCAL) -> Job:
    """Starts a job that makes the study of a file with `workers` processes; returns at once.

    Files and headers are checked first: raises a SkillvizError if the study cannot be made, StoreError if it is already
    running. Relative paths in the file are relative to the working directory of this process.
    """
    read_only.refuse()
    refuse_study(store)
    backend.refuse()
    file = Path(file).absolute()
    return _launched(read_study(file), store, file, workers, backend)


def submit_study(study: StudySpec, store: Store, backend: Backend) -> Job:
    """Starts a job that makes a study on a cluster, from the study itself. See `start_study`."""
    read_only.refuse()
    refuse_study(store)
    backend.refuse()
    return _launched(study, store, study_path(store.root, study) / FILE, 1, backend)


def _launched(study: StudySpec, store: Store, file: Path, workers: int, backend: Backend) -> Job:
    check(Snapshot(study_plan(study), store))
    path = study_path(store.root, study)
    with quota.in_turn(store.root):  # of two calls at once, the later one sees a study that runs
        StudyJob.launch(store.root, path, study, file, Path.cwd(), workers, backend)
    return StudyJob.of(path)


def refuse_study(store: Store) -> None:
    """Raises BadInput if the store belongs to one of several users: a study would keep a device from all the others.

    Jobs take turns; a study keeps its devices until it ends.
    """
    if user_of(store.root):
        raise BadInput(
            "Studies cannot be started on a shared dashboard: each keeps the device from everybody for hours. Start "
            "single runs on Launch, or ask whoever runs the dashboard to make the study for all."
        )


def cancel(store: Store, name: str, backend: Backend | None = None) -> Job:
    """Cancels a job and returns it within two seconds: cancelled, or with the status in which it ended just before. A
    cluster takes longer.

    Raises StoreError if the job is neither queued nor running.
    """
    read_only.refuse()
    job = status(store, name)
    if not job.is_open:
        raise StoreError(f"{job.title} is {job.status}: only a queued or running job can be cancelled.")
    job.announce_cancel(store.root)
    (backend or backend_of(job)).cancel(job.path)
    job.close(store.root)
    return status(store, job.name)


def keep(store: Store, name: str) -> Job:
    """Ends the search of a running run, which then scores and stores the region that it has after its present step.

    The run is marked as stopped. Raises StoreError if the job is no run whose search is under way and has a region.
    """
    read_only.refuse()
    job = status(store, name)
    if job.kind != "run" or job.status != "running":
        raise StoreError(f"{job.title} is {job.status}: only the search of a running run can be ended with its region.")
    if job.run.spec.data_parallel > 1:
        raise StoreError(f"{job.title} searches with several processes, which can only be cancelled together.")
    if progress(store, job.name).phase != "search" or growing(store, job.name) is None:
        raise StoreError(
            f"{job.title} has no region to keep: its search has not begun, is over, or has none before its end."
        )
    with written(store.root):
        RunFolder(job.path).ask_to_keep()
    return job


def resume(store: Store, name: str, backend: Backend | None = None) -> Job:
    """Resumes a job in its folder, on the backend and from the working directory of its first start. A run continues
    from its last checkpoint, bit for bit, or starts over without one; a study continues with its unfinished steps, with
    the same number of processes.

    Raises StoreError if the job is finished, queued or running, or the store cannot be written; OverQuota if its user
    may start no job.
    """
    read_only.refuse()
    job = _resumable(store, name)
    chosen = backend or backend_of(job)
    chosen.refuse()
    job.check_resume(store.root)
    with quota.in_turn(store.root):  # of two calls at once, the later one sees a queued job
        job = _resumable(store, name)
        job.resume(store.root, chosen)
    return status(store, job.name)


def _resumable(store: Store, name: str) -> Job:
    quota.refuse_job(store)
    job = status(store, name)
    if not job.is_resumable:
        raise StoreError(f"{job.title} is {job.status}: only a failed, cancelled or stopped job can be resumed.")
    return job
