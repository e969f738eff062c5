"""Tests of the one decision whether a job lives: by the lock that it holds, here, in a container, and elsewhere."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillviz
from skillviz.runs.folder import RunFolder
from skillviz.runs.liveness import ALIVE, DEAD, PROCESS, UNKNOWN, hold, life, lock_for_child, process_of, unname
from skillviz.runs.process import SPIN, environment
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import UNSEEN, Store, is_awaited

HOLDS = """
import pathlib, sys, time
from skillviz.runs.liveness import hold
print(hold(pathlib.Path(sys.argv[1])), flush=True)
time.sleep(600)
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = Store(tmp_path / "runs").create(RunSpec(base="b", finetuned="f", task="t", device="cpu"))
    folder.update(status="running")
    return folder


@pytest.fixture
def worker(run: RunFolder) -> Iterator[subprocess.Popen[str]]:
    child = started(run.work)
    assert child.stdout is not None and child.stdout.readline() == "True\n"
    yield child
    end(child)


def started(work: Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDS, str(work)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **{"env": environment(), **options})  # type: ignore[call-overload,no-any-return]


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    child.stdout.close()


def edit(work: Path, **fields: object) -> None:
    (work / PROCESS).write_text(json.dumps({**json.loads((work / PROCESS).read_text()), **fields}))


def status(run: RunFolder) -> str:
    return Store(run.path.parent).look(run.id).record.status  # type: ignore[union-attr]


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(
    ("elsewhere", "after"),
    [({}, DEAD), ({"pid": os.getpid()}, DEAD), ({"pid": 1}, DEAD), ({"host": "elsewhere"}, UNKNOWN)],
    ids=["here", "another process has its number", "another container", "another machine"],
)
def test_a_process_lives_while_it_holds_the_lock(
    run: RunFolder, worker: subprocess.Popen[str], elsewhere: dict[str, object], after: str
) -> None:
    edit(run.work, **elsewhere)
    found = process_of(run.work)
    signalled = None if "pid" in elsewhere else worker.pid  # no signal to another process
    assert (found and found.pid) == signalled
    assert life(run.work) == ALIVE
    assert status(run) == "running"
    assert not hold(run.work)
    end(worker)
    assert process_of(run.work) is None, "a killed one must not block the queue for ever"
    assert life(run.work) == after, "a killed one must not block the queue for ever"
    assert status(run) == ("failed" if after == DEAD else "unknown"), "a killed one must not block the queue for ever"
    assert not is_awaited(run.path), "a killed one must not block the queue for ever"


def test_an_unknown_job_says_why_and_is_resumed_and_deleted_by_a_user_only(
    run: RunFolder, worker: subprocess.Popen[str]
) -> None:
    edit(run.work, host="elsewhere")
    end(worker)
    (entry,) = Store(run.path.parent).unfinished()
    assert entry.record.error == UNSEEN and "cannot be seen from here" in UNSEEN.message
    run.reopen()
    assert status(run) == "queued"
    Store(run.path.parent).delete(run.id)


def test_a_child_holds_the_lock_before_it_has_started(run: RunFolder) -> None:
    with lock_for_child(run.work) as (locks, variables):
        child = started(run.work, pass_fds=locks, env=environment() | variables)
    try:
        assert life(run.work) == ALIVE and not hold(run.work), "the child has not run a line yet"
        assert child.stdout.readline() == "True\n"
        found = process_of(run.work)
        assert found is not None and found.pid == child.pid
    finally:
        end(child)
    assert life(run.work) == DEAD and hold(run.work)
    unname(run.work)
    assert life(run.work) == DEAD


@pytest.mark.parametrize("pid", [-1, 0, 2**70, 1e400, "x", [], None])
def test_a_strange_note_of_a_process_is_of_none(tmp_path: Path, pid: object) -> None:
    (tmp_path / PROCESS).write_text(json.dumps({"pid": pid, "host": os.uname().nodename}))
    assert (life(tmp_path), process_of(tmp_path)) == (DEAD, None)


@pytest.mark.parametrize(
    ("name", "asked", "given"), [(SPIN, None, "1000"), (SPIN, "7", "7"), ("OMP_WAIT_POLICY", "active", None)]
)
def test_waits_are_short_unless_something_else_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, name: str, asked: str | None, given: str | None
) -> None:
    for variable in (SPIN, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    if asked:
        monkeypatch.setenv(name, asked)
    assert environment().get(SPIN) == given


@pytest.mark.parametrize("others", [["/elsewhere"], []], ids=len)
def test_the_package_is_found_first_and_once(monkeypatch: pytest.MonkeyPatch, others: list[str]) -> None:
    project = str(Path(skillviz.__file__).resolve().parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*others, project]))
    if not others:
        monkeypatch.delenv("PYTHONPATH")
    assert environment()["PYTHONPATH"].split(os.pathsep) == [project, *others]
