"""One job at a time on a device: a lock that is released when its holder dies, and tickets that keep the order.

All users of a deployment share one queue, in the shared store, and take turns in it: next is the first job of the user
whose last turn is the longest ago. So many jobs of one user do not delay another user's first. One user's own jobs run
in the order in which they were queued.

    .slots/<device>/<number>-<user>~<run> a ticket: a run that waits; without `<user>~` in a store without users
    .slots/<device>/000...-<user>~<run>   the run that has the device
    .slots/<device>/served-<user>         holds the number of the user's last turn
    .slots/<device>/lock                  held by the process that has the device
    .slots/<device>/numbers.lock          held while a number is drawn

Tickets and turns are numbered in one sequence: a clock may be set back, or differ between machines.
"""

from __future__ import annotations

import heapq
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from filelock import BaseFileLock, Timeout

from skillviz.atomic import write_text
from skillviz.errors import DiskFull
from skillviz.jobs.devices import automatic
from skillviz.locks import lock_at
from skillviz.runs.folder import WORK
from skillviz.runs.process import launch_of
from skillviz.runs.store import is_awaited, written
from skillviz.serving.users import shared_root, store_of_user, user_of

SLOTS = ".slots"
LOCK, NUMBERS = "lock", "numbers.lock"
POLL = 0.1  # seconds between two looks at the queue by the job that is next
FARTHEST = 5.0  # the same for a job far behind: 200 waiting jobs then use a fifth of a core, at 3 ms a look
TICKET = re.compile(r"(\d{20})-(?:([0-9a-f]{32})~)?([^~]+)")
HOLDS = "0" * 20  # the number on the ticket of the run that has the device
SERVED = "served-"


def slot_of(device: str) -> str:
    """The device that a spec's `device` selects, without torch: cpu, cuda-0, cuda-1, ..."""
    name = automatic() if device == "auto" else device
    kind, _, number = name.partition(":")
    return "cpu" if kind == "cpu" else f"cuda-{number or 0}"


def kind_of(device: str) -> str:
    """The kind of device that a spec's `device` selects, without torch: cpu or cuda."""
    return slot_of(device).partition("-")[0]


def slot_in(path: Path, device: str) -> str:
    """The device that the job in a run folder was queued for; if none is stored, the one that `device` selects."""
    return str(launch_of(path / WORK).get("slot") or slot_of(device))


def take_ticket(root: Path, slot: str, run_id: str) -> Path:
    """Queues a run of a store as its user's last job for the device and returns the ticket. Earlier tickets of the
    run, and tickets of runs whose process is gone, are removed."""
    for old in _tickets(root):
        if old.is_of(root, run_id) or not is_awaited(old.run):
            old.path.unlink(missing_ok=True)
    folder = _folder(root, slot)
    folder.mkdir(parents=True, exist_ok=True)
    with _next_number(root, slot) as number:
        ticket = folder / _name(f"{number:020d}", user_of(root), run_id)
        ticket.touch()
    return ticket


@contextmanager
def _next_number(root: Path, slot: str) -> Iterator[int]:
    """A number larger than all on tickets and turns of a device; no other process can draw one meanwhile."""
    with lock_at(_folder(root, slot) / NUMBERS):
        drawn = [*(int(ticket.number) for ticket in _tickets(root, slot)), *_served(root, slot).values()]
        yield 1 + max(drawn, default=0)


def give_up_ticket(root: Path, run_id: str) -> None:
    """Removes a run from all queues."""
    for ticket in _tickets(root):
        if ticket.is_of(root, run_id):
            ticket.path.unlink(missing_ok=True)


def queue(root: Path, slot: str) -> list[str]:
    """The runs of all users that hold or wait for a device, the next first; runs whose process is gone are skipped."""
    return [ticket.run_id for ticket in _in_turn(_living(root, slot), _served(root, slot))]


def position(root: Path, slot: str, run_id: str) -> int | None:
    """The number of jobs ahead of this run; None if it is in no queue."""
    line = _in_turn(_living(root, slot), _served(root, slot))
    return next((before for before, ticket in enumerate(line) if ticket.is_of(root, run_id)), None)


def position_of_next(root: Path, slot: str) -> int:
    """The number of jobs that would be ahead of one that the store's user starts now."""
    new = _Ticket(_folder(root, slot), "9" * 20, user_of(root), "")
    return _in_turn([*_living(root, slot), new], _served(root, slot)).index(new)


@contextmanager
def device_for_run(root: Path, slot: str, run_id: str, on_wait: Callable[[int], None]) -> Iterator[None]:
    """Holds the device for this run. While waiting, `on_wait` is called regularly with the number of jobs ahead."""
    if position(root, slot, run_id) is None:
        take_ticket(root, slot, run_id)
    lock = lock_at(_folder(root, slot) / LOCK)
    try:
        while not _acquired(lock, before := _before(root, slot, run_id)):
            on_wait(max(before, 1))
            time.sleep(min(FARTHEST, POLL * max(before, 1)))
        _take_turn(root, slot, run_id)
        yield
    finally:
        lock.release()
        give_up_ticket(root, run_id)


