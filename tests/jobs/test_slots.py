"""Tests of the queue of a device: one job at a time, in order of arrival; dead jobs do not block it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from skillviz.jobs import slots
from skillviz.jobs.slots import (
    device_for_run,
    give_up_ticket,
    position,
    position_of_next,
    queue,
    slot_in,
    slot_of,
    take_ticket,
)
from skillviz.runs.folder import RunFolder
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, is_awaited
from skillviz.serving.users import store_of_user, user_named

YEAR = 365 * 24 * 3600
SPEC = RunSpec(base="b", finetuned="f", task="t", device="cpu")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def queued(store: Store) -> RunFolder:
    folder = store.create(SPEC)
    os.utime(folder.path / "run.json", (time.time(), time.time()))  # by the clock of the test
    take_ticket(store.root, "cpu", folder.id)
    return folder


def long_ago(folder: RunFolder) -> None:
    """Make the folder look queued an hour ago, without a process."""
    then = time.time() - 3600
    os.utime(folder.path / "run.json", (then, then))


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "automatic", lambda: "cpu")
    assert [slot_of(name) for name in ("cpu", "auto", "cuda", "cuda:3")] == ["cpu", "cpu", "cuda-0", "cuda-3"]
    monkeypatch.setattr(slots, "automatic", lambda: "cuda:0")
    assert slot_of("auto") == "cuda-0"


def test_a_job_stays_in_the_queue_that_it_was_put_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader on another machine may have other devices, or none."""
    folder = queued(store)
    monkeypatch.setattr(slots, "automatic", lambda: "cuda:0")
    assert slot_in(folder.path, "auto") == "cuda-0"
    (folder.work / "launch.json").write_text('{"slot": "cpu"}')
    assert slot_in(folder.path, "auto") == "cpu"


def test_first_come_first_served(store: Store) -> None:
    folders = [queued(store) for _ in range(3)]
    assert queue(store.root, "cpu") == [f.id for f in folders]
    assert [position(store.root, "cpu", f.id) for f in folders] == [0, 1, 2]
    assert queue(store.root, "cuda-0") == [] and position(store.root, "cpu", "other") is None
    take_ticket(store.root, "cpu", folders[0].id)
    assert queue(store.root, "cpu")[-1] == folders[0].id, "asked anew, it stands at the end"
    give_up_ticket(store.root, folders[1].id)
    assert queue(store.root, "cpu") == [folders[2].id, folders[0].id]


def test_the_dead_and_the_closed_do_not_count_and_their_tickets_go(store: Store) -> None:
    dead, closed, living = queued(store), queued(store), queued(store)
    long_ago(dead)
    closed.cancel()
    assert queue(store.root, "cpu") == [living.id]
    last = queued(store)
    assert len(list((store.root / ".slots" / "cpu").glob("0*"))) == 2
    assert position(store.root, "cpu", last.id) == 1


def test_the_device_is_held_by_one(store: Store) -> None:
    one, two = queued(store), queued(store)
    heard: list[int] = []

    class Enough(Exception):
        pass

    def waits(before: int) -> None:
        heard.append(before)
        if len(heard) == 3:
            raise Enough

    with device_for_run(store.root, "cpu", one.id, waits):
        assert heard == []
        with pytest.raises(Enough), device_for_run(store.root, "cpu", two.id, waits):
            raise AssertionError("both hold it")
        assert heard == [1, 1, 1]
        assert queue(store.root, "cpu") == [one.id], "who gives up waiting leaves the queue"
    assert queue(store.root, "cpu") == []
    with device_for_run(store.root, "cpu", two.id, waits):
        assert queue(store.root, "cpu") == [two.id], "without a ticket, one is taken"


def test_the_lock_alone_keeps_a_second_one_out(store: Store) -> None:
    """Even without an earlier ticket: tickets give the order, and the lock gives the exclusion."""
    one, two = queued(store), queued(store)
    heard: list[int] = []

    def waits(before: int) -> None:
        heard.append(before)
        raise InterruptedError

    with device_for_run(store.root, "cpu", one.id, waits):
        give_up_ticket(store.root, one.id)
        assert position(store.root, "cpu", two.id) == 0
        with pytest.raises(InterruptedError), device_for_run(store.root, "cpu", two.id, waits):
            pass
    assert heard == [1]


@pytest.fixture
def class_of_three(tmp_path: Path) -> list[Store]:
    """Return the stores of three users of one deployment."""
    return [Store(store_of_user(tmp_path / "runs", user_named("https://id.example", name))) for name in "abc"]


def served(store: Store, run_id: str) -> None:
    """Hold the device for a moment."""
    with device_for_run(store.root, "cpu", run_id, lambda before: pytest.fail(f"{before} before {run_id}")):
        pass


