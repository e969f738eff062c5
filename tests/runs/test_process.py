"""What the processes that skillviz starts are told by their environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import skillviz
from skillviz.runs.process import PROCESS, SPIN, environment, is_alive


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
