"""Read jobs from their folders: the list of jobs, and each one's status, events, progress and log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz import json_text
from skillviz.core.composition import COLUMNS
from skillviz.jobs.job import Event, Job, JobProgress, Kind
from skillviz.jobs.kinds import TAIL, RunJob, StudyJob, end_of
from skillviz.regular_file import regular
from skillviz.runs.folder import EVENTS, GROWING, LOG, WORK
from skillviz.runs.run import Run, read_record
from skillviz.runs.store import Store, Unfinished, Unreadable
from skillviz.studies.store import FILE, FOLDER, study_folders

COUNTS = ("step", "total", "search", "searches", "target", "size", "added", "removed", "of")
AMOUNTS = ("time", "left", "loss")
TOGETHER = {"total": ("step",), "left": ("time",), "of": ("step", "title")}
SEARCH_STEP = ("step", "search", "searches", "size", "added", "removed")
"""The fields of an event: whole numbers, other numbers, fields that require others, and fields of every search step."""
PIECE = 1 << 20  # bytes of events that are read at a time


def listed(store: Store, finished: bool = False, kind: Kind | None = None) -> Sequence[Job]:
    """The jobs of a store, of one kind if given: studies by name, then runs, the newest first.

    Finished jobs are included only on request.
    """
    studies = [StudyJob.of(path) for path in _study_folders(store)] if kind != "run" else []
    jobs: list[Job] = [job for job in studies if finished or job.status != "finished"]
    if kind != "study":
        jobs += [
            run_job(store, entry) for entry in newest_first([*store.unfinished(), *(store.list() if finished else ())])
        ]
    return jobs


def newest_first(entries: Iterable[Run | Unfinished]) -> list[Run | Unfinished]:
    """The runs, sorted as in a list of jobs."""
    return sorted(entries, key=lambda entry: (entry.record.created, entry.id), reverse=True)


def run_job(store: Store, entry: Run | Unfinished) -> Job:
    """The job of a run as it is now."""
    return RunJob.of(store.root, entry.path, entry.record)


def status(store: Store, name: str) -> Job:
    """The current job of this name (see `folder_of`); raises RunNotFound."""
    path = folder_of(store, name)
    if path.parent == store.root / FOLDER:
        return StudyJob.of(path)
    entry = store.look(path.name)
    return RunJob.of(store.root, path, read_record(path) if isinstance(entry, Unreadable) else entry.record)


def folder_of(store: Store, name: str) -> Path:
    """The folder of a job, named by a run's id, a study's name or folder, or the unique beginning of a run's id.

    If several match, the kind of name that is listed first here wins. Raises RunNotFound.
    """
    if not store.has(name):
        for path in _study_folders(store):
            if name in (path.name, StudyJob.of(path).name):
                return path
    return store.root / store.resolve(name)


def _study_folders(store: Store) -> list[Path]:
    return list(study_folders(store, FILE))


def events(store: Store, run_id: str, since: int = 0) -> tuple[list[Event], int]:
    """The events of a run after byte `since`, and the byte to continue from at the next call.

    Empty once the run is finished: its history is then a table of the run. See `steps` for the searches alone.
    """
    return _lines(folder_of(store, run_id) / WORK / EVENTS, since)


def pieces(store: Store, run_id: str, since: int = 0) -> Iterator[tuple[list[Event], int]]:
    """The events as in `events`, in parts of a long file, each with the byte to continue from."""
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
    """The progress of a job, from its latest events."""
    job = status(store, name)
    if job.status != "running":
        return JobProgress(job.status)
    path = job.path / WORK / EVENTS
    latest, _ = _lines(path, max(0, path.stat().st_size - TAIL) if path.is_file() else 0)
    return job.progress(latest)


def growing(store: Store, run_id: str) -> tuple[Event, pd.DataFrame] | None:
    """The region that a running search has so far: its step, total, target and loss, and its entries by parameter and
    kind (`core.composition`); None if there is none."""
    path = folder_of(store, run_id) / WORK / GROWING
    try:
        drawn = dict(json_text.read(path))
        layers = pd.DataFrame(drawn.pop("layers")).astype({"layer": "Int64", "selected": "int64", "total": "int64"})
        counts = (drawn["step"], drawn["target"], drawn["total"] or 0)
    except (OSError, ValueError, TypeError, KeyError):  # the search has not begun or is over
        return None
    is_whole = set(layers) == set(COLUMNS) and all(type(count) is int for count in counts)
    return (drawn, layers) if is_whole else None


def log_tail(store: Store, name: str, lines: int = 50) -> str:
    """The last lines of a job's log, finished or not."""
    path = folder_of(store, name) / WORK / LOG
    return "\n".join(end_of(path).splitlines()[-lines:]) if path.is_file() else ""


def _lines(path: Path, since: int, most: int = -1) -> tuple[list[Event], int]:
    """The complete lines of JSON after a byte, and the byte after the last of them; a half-written line is left for
    later.

    Reads at most `most` bytes if that is not negative.
    """
    try:
        with regular(path).open("rb") as file:
            file.seek(since)
            content = file.read(most)
    except FileNotFoundError:
        return [], since
    whole = content[: content.rfind(b"\n") + 1]
    events = []
    for line in whole.splitlines():
        with suppress(ValueError):  # the rest of a line that the tail begins within, or a line that a kill cut short
            events.append(json_text.loads(line))
    return [event for event in events if _is_event(event)], since + len(whole)


def _is_event(event: Any) -> bool:
    """True if a line is a valid event: a mapping whose numbers are finite, with all fields that belong together."""
    if not isinstance(event, dict) or not isinstance(event.get("phase") or "", str):
        return False
    needed = [name for first, names in TOGETHER.items() if event.get(first) is not None for name in names]
    needed += SEARCH_STEP if event.get("phase") == "search" and "step" in event else ()
    given = [name for name in (*COUNTS, *AMOUNTS) if event.get(name) is not None]
    return (
        all(type(event.get(name)) in (int, float) for name in given)
        and all(type(event[name]) is int for name in given if name in COUNTS)
        and all(event.get(name) is not None for name in needed)
        and all(math.isfinite(event[name]) for name in given)
    )