def test_ten_jobs_of_one_user_do_not_hold_up_another_s_first(class_of_three: list[Store]) -> None:
    """Users take turns, for any number of jobs and any order of arrival; a user's own jobs keep their order."""
    many, other, third = class_of_three
    ten = [queued(many).id for _ in range(10)]
    two, last = [queued(other).id for _ in range(2)], queued(third).id
    expected = [ten[0], two[0], last, ten[1], two[1], *ten[2:]]
    assert queue(many.root, "cpu") == queue(third.root, "cpu") == expected, "all see one queue"
    assert [position(other.root, "cpu", run_id) for run_id in two] == [1, 4]
    assert position_of_next(third.root, "cpu") == 5 and position_of_next(many.root, "cpu") == 13
    with device_for_run(many.root, "cpu", ten[0], lambda before: pytest.fail("it is the first")):
        assert queue(many.root, "cpu") == expected, "who has the device stands first, though the turn is taken"
        newcomer = queued(third).id
        assert position(third.root, "cpu", newcomer) == 5
    stores = {**dict.fromkeys(ten, many), **dict.fromkeys(two, other), last: third, newcomer: third}
    order = []
    while line := queue(many.root, "cpu"):
        served(stores[line[0]], line[0])
        order.append(line[0])
    assert order == [two[0], last, ten[1], two[1], newcomer, *ten[2:]]


def test_the_order_is_kept_while_the_device_goes_from_hand_to_hand(class_of_three: list[Store]) -> None:
    """A user's turn ends when a job is served; without this note, the first user's second job would be next."""
    many, other, _ = class_of_three
    first, second = queued(many).id, queued(many).id
    theirs = queued(other).id
    served(many, first)
    assert queue(many.root, "cpu") == [theirs, second]
    served(other, theirs)
    assert queue(many.root, "cpu") == [second]


def test_runs_of_one_id_of_two_users_are_told_apart(class_of_three: list[Store]) -> None:
    one, two, _ = class_of_three
    ours = queued(one)
    theirs = two.root / ours.id
    theirs.mkdir(parents=True)
    (theirs / "run.json").write_bytes((ours.path / "run.json").read_bytes())
    take_ticket(two.root, "cpu", ours.id)
    assert queue(one.root, "cpu") == [ours.id] * 2 and position(two.root, "cpu", ours.id) == 1
    give_up_ticket(two.root, ours.id)
    assert position(one.root, "cpu", ours.id) == 0 and position(two.root, "cpu", ours.id) is None


def test_the_dead_of_others_do_not_stand_in_the_way(class_of_three: list[Store]) -> None:
    dead, ended, living = (queued(store) for store in class_of_three)
    long_ago(dead)
    ended.cancel()
    served(class_of_three[2], living.id)
    assert queue(class_of_three[2].root, "cpu") == []
    assert [path.name for path in (class_of_three[0].root.parents[1] / ".slots" / "cpu").glob("*~*")] == []


def test_only_one_user_has_the_device(class_of_three: list[Store]) -> None:
    one, two, _ = class_of_three
    ours, theirs = queued(one), queued(two)

    def waits(before: int) -> None:
        assert before == 1
        raise InterruptedError

    with device_for_run(one.root, "cpu", ours.id, waits), pytest.raises(InterruptedError):  # noqa: SIM117
        with device_for_run(two.root, "cpu", theirs.id, waits):
            pass
    with slots.devices_for_study(one.root, ["cpu"], lambda slot: None), pytest.raises(InterruptedError):  # noqa: SIM117
        with device_for_run(two.root, "cpu", theirs.id, waits):
            pass


# Clocks that are set back, or differ between machines: ticket numbers, not times, keep the order


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


def awaited(store: Store, *run_ids: str) -> None:
    """Mark the processes of these runs as alive, independent of the clock."""
    for run_id in run_ids:
        RunFolder(store.root / run_id).belongs_to_this_process()


@pytest.mark.parametrize("jump", [-YEAR, -3600, -1, 0, 3600])
def test_who_was_served_before_the_jump_does_not_wait_for_the_clock(
    class_of_three: list[Store], clock: list[float], jump: float
) -> None:
    """Regression: ordered by time, a user served before the jump waited behind all others until the clock caught up."""
    one, two, _ = class_of_three
    first, theirs = queued(one).id, queued(two).id
    awaited(one, first)
    awaited(two, theirs)
    served(one, first)
    served(two, theirs)
    clock[0] = jump
    later = [queued(two).id for _ in range(3)]
    mine = queued(one).id
    awaited(two, *later)
    awaited(one, mine)
    assert queue(one.root, "cpu") == [mine, *later], "one's last turn is the longer ago"
    served(one, mine)
    again = queued(one).id
    awaited(one, again)
    assert queue(one.root, "cpu") == [later[0], again, *later[1:]]


@pytest.mark.parametrize("jump", [-YEAR, -1, 0])
def test_first_come_stays_first_served(store: Store, clock: list[float], jump: float) -> None:
    early = [queued(store).id for _ in range(2)]
    awaited(store, *early)
    clock[0] = jump
    late = [queued(store).id for _ in range(2)]
    awaited(store, *late)
    assert queue(store.root, "cpu") == [*early, *late]
    assert [position(store.root, "cpu", name) for name in (*early, *late)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("jump", "is_waited_for"), [(-YEAR, False), (-3600, False), (-5, True), (0, True), (3600, False)]
)
def test_a_run_whose_process_never_came_is_not_awaited_until_the_clock_is_there(
    store: Store, clock: list[float], jump: float, is_waited_for: bool
) -> None:
    dead = queued(store)
    clock[0] = jump
    assert is_awaited(dead.path) == is_waited_for


def test_those_who_come_at_once_have_different_numbers(store: Store) -> None:
    names = [store.create(SPEC).id for _ in range(8)]
    threads = [threading.Thread(target=take_ticket, args=(store.root, "cpu", name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [ticket.number for ticket in slots._tickets(store.root, "cpu")]
    assert len(set(numbers)) == 8
