"""Following a job from its files: events, progress, log. Reading never disturbs the job."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillviz.jobs.control import status
from skillviz.jobs.job import JobProgress
from skillviz.runs.folder import EVENTS, LOG, WORK
from skillviz.runs.store import Store

PIECE = 1 << 20  # bytes of events that are read at a time
TAIL = 1 << 16  # bytes from the end of a file in which the latest is looked for
SAID = ("loss", "size", "added", "removed")


def events(store: Store, run_id: str, since: int = 0) -> tuple[list[dict[str, Any]], int]:
    """What a job told after byte `since` of its events, and the place to go on from at the next call.

    Empty once the run is finished: its history is then a table of the run. See `steps` for the searches alone.
    """
    return _lines(_work(store, run_id) / EVENTS, since)


def pieces(store: Store, run_id: str, since: int = 0) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """As `events`, a part of a long file at a time, each with the place to go on from."""
    path = _work(store, run_id) / EVENTS
    while (told := _lines(path, since, PIECE))[1] > since:
        yield told
        since = told[1]


def steps(store: Store, run_id: str) -> list[dict[str, Any]]:
    """The steps of the searches so far, each once: {target, step, total, loss, size, added, removed, time, ...}.

    A job that was resumed tells the steps after its checkpoint again; the later telling counts.
    """
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for event in events(store, run_id)[0]:
        if event.get("phase") == "search" and "step" in event:
            found[event["search"], event["step"]] = event
    return [found[place] for place in sorted(found)]


def progress(store: Store, run_id: str) -> JobProgress:
    """How far a job has come, from the latest that it told."""
    job = status(store, run_id)
    if not job.is_open or job.status == "queued":
        return JobProgress(job.status)
    path = job.path / WORK / EVENTS
    told, _ = _lines(path, max(0, path.stat().st_size - TAIL) if path.is_file() else 0)
    phases = [event for event in told if event.get("phase") not in (None, "resume")]
    if not phases:
        return JobProgress("check")
    last, step = phases[-1], _last_step(phases)
    left, scored = _left(last), _scored(last)
    if step is None:
        return JobProgress(last["phase"], seconds_left=left, scored=scored)
    said = {name: step[name] for name in SAID}
    return JobProgress(last["phase"], *_over_all(step), **said, seconds_left=left, scored=scored)


def log_tail(store: Store, run_id: str, lines: int = 50) -> str:
    """The last lines of a run's log, finished or not."""
    path = _work(store, run_id) / LOG
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def _last_step(told: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last step of the attempt under way."""
    for event in reversed(told):
        if event["phase"] == "load":
            return None
        if event["phase"] == "search" and "step" in event:
            return event
    return None


def _left(told: dict[str, Any]) -> float | None:
    """Seconds left by now; None where nothing was said, or more time has passed than was thought."""
    if told.get("left") is None:
        return None
    left = round(told["left"] - (time.time() - told["time"]), 1)
    return left if left > 0 else None


def _scored(told: dict[str, Any]) -> float | None:
    """How much of the scoring is done, 0 to 1."""
    return told["step"] / told["total"] if told["phase"] == "evaluate" and told.get("total") else None


def _over_all(step: dict[str, Any]) -> tuple[int, int | None]:
    """Steps done and in all, over the searches of the run: each takes as many."""
    total = step.get("total")
    if total is None:
        return step["step"], None
    return (step["search"] - 1) * total + step["step"], step["searches"] * total


def _work(store: Store, run_id: str) -> Path:
    return store.root / store.resolve(run_id) / WORK


def _lines(path: Path, since: int, most: int = -1) -> tuple[list[dict[str, Any]], int]:
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


def _event(line: bytes) -> dict[str, Any] | None:
    """One event; None for the rest of a line that a tail begins within, or that a kill cut short."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
