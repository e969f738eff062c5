"""One job at a time on a device, first come first served; the dead do not stand in the way."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from skillviz.jobs import slots
from skillviz.jobs.slots import device_for_run, give_up_ticket, position, queue, slot_in, slot_of, take_ticket
from skillviz.runs.folder import RunFolder
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store

SPEC = RunSpec(base="b", finetuned="f", task="t", device="cpu")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def queued(store: Store) -> RunFolder:
    folder = store.create(SPEC)
    take_ticket(store.root, "cpu", folder.id)
    return folder


def long_ago(folder: RunFolder) -> None:
    """As if it had been queued an hour ago, and its process had never named itself."""
    then = time.time() - 3600
    os.utime(folder.path / "run.json", (then, then))


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "automatic", lambda: "cpu")
    assert [slot_of(name) for name in ("cpu", "auto", "cuda", "cuda:3")] == ["cpu", "cpu", "cuda-0", "cuda-3"]
    monkeypatch.setattr(slots, "automatic", lambda: "cuda:0")
    assert slot_of("auto") == "cuda-0"


def test_a_job_stays_in_the_queue_that_it_was_put_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks at it from elsewhere may see other devices, or none."""
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
    assert len(list((store.root / ".slots" / "cpu").iterdir())) == 2
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
    """Even with no ticket before it: the order is the tickets', the safety the lock's."""
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
