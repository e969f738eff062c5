"""Tests of file systems without locks: a file with the owner's name replaces the lock, under any system error."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillviz import locks
from skillviz.atomic import folder_lock
from skillviz.jobs.slots import device_for_run, devices_for_study, queue, take_ticket
from skillviz.locks import NO_LOCKS, lock_at
from skillviz.runs.liveness import DEAD, UNKNOWN, hold, life, process_of, unname
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.serving import quota

SPEC = RunSpec(base="b", finetuned="f", task="t", device="cpu")


@pytest.fixture(params=sorted(set(NO_LOCKS)), ids=errno.errorcode.get)
def without_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make every file lock fail; return the error number."""

    def refused(*_: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refused)
    monkeypatch.setattr(locks, "_known", {})
    return int(request.param)


def test_one_at_a_time(without_locks: int, tmp_path: Path) -> None:
    with lock_at(tmp_path / "lock"), pytest.raises(locks.Timeout):
        lock_at(tmp_path / "lock", blocking=False).acquire()
    with lock_at(tmp_path / "lock", blocking=False):
        pass


def test_everything_that_takes_turns_goes_on(without_locks: int, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    folder = store.create(SPEC)
    with quota.in_turn(store.root), folder_lock(tmp_path / "made"):
        take_ticket(store.root, "cpu", folder.id)
    with device_for_run(store.root, "cpu", folder.id, lambda before: pytest.fail("nobody is before it")):
        assert queue(store.root, "cpu") == [folder.id]
        with pytest.raises(InterruptedError), devices_for_study(store.root, ["cpu"], _interrupted):
            pass
    with devices_for_study(store.root, ["cpu"], lambda slot: pytest.fail("it is free")):
        pass


def _interrupted(slot: str) -> None:
    raise InterruptedError


def test_whether_a_process_lives_is_unknown(without_locks: int, tmp_path: Path) -> None:
    assert life(tmp_path) == DEAD
    assert hold(tmp_path) and life(tmp_path) == UNKNOWN and process_of(tmp_path) is None
    unname(tmp_path)
    assert life(tmp_path) == DEAD


def test_the_file_of_a_process_that_was_killed_stands_in_nobody_s_way(without_locks: int, tmp_path: Path) -> None:
    code = "import sys, os, filelock; lock = filelock.SoftFileLock(sys.argv[1]); lock.acquire(); os._exit(0)"
    path = f"{tmp_path / 'lock'}{locks.SOFT}"
    subprocess.run([sys.executable, "-c", code, path], check=True)
    assert os.path.exists(path)
    with lock_at(tmp_path / "lock", timeout=10):
        pass


def test_with_locks_the_system_s_own_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_known", {})
    with lock_at(tmp_path / "lock") as lock:
        assert lock.lock_file == str(tmp_path / "lock") and locks.has_locks(tmp_path)
    assert lock_at(tmp_path / "nowhere" / "lock").lock_file.endswith("lock"), "its own error comes when it is taken"


def test_another_error_is_no_missing_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refused)
    monkeypatch.setattr(locks, "_known", {})
    with pytest.raises(OSError, match="Input/output"):
        lock_at(tmp_path / "lock", blocking=False).acquire()
