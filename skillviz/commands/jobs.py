"""`jobs`: list, watch, cancel and resume localizations and studies that run in the background. Without torch."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from skillviz import jobs
from skillviz.commands import options
from skillviz.commands.output import note, print_json, print_rows, progress_bar, say
from skillviz.commands.process import BAD_USE
from skillviz.core.formats import rough_seconds
from skillviz.jobs.job import Job, JobProgress
from skillviz.jobs.words import run_step, standing, status_words
from skillviz.runs.store import Store, option_of, store_root

app = typer.Typer(
    help="List, watch, cancel and resume localizations and studies that run in the background.", no_args_is_help=True
)
JobName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of one; or the name of a study.")
]
POLL = 0.5  # seconds between two looks


@app.command("list")
def list_jobs(
    runs_dir: options.RunsDir = None,
    every: Annotated[bool, typer.Option("--all", help="Include finished jobs.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """List jobs that are not finished, newest first, with their progress; studies in progress too."""
    store = Store(store_root(runs_dir))
    shown = [job for job in jobs.list(store, finished=every) if job.kind == "run" or job.is_open or job.error]
    progress = {job.name: jobs.progress(store, job.name) for job in shown}
    rows = [_row(job, progress[job.name]) for job in shown]
    if rows:
        print_rows("", ["run", "status", "where", "how far", "left", "why"], rows)
    else:
        say(f"No job is queued or running in {store.root}; `python -m skillviz localize --detach ...` starts a job.")
    if as_json:
        lists = {"jobs": "run", "studies": "study"}
        print_json(
            {key: [_json(job, progress[job.name]) for job in shown if job.kind == kind] for key, kind in lists.items()}
        )


@app.command()
def watch(run: JobName, runs_dir: options.RunsDir = None, as_json: options.AsJson = False) -> None:
    """Follow a job to its end. Ctrl-C stops the watching, not the job. Exit code 2 if the job did not finish."""
    store = Store(store_root(runs_dir))
    with progress_bar("waiting", is_whole=False) as advance:
        while (job := jobs.status(store, run)).is_open:
            progress = jobs.progress(store, job.name)
            is_counted = job.kind == "study" or progress.phase == "search"
            count = (progress.step or 0, progress.total) if is_counted else (0, None)
            advance(*count, _how_far(job, progress, has_count=False), progress.seconds_left)
            time.sleep(POLL)
    say(f"{job.name} {status_words(job.status)}.")
    if job.error:
        note(f"{job.error.kind}: {job.error.message} {job.error.hint}")
    for title, reason in job.failed_steps.items():
        note(f"{title}: {reason}")
    if as_json:
        print_json(_json(job, jobs.progress(store, job.name)))
    if job.status != "finished":
        raise typer.Exit(BAD_USE)


@app.command()
def cancel(run: JobName, runs_dir: options.RunsDir = None) -> None:
    """End a job within two seconds, or a study within a few; it can be resumed."""
    job = jobs.cancel(Store(store_root(runs_dir)), run)
    say(f"{job.name} is {job.status}{'; what is finished is kept' if job.kind == 'study' else ''}.")


@app.command()
def keep(run: JobName, runs_dir: options.RunsDir = None) -> None:
    """End a run's search after its present step; the region that it has is scored and stored, marked as stopped."""
    say(f"{jobs.keep(Store(store_root(runs_dir)), run).name} ends its search and scores the region that it has.")


@app.command()
def resume(run: JobName, runs_dir: options.RunsDir = None) -> None:
    """Resume a cancelled, killed or failed job from its last checkpoint; prints its id."""
    say(jobs.resume(Store(store_root(runs_dir)), run).name)


@app.command()
def log(
    run: JobName,
    runs_dir: options.RunsDir = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, metavar="N", help="How many lines, counted from the end.")
    ] = 50,
) -> None:
    """Print the end of a run's or study's log, and its status on stderr: its progress, or why it ended."""
    store = Store(store_root(runs_dir))
    if tail := jobs.log_tail(store, run, lines):
        say(tail)
    job = jobs.status(store, run)
    for sentence in standing(job, jobs.progress(store, job.name), option_of(store.root)):
        note(sentence)


def _row(job: Job, progress: JobProgress) -> list[str]:
    place = job.slot if job.kind == "run" else "a study"
    why = f"{job.error.kind}: {job.error.message} {job.error.hint}" if job.error else ""
    left = "" if progress.seconds_left is None else rough_seconds(progress.seconds_left)
    return [job.name, job.status, place, _how_far(job, progress) if job.is_open else "", left, why]


def _how_far(job: Job, progress: JobProgress, has_count: bool = True) -> str:
    """`searching: step 31 of 50, loss 0.412`; for a study, `step 4 of 31: localize film-sentiment`."""
    if job.kind == "study":
        if progress.step is None:
            return "starting"
        return f"step {progress.step + 1} of {progress.total}: {progress.title}"
    if job.status == "queued":
        return f"waiting, {job.position} before it" if job.position else "waiting"
    return run_step(progress, has_count)


def _json(job: Job, progress: JobProgress) -> dict[str, object]:
    """The job as a dictionary for --json."""
    if job.kind == "study":
        step = None if progress.step is None else progress.step + 1
        return {
            "study": job.name, "status": job.status, "path": str(job.path), "failed": job.failed_steps, "step": step,
            "steps": progress.total, "title": progress.title, "seconds_left": progress.seconds_left,
        }  # fmt: skip
    fields = {name: value for name, value in vars(progress).items() if name != "title"}
    return {
        "run_id": job.name, "status": job.status, "slot": job.slot, "position": job.position, "path": str(job.path),
        "error": job.error.model_dump() if job.error else None, "progress": fields,
    }  # fmt: skip
