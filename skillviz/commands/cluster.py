"""`--cluster`: run a command on the cluster and wait for it in the terminal, if it is not a job of the Jobs page."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from skillviz.commands.output import note, say
from skillviz.commands.process import BAD_USE
from skillviz.core import formats
from skillviz.errors import NoCluster, advice
from skillviz.jobs.slurm import SLURM_BACKEND
from skillviz.runs import slurm_queue
from skillviz.runs.folder import LOG, WORK
from skillviz.runs.liveness import end_on_cluster, is_alive, jobs_of, unname
from skillviz.runs.store import written

FOLDER = ".cluster"
"""In the folder of runs: one folder for each command that waits for its job."""
EVERY = 2.0  # seconds between two looks


def run_there(root: Path) -> None:
    """Runs this command as a job of the cluster and shows its output, until it ends; Ctrl-C cancels it.

    The same command, given again while the job is open, follows that job. Raises NoCluster or typer.Exit if the job
    does not succeed.
    """
    SLURM_BACKEND.refuse()
    words, cwd = without_option(sys.argv[1:]), Path.cwd()
    name = hashlib.sha256("\0".join([str(cwd), *words]).encode()).hexdigest()[:12]
    folder = root.absolute() / FOLDER / f"{words[0]}-{name}"
    with written(root):
        (folder / WORK).mkdir(parents=True, exist_ok=True)
    place = 0
    if not is_alive(folder / WORK):
        unname(folder / WORK)
        (folder / WORK / LOG).unlink(missing_ok=True)
        SLURM_BACKEND.start(folder, words, cwd)
    job = jobs_of(folder / WORK)[0]
    note(
        f"Slurm job {job}. Ctrl-C cancels it; without this terminal it keeps running, and the same command follows it."
    )
    said = ""
    try:
        while is_alive(folder / WORK):
            place = _show(folder, place)
            if (standing := _waits(job)) not in ("", said):
                note(standing)
            said = standing
            time.sleep(EVERY)
    except KeyboardInterrupt:
        SLURM_BACKEND.cancel(folder)
        raise
    _show(folder, place)
    _end(folder, job)


def without_option(words: Sequence[str]) -> list[str]:
    """The words of a command line without --cluster and its value."""
    kept, is_value = list[str](), False
    for word in words:
        if not is_value and not word.startswith("--cluster="):
            is_value = word == "--cluster"
            kept += [] if is_value else [word]
        else:
            is_value = False
    return kept


def _waits(job: str) -> str:
    """The queue position of a waiting job as a sentence; empty if the job is not waiting."""
    waiting = slurm_queue.standing(job)
    if waiting is None:
        return ""
    before = formats.counted(slurm_queue.ahead(job) or 0, "job")
    return f"Waiting in {waiting.partition} ({waiting.reason}): {before} ahead of it."


def _show(folder: Path, place: int) -> int:
    """Prints the complete lines of the log after a byte; returns the byte to continue from."""
    log = folder / WORK / LOG
    if not log.is_file():
        return place
    with log.open("rb") as file:
        file.seek(place)
        content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    if whole:
        say(whole.decode("utf-8", errors="replace").rstrip("\n"))
    return place + len(whole)


def _end(folder: Path, job: str) -> None:
    """Raises an error if the job did not succeed."""
    state = end_on_cluster(folder / WORK)
    if (kind := slurm_queue.FAILURES.get(state or "")) is not None:
        raise NoCluster(f"the cluster ended job {job}: {kind}. {advice(kind).hint}")
    if state != "COMPLETED":
        note(f"Slurm job {job} ended as {state or 'unknown'}; its log is {folder / WORK / LOG}.")
        raise typer.Exit(BAD_USE)
