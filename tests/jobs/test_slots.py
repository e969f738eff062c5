"""Tests of devices, and of the queue of a device: one job at a time, in order of arrival; dead jobs do not block it."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from skillviz.jobs import devices, slots
from skillviz.jobs.devices import Device, chosen, gpus
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
from skillviz.runs import memory
from skillviz.runs.folder import RunFolder
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, is_awaited
from skillviz.serving.users import store_of_user, user_named
from tests.programs import program

YEAR = 365 * 24 * 3600
SPEC = RunSpec(base="b", finetuned="f", task="t", device="cpu")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def queued(store: Store, is_alive: bool = False) -> RunFolder:
    """Return a job in the queue; a living one has a process, even with another clock."""
    folder = store.create(SPEC)
    os.utime(folder.path / "run.json", (time.time(), time.time()))  # by the clock of the test
    take_ticket(store.root, "cpu", folder.id)
    if is_alive:
        RunFolder(folder.path).belongs_to_this_process()
    return folder


def ids(*folders: RunFolder) -> list[str]:
    return [folder.id for folder in folders]


def line(store: Store) -> list[str]:
    return queue(store.root, "cpu")


def places(*folders: RunFolder) -> list[int | None]:
    return [position(folder.path.parent, "cpu", folder.id) for folder in folders]


def holding(folder: RunFolder, waits: Mock | None = None) -> AbstractContextManager[None]:
    """Hold the device; a job that does not get it at once fails the test, unless the test hears that it waits."""
    waits = waits or Mock(side_effect=AssertionError(f"{folder.id} waits"))
    return device_for_run(folder.path.parent, "cpu", folder.id, waits)


def served(*folders: RunFolder) -> None:
    for folder in folders:
        with holding(folder):
            pass


def long_ago(folder: RunFolder) -> None:
    """Make the folder look queued an hour ago, without a process."""
    os.utime(folder.path / "run.json", (time.time() - 3600,) * 2)


@pytest.mark.parametrize(
    ("automatic", "name", "slot"),
    [("cpu", "cpu", "cpu"), ("cpu", "auto", "cpu"), ("cpu", "cuda", "cuda-0"), ("cpu", "cuda:3", "cuda-3"),
     ("cuda:0", "auto", "cuda-0")],
)  # fmt: skip
def test_devices_by_name(monkeypatch: pytest.MonkeyPatch, automatic: str, name: str, slot: str) -> None:
    monkeypatch.setattr(slots, "automatic", lambda: automatic)
    assert slot_of(name) == slot


def test_a_job_stays_in_the_queue_that_it_was_put_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader on another machine may have other devices, or none."""
    folder = queued(store)
    monkeypatch.setattr(slots, "automatic", lambda: "cuda:0")
    assert slot_in(folder.path, "auto") == "cuda-0"
    (folder.work / "launch.json").write_text('{"slot": "cpu"}')
    assert slot_in(folder.path, "auto") == "cpu"


def test_first_come_first_served(store: Store) -> None:
    one, two, three = (queued(store) for _ in range(3))
    assert line(store) == ids(one, two, three)
    assert places(one, two, three) == [0, 1, 2]
    assert queue(store.root, "cuda-0") == []
    assert position(store.root, "cpu", "other") is None
    take_ticket(store.root, "cpu", one.id)
    assert line(store)[-1] == one.id, "asked anew, it stands at the end"
    give_up_ticket(store.root, two.id)
    assert line(store) == ids(three, one)


def test_the_dead_and_the_closed_do_not_count_and_their_tickets_go(store: Store) -> None:
    dead, closed, living = (queued(store) for _ in range(3))
    long_ago(dead)
    closed.cancel()
    assert line(store) == [living.id]
    last = queued(store)
    assert (len(list((store.root / ".slots" / "cpu").glob("0*"))), places(last)) == (2, [1])


def test_the_device_is_held_by_one(store: Store) -> None:
    one, two = queued(store), queued(store)
    waits = Mock(side_effect=[None, None, InterruptedError])
    with holding(one):
        with pytest.raises(InterruptedError), holding(two, waits):
            raise AssertionError("both hold it")
        assert ([call.args for call in waits.call_args_list], line(store)) == ([(1,)] * 3, [one.id]), (
            "who gives up waiting leaves the queue"
        )
    assert line(store) == []
    with holding(two):
        assert line(store) == [two.id], "without a ticket, one is taken"


