"""One job at a time on a device: a lock that its holder's death releases, and tickets that keep the order."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from skillviz.jobs.devices import automatic
from skillviz.runs.folder import WORK
from skillviz.runs.process import launch_of
from skillviz.runs.store import is_awaited, written

SLOTS = ".slots"
LOCK = "lock"
POLL = 0.1  # seconds between two looks at the queue
TICKET = re.compile(r"(\d{20})-(.+)")


def slot_of(device: str) -> str:
    """The device that a spec's `device` will take, without torch: cpu, cuda-0, cuda-1, ..."""
    name = automatic() if device == "auto" else device
    kind, _, number = name.partition(":")
    return "cpu" if kind == "cpu" else f"cuda-{number or 0}"


def slot_in(path: Path, device: str) -> str:
    """The device that the job in a run folder was queued for; where none is stored, what `device` takes."""
    return str(launch_of(path / WORK).get("slot") or slot_of(device))


def take_ticket(root: Path, slot: str, run_id: str) -> Path:
    """The place of a run at the end of its device's queue; one that it had before, and dead ones, are given up."""
    for old in _tickets(root):
        if old.run_id == run_id or not is_awaited(root / old.run_id):
            old.path.unlink(missing_ok=True)
    folder = root / SLOTS / slot
    folder.mkdir(parents=True, exist_ok=True)
    ticket = folder / f"{time.time_ns():020d}-{run_id}"
    ticket.touch()
    return ticket


def give_up_ticket(root: Path, run_id: str) -> None:
    """Takes a run out of every queue."""
    for ticket in _tickets(root):
        if ticket.run_id == run_id:
            ticket.path.unlink(missing_ok=True)


def queue(root: Path, slot: str) -> list[str]:
    """The runs that hold or wait for a device, first come first; those whose process is gone do not count."""
    return [ticket.run_id for ticket in _tickets(root, slot) if is_awaited(root / ticket.run_id)]


def position(root: Path, slot: str, run_id: str) -> int | None:
    """How many jobs are before this one; None where it is in no queue."""
    waiting = queue(root, slot)
    return waiting.index(run_id) if run_id in waiting else None


@contextmanager
def device_for_run(root: Path, slot: str, run_id: str, on_wait: Callable[[int], None]) -> Iterator[None]:
    """The device is this run's inside. Until then `on_wait` is called regularly with the number of jobs before it."""
    if position(root, slot, run_id) is None:
        take_ticket(root, slot, run_id)
    lock = FileLock(root / SLOTS / slot / LOCK)
    try:
        while not _acquired(lock, before := position(root, slot, run_id) or 0):
            on_wait(max(before, 1))
            time.sleep(POLL)
        yield
    finally:
        lock.release()
        give_up_ticket(root, run_id)


@contextmanager
def devices_for_study(root: Path, slots: Sequence[str], on_wait: Callable[[str], None]) -> Iterator[None]:
    """These devices are a study's inside; jobs wait. Until then `on_wait` is called with the one that is taken.

    A study stands in no queue: it takes a device between two jobs.
    """
    locks = [FileLock(root / SLOTS / slot / LOCK) for slot in sorted(set(slots))]
    try:
        for slot, lock in zip(sorted(set(slots)), locks, strict=True):
            with written(root):
                (root / SLOTS / slot).mkdir(parents=True, exist_ok=True)
            while not _acquired(lock, 0):
                on_wait(slot)
                time.sleep(POLL)
        yield
    finally:
        for lock in locks:
            lock.release()


def _acquired(lock: FileLock, before: int) -> bool:
    """Whether the lock is ours now. The tickets keep the order; the lock alone keeps two from running."""
    if before:
        return False
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True


class _Ticket(NamedTuple):
    """A file whose name says when a run was queued."""

    path: Path
    run_id: str


def _tickets(root: Path, slot: str = "*") -> list[_Ticket]:
    """All tickets, the oldest of each device first."""
    named = ((path, TICKET.fullmatch(path.name)) for path in sorted((root / SLOTS).glob(f"{slot}/*")))
    return [_Ticket(path, match[2]) for path, match in named if match]
