"""`jobs`: list, watch, cancel and resume localizations and studies that run on their own. Nothing imports torch."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from skillviz import jobs
from skillviz.commands import options as given
from skillviz.commands import study_jobs as of_studies
from skillviz.commands.exit_codes import BAD_USE
from skillviz.commands.output import note, print_json, print_rows, progress_bar, say
from skillviz.jobs import study_jobs
from skillviz.jobs.job import Job, JobProgress
from skillviz.jobs.study_jobs import FINISHED, RUNNING, StudyJob
from skillviz.runs.store import Store, store_root

app = typer.Typer(
    help="List, watch, cancel and resume localizations and studies that run on their own.", no_args_is_help=True
)
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of one; or the name of a study.")
]
POLL = 0.5  # seconds between two looks


@app.command("list")
def list_jobs(
    runs_dir: given.RunsDir = None,
    every: Annotated[bool, typer.Option("--all", help="Also the finished ones.")] = False,
    as_json: given.AsJson = False,
) -> None:
    """List what waits, runs, failed or was cancelled, newest first, with how far it has come; studies under way too."""
    store = Store(store_root(runs_dir))
    found = [(job, jobs.progress(store, job.run_id)) for job in jobs.list(store, finished=every)]
    studies = of_studies.under_way(store)
    rows = [*map(of_studies.row, studies), *(_row(job, far) for job, far in found)]
    print_rows("", ["run", "status", "where", "how far", "left", "why"], rows)
    if not rows:
        say(f"Nothing waits or runs in {store.root}; `python -m skillviz localize --detach ...` starts a job.")
    if as_json:
        told = [_json(job, far) for job, far in found]
        print_json({"jobs": told, "studies": [of_studies.as_json(job) for job in studies]})


@app.command()
def watch(run: RunName, runs_dir: given.RunsDir = None, as_json: given.AsJson = False) -> None:
    """Follow a job to its end; Ctrl-C stops the watching, not the job. Exit code 2 where it did not finish."""
    store = Store(store_root(runs_dir))
    if study := of_studies.meant(store, run):
        _watch_study(store, study, as_json)
        return
    with progress_bar("waiting") as advance:
        while (job := jobs.status(store, run)).is_open:
            far = jobs.progress(store, job.run_id)
            advance(far.step or 0, far.total, _text(job, far))
            time.sleep(POLL)
    say(f"{job.run_id} is {job.status}.")
    if job.error:
        note(f"{job.error.kind}: {job.error.message} {job.error.hint}")
    if as_json:
        print_json(_json(job, jobs.progress(store, job.run_id)))
    if job.status != "finished":
        raise typer.Exit(BAD_USE)


def _watch_study(store: Store, job: StudyJob, as_json: bool) -> None:
    with progress_bar("waiting") as advance:
        while (job := study_jobs.study_job(store, job.path.name)).state == RUNNING:
            advance((job.step or 1) - 1, job.steps, of_studies.how_far(job))
            time.sleep(POLL)
    say(f"{job.name} is {job.state}.")
    for title, reason in job.failed.items():
        note(f"{title}: {reason}")
    if as_json:
        print_json(of_studies.as_json(job))
    if job.state != FINISHED:
        raise typer.Exit(BAD_USE)


@app.command()
def cancel(run: RunName, runs_dir: given.RunsDir = None) -> None:
    """End a job within two seconds, or a study within a few; it can be resumed."""
    store = Store(store_root(runs_dir))
    if study := of_studies.meant(store, run):
        ended = study_jobs.cancel_study(store, study.path.name)
        say(f"{ended.name} is {ended.state}; what is finished is kept.")
        return
    job = jobs.cancel(store, run)
    say(f"{job.run_id} is {job.status}.")


@app.command()
def resume(run: RunName, runs_dir: given.RunsDir = None) -> None:
    """Go on with a job that was cancelled, killed or failed, from its last checkpoint; prints its id."""
    store = Store(store_root(runs_dir))
    if study := of_studies.meant(store, run):
        say(study_jobs.resume_study(store, study.path.name).name)
        return
    job = jobs.resume(store, run)
    say(job.run_id)


@app.command()
def log(
    run: RunName,
    runs_dir: given.RunsDir = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, metavar="N", help="How many, from the end.")] = 50,
) -> None:
    """Print the end of a run's or study's log."""
    store = Store(store_root(runs_dir))
    study = of_studies.meant(store, run)
    say(study_jobs.study_log(store, study.path.name, lines) if study else jobs.log_tail(store, run, lines))


def _row(job: Job, far: JobProgress) -> list[str]:
    place = f"{job.slot}, {job.position} before it" if job.position and job.status == "queued" else job.slot
    why = f"{job.error.kind}: {job.error.message} {job.error.hint}" if job.error else ""
    left = "" if far.seconds_left is None else f"{far.seconds_left:.0f} s"
    return [job.run_id, job.status, place, _far(far) if job.is_open else "", left, why]


def _far(far: JobProgress) -> str:
    of = "" if far.total is None else f" of {far.total:,}"
    return far.phase if far.step is None else f"{far.phase}, step {far.step:,}{of}"


def _text(job: Job, far: JobProgress) -> str:
    if job.status == "queued":
        return f"waiting, {job.position or 0} before it"
    loss = "" if far.loss is None else f", loss {far.loss:.3f}"
    return f"{far.phase}{loss}"


def _json(job: Job, far: JobProgress) -> dict[str, object]:
    error = job.error.model_dump() if job.error else None
    place = {"run_id": job.run_id, "status": job.status, "slot": job.slot, "position": job.position}
    return {**place, "path": str(job.path), "error": error, "progress": vars(far)}
