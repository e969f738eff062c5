"""The studies among the jobs: which are under way, and the one that a name given to `jobs` means."""

from __future__ import annotations

from skillviz import jobs
from skillviz.errors import RunNotFound
from skillviz.jobs.study_jobs import RUNNING, StudyJob, study_jobs
from skillviz.runs.store import Store


def under_way(store: Store) -> list[StudyJob]:
    """The studies of a store that run now, by name; who started them does not matter."""
    return [job for job in study_jobs(store) if job.state == RUNNING]


def meant(store: Store, name: str) -> StudyJob | None:
    """The study of this name, where it runs or no run is called so; None where a run is meant, or nothing known."""
    found = next((job for job in study_jobs(store) if name in (job.name, job.path.name)), None)
    if found is None or found.state == RUNNING:
        return found
    try:
        jobs.status(store, name)
    except RunNotFound:
        return found
    return None


def row(job: StudyJob) -> list[str]:
    """The study as a row of the list of jobs."""
    left = "" if job.left is None else f"{job.left:.0f} s"
    return [job.name, job.state, "a study", how_far(job), left, ""]


def how_far(job: StudyJob) -> str:
    """`step 4 of 31: localize film-sentiment`; of one that has not come to its first step, that it begins."""
    return "it begins" if job.step is None else f"step {job.step} of {job.steps}: {job.title}"


def as_json(job: StudyJob) -> dict[str, object]:
    """The study for a program."""
    told = {"study": job.name, "status": job.state, "path": str(job.path), "failed": job.failed}
    return {**told, "step": job.step, "steps": job.steps, "title": job.title, "seconds_left": job.left}
