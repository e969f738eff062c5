"""Tests of the environment of the processes that skillviz starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import skillviz
from skillviz.runs.process import SPIN, environment


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
