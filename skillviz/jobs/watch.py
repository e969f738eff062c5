"""Reading jobs from their folders: which there are, where each stands, its events, progress and log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from skillviz.errors import SkillvizError
from skillviz.jobs.job import Job, JobProgress, JobStatus, Kind
from skillviz.jobs.slots import position, slot_in
from skillviz.runs.folder import EVENTS, LOG, OPEN, WORK
from skillviz.runs.process import is_alive
from skillviz.runs.record import RunRecord
from skillviz.runs.run import read_record
from skillviz.runs.store import Store, Unreadable, is_awaited
from skillviz.studies.spec import read_study
from skillviz.studies.store import FILE, FOLDER, StudyRecord, open_study

PIECE = 1 << 20  # bytes of events that are read at a time
TAIL = 1 << 16  # bytes from the end of a file in which the latest is looked for
INTERRUPTED = "Interrupted."  # the last line that a command prints when it is asked to end

Event = dict[str, Any]


def listed(store: Store, finished: bool = False, kind: Kind | None = None) -> Sequence[Job]:
    """The jobs of a store, of one kind if given: studies by name, then runs, the newest first.

    Finished ones only on request.
    """
    studies = [study_job(path) for path in _study_folders(store)] if kind != "run" else []
    jobs = [job for job in studies if finished or job.status != "finished"]
    if kind != "study":
        runs = [_run_job(store, run.path, run.record) for run in store.unfinished()]
        runs += [_run_job(store, run.path, run.record) for run in (store.list() if finished else ())]
        jobs += sorted(runs, key=lambda job: (job.run.created, job.name), reverse=True)
    return jobs


def status(store: Store, name: str) -> Job:
    """The job of this name as it is now (see `folder_of`); raises RunNotFound."""
    path = folder_of(store, name)
    if path.parent == store.root / FOLDER:
        return study_job(path)
    entry = store.look(path.name)
    return _run_job(store, path, read_record(path) if isinstance(entry, Unreadable) else entry.record)


def folder_of(store: Store, name: str) -> Path:
    """The folder of a job, named by a run's id, a study's name or folder, or the unique beginning of a run's id.

    Where several match, the earliest in this list is meant. Raises RunNotFound.
    """
    if all(path.name != name for path in store.folders()):
        for path in _study_folders(store):
            if name in (path.name, study_job(path).name):
                return path
    return store.root / store.resolve(name)


def study_job(path: Path) -> Job:
    """A study's folder as a job."""
    folder = open_study(path)
    if folder is not None:
        return Job("study", folder.name, path, _study_status(path, folder.record), folder.record)
    try:
        name = read_study(path / FILE).name
    except SkillvizError:
        name = path.name
    return Job("study", name, path, _study_status(path, None))


def _study_folders(store: Store) -> list[Path]:
    return [file.parent for file in sorted((store.root / FOLDER).glob(f"*/{FILE}"))]


def _study_status(path: Path, record: StudyRecord | None) -> JobStatus:
    if is_alive(path / WORK):
        return "running"
    if record is None:  # it could not begin, unless it was never run or somebody ended it first
        log = path / WORK / LOG
        return "failed" if log.exists() and not _tail(log).rstrip().endswith(INTERRUPTED) else "stopped"
    ended: dict[str, JobStatus] = {"finished": "finished", "failed": "failed", "cancelled": "cancelled"}
    return ended.get(record.status, "stopped")


def _run_job(store: Store, path: Path, record: RunRecord) -> Job:
    """A run's record as a job, with its place in the queue."""
    slot = slot_in(path, record.spec.device)
    waits = record.status in OPEN and is_awaited(path)
    place = position(store.root, slot, record.run_id) if waits else None
    return Job("run", record.run_id, path, record.status, record, slot, place)


def events(store: Store, run_id: str, since: int = 0) -> tuple[list[Event], int]:
    """The events of a run after byte `since`, and the byte to continue from at the next call.

    Empty once the run is finished: its history is then a table of the run. See `steps` for the searches alone.
    """
    return _lines(folder_of(store, run_id) / WORK / EVENTS, since)