def test_the_lock_alone_keeps_a_second_one_out(store: Store) -> None:
    """Even without an earlier ticket: tickets give the order, and the lock gives the exclusion."""
    one, two = queued(store), queued(store)
    waits = Mock(side_effect=InterruptedError)
    with holding(one):
        give_up_ticket(store.root, one.id)
        assert places(two) == [0]
        with pytest.raises(InterruptedError), holding(two, waits):
            pass
    waits.assert_called_once_with(1)


@pytest.fixture
def class_of_three(tmp_path: Path) -> list[Store]:
    """Return the stores of three users of one deployment."""
    return [Store(store_of_user(tmp_path / "runs", user_named("https://id.example", name))) for name in "abc"]


def test_ten_jobs_of_one_user_do_not_hold_up_another_s_first(class_of_three: list[Store]) -> None:
    """Users take turns, for any number of jobs and any order of arrival; a user's own jobs keep their order."""
    many, other, third = class_of_three
    ten, two, last = [queued(many) for _ in range(10)], [queued(other) for _ in range(2)], queued(third)
    order = [ten[0], two[0], last, ten[1], two[1], *ten[2:]]
    assert line(many) == line(third) == ids(*order), "all see one queue"
    assert (places(*two), [position_of_next(store.root, "cpu") for store in (third, many)]) == ([1, 4], [5, 13])
    with holding(ten[0]):
        assert line(many) == ids(*order), "who has the device stands first, though the turn is taken"
        newcomer = queued(third)
        assert places(newcomer) == [5]
    for folder in (two[0], last, ten[1], two[1], newcomer, *ten[2:]):
        assert line(many)[0] == folder.id, "a turn ends when a job is served"
        served(folder)
    assert line(many) == []


def test_runs_of_one_id_of_two_users_are_told_apart(class_of_three: list[Store]) -> None:
    one, two, _ = class_of_three
    ours = queued(one)
    theirs = two.root / ours.id
    theirs.mkdir(parents=True)
    (theirs / "run.json").write_bytes((ours.path / "run.json").read_bytes())
    take_ticket(two.root, "cpu", ours.id)
    assert line(one) == [ours.id] * 2 and places(ours, RunFolder(theirs)) == [0, 1]
    give_up_ticket(two.root, ours.id)
    assert places(ours, RunFolder(theirs)) == [0, None]


def test_the_dead_of_others_do_not_stand_in_the_way(class_of_three: list[Store]) -> None:
    dead, ended, living = (queued(store) for store in class_of_three)
    long_ago(dead)
    ended.cancel()
    served(living)
    assert (line(class_of_three[2]), list((class_of_three[0].root.parents[1] / ".slots" / "cpu").glob("*~*"))) == (
        [],
        [],
    )


def test_only_one_user_has_the_device(class_of_three: list[Store]) -> None:
    one, two, _ = class_of_three
    ours, theirs, waits = queued(one), queued(two), Mock(side_effect=InterruptedError)
    for holder in (holding(ours), slots.devices_for_study(one.root, ["cpu"], lambda slot: None)):
        with holder, pytest.raises(InterruptedError), holding(theirs, waits):
            pass
    assert [call.args for call in waits.call_args_list] == [(1,), (1,)]


# Clocks that are set back, or differ between machines: ticket numbers, not times, keep the order


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock's offset in seconds, as a list of one; new files get the shifted time too."""
    off = [0.0]
    seconds, nanoseconds, touch = time.time, time.time_ns, Path.touch

    def touched(self: Path, *args: object, **more: object) -> None:
        touch(self, *args, **more)  # type: ignore[arg-type]
        os.utime(self, (time.time(), time.time()))

    monkeypatch.setattr(time, "time", lambda: seconds() + off[0])
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(off[0] * 1e9))
    monkeypatch.setattr(Path, "touch", touched)
    return off


@pytest.mark.parametrize("jump", [-YEAR, -3600, -1, 0, 3600])
def test_who_was_served_before_the_jump_does_not_wait_for_the_clock(
    class_of_three: list[Store], clock: list[float], jump: float
) -> None:
    """Regression: ordered by time, a user served before the jump waited behind all others until the clock caught up."""
    one, two, _ = class_of_three
    served(*(queued(store, is_alive=True) for store in (one, two)))
    clock[0] = jump
    later, mine = [queued(two, is_alive=True) for _ in range(3)], queued(one, is_alive=True)
    assert line(one) == ids(mine, *later), "one's last turn is the longer ago"
    served(mine)
    again = queued(one, is_alive=True)
    assert line(one) == ids(later[0], again, *later[1:])