@contextmanager
def devices_for_study(root: Path, slots: Sequence[str], on_wait: Callable[[str], None]) -> Iterator[None]:
    """Holds these devices for a study; jobs wait. While waiting, `on_wait` is called with the device that is taken.

    A study is in no queue: it takes a device between two jobs.
    """
    places = {slot: _folder(root, slot) for slot in sorted(set(slots))}
    locks: dict[str, BaseFileLock] = {}
    try:
        for slot, place in places.items():
            with written(root):
                place.mkdir(parents=True, exist_ok=True)
            lock = locks[slot] = lock_at(place / LOCK)
            while not _acquired(lock, 0):
                on_wait(slot)
                time.sleep(POLL)
        yield
    finally:
        for lock in locks.values():
            lock.release()


def _acquired(lock: BaseFileLock, before: int) -> bool:
    """True if this process now holds the lock. Tickets keep the order; only the lock prevents two jobs at once."""
    if before:
        return False
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True


def _take_turn(root: Path, slot: str, run_id: str) -> None:
    """Notes that the run has the device, and that its user has had a turn."""
    user = user_of(root)
    for ticket in _tickets(root, slot):
        if ticket.is_of(root, run_id):
            with suppress(FileNotFoundError):  # the ticket was removed just now
                ticket.path.rename(ticket.path.with_name(_name(HOLDS, user, run_id)))
    with suppress(OSError, DiskFull), _next_number(root, slot) as number:  # a full disk costs the order, not the job
        write_text(_folder(root, slot) / f"{SERVED}{user}", f"{number}\n")


def _folder(root: Path, slot: str) -> Path:
    return shared_root(root) / SLOTS / slot


def _name(number: str, user: str, run_id: str) -> str:
    return f"{number}-{user}~{run_id}" if user else f"{number}-{run_id}"


class _Ticket(NamedTuple):
    """A ticket file, whose name gives the run, its user and its place in the order."""

    path: Path
    number: str
    user: str
    run_id: str

    @property
    def run(self) -> Path:
        """The run's folder."""
        return store_of_user(self.path.parents[2], self.user) / self.run_id

    def is_of(self, root: Path, run_id: str) -> bool:
        """True if the ticket belongs to this run of a store: another user's run may have the same id."""
        return self.run_id == run_id and self.user == user_of(root)


def _tickets(root: Path, slot: str = "*") -> list[_Ticket]:
    """All tickets, the oldest of each device first."""
    paths = sorted((shared_root(root) / SLOTS).glob(f"{slot}/*"))
    named = ((path, TICKET.fullmatch(path.name)) for path in paths)
    return [_Ticket(path, match[1], match[2] or "", match[3]) for path, match in named if match]


def _served(root: Path, slot: str) -> dict[str, int]:
    """The number of each user's last turn."""
    turns = {}
    for path in _folder(root, slot).glob(f"{SERVED}*"):
        with suppress(OSError, ValueError):  # the user is being removed
            turns[path.name.removeprefix(SERVED)] = int(path.read_text(encoding="ascii"))
    return turns


def _living(root: Path, slot: str) -> list[_Ticket]:
    return [ticket for ticket in _tickets(root, slot) if is_awaited(ticket.run)]


def _before(root: Path, slot: str, run_id: str) -> int:
    """The number of tickets ahead of a run's; 0 if it is next. Tickets at the front whose run is dead are removed.

    Unlike `position`, it checks whether only one run is alive, because every waiting job calls it all the time.
    """
    while line := _in_turn(_tickets(root, slot), _served(root, slot)):
        if line[0].is_of(root, run_id):
            return 0
        if is_awaited(line[0].run):
            return next((before for before, ticket in enumerate(line) if ticket.is_of(root, run_id)), 0)
        line[0].path.unlink(missing_ok=True)
    return 0


def _in_turn(tickets: Sequence[_Ticket], served: dict[str, int]) -> list[_Ticket]:
    """The ticket that has the device, then the others in the order they will be served if no job is added.

    A user who has not had a turn comes before users who have.
    """
    waiting: dict[str, deque[_Ticket]] = defaultdict(deque)
    for ticket in sorted(tickets, key=lambda ticket: (ticket.number, ticket.run_id)):
        if ticket.number != HOLDS:
            waiting[ticket.user].append(ticket)
    turns = [(served.get(user, 0), own[0].number, user) for user, own in waiting.items()]
    heapq.heapify(turns)
    line, last = [ticket for ticket in tickets if ticket.number == HOLDS], max(served.values(), default=0)
    while turns:
        _, _, user = heapq.heappop(turns)
        line.append(waiting[user].popleft())
        if waiting[user]:
            last += 1
            heapq.heappush(turns, (last, waiting[user][0].number, user))
    return line
