"""The progress of a job in words, for its card on a page and for the terminal."""

from __future__ import annotations

from skillviz.core import formats
from skillviz.jobs.job import Job, JobProgress

PHASES = {
    "check": "starting",
    "load": "loading the models",
    "search": "searching",
    "predict": "scoring the two models",
    "evaluate": "scoring the grafts",
    "store": "storing the run",
}


def run_progress(progress: JobProgress) -> str:
    """`searching: step 31 of 50, loss 0.412, about 12 s left`."""
    return f"{run_step(progress)}, {formats.time_left(progress.seconds_left)}"


def run_step(progress: JobProgress, has_count: bool = True) -> str:
    """`searching: step 31 of 50, loss 0.412`; without the count if a progress bar next to it shows that."""
    phase = PHASES.get(progress.phase, progress.phase)
    if progress.phase != "search" or progress.step is None:
        return phase
    of = f" of {progress.total:,}" if progress.total else ""
    count = f": step {progress.step:,}{of}" if has_count else ""
    loss = "" if progress.loss is None else f", loss {formats.number(progress.loss)}"
    return f"{phase}{count}{loss}"


def study_progress(progress: JobProgress) -> str:
    """`step 4 of 31: localize sst2 with stagewise, about 3 min left`."""
    if progress.step is None:
        return "Starting: checking models and data, and waiting for the device."
    return f"step {progress.step + 1} of {progress.total}: {progress.title}, {formats.time_left(progress.seconds_left)}"


def status_words(status: str) -> str:
    """`is running`, `has failed`, `was cancelled`, `is unknown`."""
    verbs = {"finished": "has", "failed": "has", "stopped": "has", "cancelled": "was"}
    return f"{verbs.get(status, 'is')} {status}"


def ended_early(steps: int) -> str:
    """A sentence on how much of a study that ended early is finished."""
    if not steps:
        return "It stopped before finishing a step. Resuming starts over."
    return f"{formats.counted(steps, 'step')} finished before it stopped. It resumes from there."


def standing(job: Job, progress: JobProgress, option: str = "") -> list[str]:
    """The status of a job, one sentence per line: its progress, or how and why it ended.

    `option` is the option that names the folder of runs, added to commands if a terminal does not find it by itself.
    """
    first = f"{job.name} {status_words(job.status)}"
    if job.status == "queued":
        return [f"{first}: {formats.counted(job.position or 0, 'job')} ahead of it on {job.slot}."]
    if job.status == "running":
        return [f"{first}: {study_progress(progress) if job.kind == 'study' else run_progress(progress)}"]
    lines = [f"{first}."]
    if job.error is not None:
        lines.append(f"{job.error.kind}: {job.error.message} {job.error.hint}")
    lines += [f"{title}: {reason}" for title, reason in job.failed_steps.items()]
    if job.status in ("stopped", "cancelled") and job.kind == "study":
        lines.append(ended_early(job.finished_steps))
    if job.is_resumable:
        lines.append(f"`python -m skillviz jobs resume {job.name}{option}` resumes it.")
    return lines