@pytest.mark.parametrize("jump", [-YEAR, -1, 0])
def test_first_come_stays_first_served(store: Store, clock: list[float], jump: float) -> None:
    early = [queued(store, is_alive=True) for _ in range(2)]
    clock[0] = jump
    everyone = [*early, *(queued(store, is_alive=True) for _ in range(2))]
    assert (line(store), places(*everyone)) == (ids(*everyone), [0, 1, 2, 3])


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
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(partial(take_ticket, store.root, "cpu"), names))
    assert len({ticket.number for ticket in slots._tickets(store.root, "cpu")}) == 8


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install an nvidia-smi that prints two GPUs, and a torch that can use them."""
    monkeypatch.setattr(devices, "version", lambda name: "2.9.1")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    devices._automatic.cache_clear()
    yield program(
        tmp_path / "nvidia-smi",
        r"printf '0, GPU-aaa1, NVIDIA H100 80GB, 70000, 81559\n1, GPU-bbb2, NVIDIA T4, [N/A], 15360\n'",
    )
    devices._automatic.cache_clear()


def test_the_cpu_is_first_and_a_container_has_what_its_limit_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = devices.devices()[0]
    assert cpu.name == "cpu" and "threads" in cpu.title and 0 < cpu.free <= cpu.total
    for name, value in {
        "memory.max": "3000",
        "memory.current": "1000",
        "memory.stat": "anon 700\ninactive_file 300\n",
    }.items():
        (tmp_path / name).write_text(value)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    within = devices.devices()[0]
    assert (within.free, within.total) == (2300, 3000), "cached files give way"
    (tmp_path / "memory.max").write_text("max\n")
    assert devices.devices()[0].total > 2**27


H100 = Device("cuda:0", "NVIDIA H100 80GB", 70000 * 2**20, 81559 * 2**20)
T4 = Device("cuda:1", "NVIDIA T4", 0, 15360 * 2**20)  # a driver may not tell what is free


@pytest.mark.parametrize(
    ("visible", "titles"),
    [(None, [H100, T4]), ("1", [T4]), ("1,0", [T4, H100]), ("GPU-aaa", [H100]), ("", [])],
)
def test_gpus_are_numbered_as_a_process_sees_them(driver: Path, visible: str | None, titles: list[Device]) -> None:
    assert gpus(visible) == [Device(f"cuda:{n}", gpu.title, gpu.free, gpu.total) for n, gpu in enumerate(titles)]


@pytest.mark.parametrize("script", ["exit 9", "echo broken", None], ids=str)
def test_no_driver_or_a_broken_one_shows_no_gpu(
    driver: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    program(driver, script or "")
    if script is None:
        monkeypatch.setenv("PATH", str(driver.parent / "nothing"))
    assert gpus(None) == []


@pytest.mark.parametrize(
    ("files", "visible", "has_driver", "name"),
    [
        ((), None, True, "cuda:0"),
        (("nvidia0",), "", True, "cpu"),
        (("nvidia3", "nvidiactl"), None, False, "cuda:0"),
        (("nvidia3",), "-1", False, "cpu"),
        (("nvidiactl",), None, False, "cpu"),
        (("kfd",), None, False, "cuda:0"),
        ((), None, False, "cpu"),
    ],
)
def test_auto_is_told_as_torch_will_decide(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...], visible: str | None, has_driver: bool, name: str,
) -> None:  # fmt: skip
    if not has_driver:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "dev").mkdir()
    for file in files:
        (tmp_path / "dev" / file).touch()
    monkeypatch.setattr(devices, "DRIVEN", tmp_path / "dev")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices.automatic() == name
    devices._automatic.cache_clear()
    monkeypatch.setattr(devices, "version", lambda name: "2.9.1+cpu")
    assert (devices.automatic(), gpus(None)) == ("cpu", []), "a build without CUDA uses none"


def test_auto_takes_the_first_gpu_else_the_cpu() -> None:
    cpu, gpu = Device("cpu", "c", 1, 1), Device("cuda:0", "g", 1, 1)
    found = {name: chosen(name, [cpu, gpu]) for name in ("auto", "cuda", "cpu", "cuda:3")}
    assert found == {"auto": gpu, "cuda": gpu, "cpu": cpu, "cuda:3": None} and chosen("auto", [cpu]) == cpu
