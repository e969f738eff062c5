"""Tests of clocks set back or different between machines: ticket numbers, not times, keep the order of the queue."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from skillviz.jobs import slots
from skillviz.jobs.slots import device_for_run, position, queue, take_ticket
from skillviz.runs.folder import RunFolder
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, is_awaited
from skillviz.serving.users import store_of_user, user_named

SPEC = RunSpec(base="b", finetuned="f", task="t", device="cpu")
YEAR = 365 * 24 * 3600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock's offset in seconds, as a list of one; new files get the shifted time too."""
    off = [0.0]
    seconds, nanoseconds = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: seconds() + off[0])
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(off[0] * 1e9))
    touch = Path.touch

    def touched(self: Path, *args: object, **more: object) -> None:
        touch(self, *args, **more)  # type: ignore[arg-type]
        os.utime(self, (time.time(), time.time()))

    monkeypatch.setattr(Path, "touch", touched)
    return off


@pytest.fixture
def users(tmp_path: Path) -> list[Store]:
    """The stores of three users of one deployment."""
    return [Store(store_of_user(tmp_path / "runs", user_named("https://id.example", name))) for name in "abc"]


def queued(store: Store) -> str:
    """Create a queued run whose record has the clock's current time; return its id."""
    folder = store.create(SPEC)
    os.utime(folder.path / "run.json", (time.time(), time.time()))
    take_ticket(store.root, "cpu", folder.id)
    return folder.id


def served(store: Store, run_id: str) -> None:
    with device_for_run(store.root, "cpu", run_id, lambda before: pytest.fail(f"{before} before {run_id}")):
        pass


def awaited(store: Store, *run_ids: str) -> None:
    """Mark the processes of these runs as alive, independent of the clock."""
    for run_id in run_ids:
        RunFolder(store.root / run_id).belongs_to_this_process()


@pytest.mark.parametrize("jump", [-YEAR, -3600, -1, 0, 3600])
def test_who_was_served_before_the_jump_does_not_wait_for_the_clock(
    users: list[Store], clock: list[float], jump: float
) -> None:
    """Regression: ordered by time, a user served before the jump waited behind all others until the clock caught up."""
    one, two, _ = users
    first, theirs = queued(one), queued(two)
    awaited(one, first)
    awaited(two, theirs)
    served(one, first)
    served(two, theirs)
    clock[0] = jump
    later = [queued(two) for _ in range(3)]
    mine = queued(one)
    awaited(two, *later)
    awaited(one, mine)
    assert queue(one.root, "cpu") == [mine, *later], "one's last turn is the longer ago"
    served(one, mine)
    again = queued(one)
    awaited(one, again)
    assert queue(one.root, "cpu") == [later[0], again, *later[1:]]


@pytest.mark.parametrize("jump", [-YEAR, -1, 0])
def test_first_come_stays_first_served(tmp_path: Path, clock: list[float], jump: float) -> None:
    store = Store(tmp_path / "runs")
    early = [queued(store) for _ in range(2)]
    awaited(store, *early)
    clock[0] = jump
    late = [queued(store) for _ in range(2)]
    awaited(store, *late)
    assert queue(store.root, "cpu") == [*early, *late]
    assert [position(store.root, "cpu", name) for name in (*early, *late)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("jump", "is_waited_for"), [(-YEAR, False), (-3600, False), (-5, True), (0, True), (3600, False)]
)
def test_a_run_whose_process_never_came_is_not_awaited_until_the_clock_is_there(
    tmp_path: Path, clock: list[float], jump: float, is_waited_for: bool
) -> None:
    store = Store(tmp_path / "runs")
    dead = queued(store)
    clock[0] = jump
    assert is_awaited(store.root / dead) == is_waited_for


def test_those_who_come_at_once_have_different_numbers(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    names = [store.create(SPEC).id for _ in range(8)]
    threads = [threading.Thread(target=take_ticket, args=(store.root, "cpu", name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [ticket.number for ticket in slots._tickets(store.root, "cpu")]
    assert len(set(numbers)) == 8
