"""Tests of the environment of the processes that skillviz starts, and of their process notes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillviz
from skillviz.runs.process import PROCESS, SPIN, environment, is_alive, name_process, process_of, unname_process


def test_waits_are_short_unless_something_else_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SPIN, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    assert environment()[SPIN] == "1000"
    monkeypatch.setenv(SPIN, "7")
    assert environment()[SPIN] == "7"
    monkeypatch.delenv(SPIN)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert SPIN not in environment()


def test_the_package_is_found_first_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    project = str(Path(skillviz.__file__).resolve().parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/elsewhere", project]))
    assert environment()["PYTHONPATH"].split(os.pathsep) == [project, "/elsewhere"]
    monkeypatch.delenv("PYTHONPATH")
    assert environment()["PYTHONPATH"] == project


@pytest.mark.parametrize(
    "changed", [{"pid": -1}, {"pid": 0}, {"pid": 2**70}, {"pid": 1e400}, {"started": "x"}, {"pid": []}]
)
def test_a_strange_note_of_a_process_is_of_none(tmp_path: Path, changed: dict) -> None:
    owner = {"pid": os.getpid(), "started": 0.0, "host": os.uname().nodename, **changed}
    (tmp_path / PROCESS).write_text(json.dumps(owner))
    assert not is_alive(tmp_path)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that has written its number in the folder, and waits."""
    code = (
        "import os, pathlib, sys, time; from skillviz.runs.process import name_process;"
        "name_process(pathlib.Path(sys.argv[1]), os.getpid()); print('named', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=environment())
    assert child.stdout is not None and child.stdout.readline() == b"named\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def edit(work: Path, **fields: object) -> None:
    note = {**json.loads((work / PROCESS).read_text()), **fields}
    (work / PROCESS).write_text(json.dumps({name: value for name, value in note.items() if value is not None}))


ELSEWHERE = {
    "another container": {"space": "pid:[1]"},
    "the machine before it was started again": {"boot": "another"},
    "another machine": {"boot": "another", "space": "pid:[1]", "host": "elsewhere"},
    "another machine, off Linux": {"boot": None, "space": None, "ticks": None, "host": "elsewhere"},
}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_what_cannot_be_seen_lives_while_it_holds_the_lock(
    tmp_path: Path, worker: subprocess.Popen[bytes], place: str
) -> None:
    edit(tmp_path, **ELSEWHERE[place])
    assert is_alive(tmp_path) and process_of(tmp_path) is None, "its number means nothing here: no signal is sent"
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert not is_alive(tmp_path), "a killed one must not block the queue for ever"


@pytest.mark.parametrize("fields", [{"host": "renamed"}, {"started": 5.0}])
def test_a_new_name_or_a_step_of_the_clock_changes_nothing(
    tmp_path: Path, worker: subprocess.Popen[bytes], fields: dict[str, object]
) -> None:
    edit(tmp_path, **fields)
    found = process_of(tmp_path)
    assert is_alive(tmp_path) and found is not None and found.pid == worker.pid
    assert not is_alive(tmp_path, besides=worker.pid)
    worker.kill()
    worker.wait()
    assert not is_alive(tmp_path) and process_of(tmp_path) is None


def test_off_linux_the_host_and_the_start_name_the_process(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    edit(tmp_path, boot=None, space=None, ticks=None)
    found = process_of(tmp_path)
    assert found is not None and found.pid == worker.pid
    edit(tmp_path, started=5.0)
    assert process_of(tmp_path) is None, "the number is now that of another process"


def test_who_lets_go_can_be_followed(tmp_path: Path) -> None:
    name_process(tmp_path, os.getpid())
    edit(tmp_path, space="pid:[1]")
    assert is_alive(tmp_path)
    unname_process(tmp_path)
    assert not is_alive(tmp_path)
    name_process(tmp_path, os.getpid())
    edit(tmp_path, space="pid:[1]")
    assert is_alive(tmp_path)
    unname_process(tmp_path)