def pieces(store: Store, run_id: str, since: int = 0) -> Iterator[tuple[list[Event], int]]:
    """As `events`, a part of a long file at a time, each with the byte to continue from."""
    path = folder_of(store, run_id) / WORK / EVENTS
    while (piece := _lines(path, since, PIECE))[1] > since:
        yield piece
        since = piece[1]


def steps(store: Store, run_id: str) -> list[Event]:
    """The steps of a run's searches so far, each once: {target, step, total, loss, size, added, removed, time, ...}.

    A resumed job repeats the steps after its checkpoint; the later event counts.
    """
    latest: dict[tuple[int, int], Event] = {}
    for event in events(store, run_id)[0]:
        if event.get("phase") == "search" and "step" in event:
            latest[event["search"], event["step"]] = event
    return [latest[place] for place in sorted(latest)]


def progress(store: Store, name: str) -> JobProgress:
    """How far a job has come, from its latest events."""
    job = status(store, name)
    if job.status != "running":
        return JobProgress(job.status)
    path = job.path / WORK / EVENTS
    latest, _ = _lines(path, max(0, path.stat().st_size - TAIL) if path.is_file() else 0)
    return _run_progress(latest) if job.kind == "run" else _study_progress(latest)


def log_tail(store: Store, name: str, lines: int = 50) -> str:
    """The last lines of a job's log, finished or not."""
    path = folder_of(store, name) / WORK / LOG
    return "\n".join(_tail(path).splitlines()[-lines:]) if path.is_file() else ""


def _study_progress(events: list[Event]) -> JobProgress:
    """From the step under way; without one the study is still looking at models and data, or waits for its device."""
    last = next((event for event in reversed(events) if "step" in event), None)
    if last is None:
        return JobProgress("check")
    left = _seconds_left(last)
    left = None if left is None else max(0.0, left)  # 0: longer than estimated
    return JobProgress("steps", last["step"] - 1, last["of"], seconds_left=left, title=last["title"])


def _run_progress(events: list[Event]) -> JobProgress:
    phases = [event for event in events if event.get("phase") not in (None, "resume")]
    if not phases:
        return JobProgress("check")
    last, step = phases[-1], _last_step(phases)
    left = _seconds_left(last)
    left = left if left is not None and left > 0 else None
    scored = last["step"] / last["total"] if last["phase"] == "evaluate" and last.get("total") else None
    if step is None:
        return JobProgress(last["phase"], seconds_left=left, scored=scored)
    done, total = step["step"], step.get("total")
    if total is not None:  # over the searches of the run: each takes as many
        done, total = (step["search"] - 1) * total + done, step["searches"] * total
    latest = {name: step[name] for name in ("loss", "size", "added", "removed")}
    return JobProgress(last["phase"], done, total, **latest, seconds_left=left, scored=scored)


def _last_step(phases: list[Event]) -> Event | None:
    """The last search step of the attempt under way."""
    for event in reversed(phases):
        if event["phase"] == "load":
            return None
        if event["phase"] == "search" and "step" in event:
            return event
    return None


def _seconds_left(event: Event) -> float | None:
    """Seconds left by now, below 0 where more time has passed than was estimated; None where nothing was."""
    left = event.get("left")
    return None if left is None else round(left - (time.time() - event["time"]), 1)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read().decode("utf-8", errors="replace")


def _lines(path: Path, since: int, most: int = -1) -> tuple[list[Event], int]:
    """The whole lines of JSON after a byte, and the byte after the last of them; a half-written one is left.

    Of at most so many bytes, where a limit is given.
    """
    try:
        with path.open("rb") as file:
            file.seek(since)
            content = file.read(most)
    except FileNotFoundError:
        return [], since
    whole = content[: content.rfind(b"\n") + 1]
    return [event for line in whole.splitlines() if (event := _event(line))], since + len(whole)


def _event(line: bytes) -> Event | None:
    """One event; None for the rest of a line that a tail begins within, or that a kill cut short."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
