"""Tests of `parts`: it prints the cost first, stores the scores beside the run, and reads them on the next call."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from skillviz.runs.store import PARTS, Store
from tests.cli.calls import call
from tests.tiers import first

pytestmark = pytest.mark.slow


@pytest.fixture
def store(localized: tuple[Path, object], user_runs: Path) -> tuple[Path, str]:
    """Return a store for this test only with the finished run in it, and the run's id."""
    shutil.copytree(localized[0], user_runs)
    return user_runs, Store(user_runs).list()[0].id


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("by", first(["cells", "heads", "rows"], "cells".__eq__))
def test_parts_are_scored_and_stored_beside_the_run(store: tuple[Path, str], by: str) -> None:
    root, run = store
    said = call("parts", run, "--by", by, "--sample", "8", "--draws", "1", "--json")
    assert said.code == 0, said.err
    assert "forward passes over at most 8 examples" in said.out and "At most about " in said.out
    assert said.json["n"] == 8 and said.json["parts"] > 1 and said.json["grouping"] == by
    assert len(said.json["effects"]) == 2 * said.json["parts"]
    assert (root / PARTS / run / by / "parts.parquet").is_file()
    assert Store(root).verify(run) == []
    again = call("parts", run, "--by", by, "--sample", "8", "--draws", "1", "--json")
    assert "forward passes" not in again.out and again.json["effects"] == said.json["effects"]
    assert said.json["subskills"] is None
    other = call("parts", run, "--by", by, "--sample", "9", "--draws", "2", "--json")
    assert other.json["n"] == 9
    groups, effects = other.json["subskills"], other.json["effects"]
    numbers = {row["subskill"] for row in groups if row["metric"] == "share"}
    assert {row["subskill"] for row in effects} - {None} <= numbers and all(
        row["low"] is not None for row in groups[2:]
    )
    csv, html = root.parent / "parts.csv", root.parent / "run.html"
    call("parts", run, "--by", by, "--sample", "9", "--draws", "2", "--out", csv)
    rows = pd.read_csv(csv)
    is_group = rows["condition"] == "sub-skills"
    assert is_group.sum() == len(groups) and set(rows["metric"][~is_group]) == {"accuracy", "nll"}
    assert (~is_group).sum() == 2 * len(effects)
    call("report", run, "--out", html)
    text = html.read_text(encoding="utf-8")
    assert f"What each {by.removesuffix('s')} of the region does" in text and "Slice by slice" in text


def test_a_wrong_division_is_named(store: tuple[Path, str]) -> None:
    said = call("parts", store[1], "--by", "columns")
    assert said.code == 2 and "'cells', 'heads'" in said.err


def test_localize_scores_them_right_away(pair, task_file: Path, tmp_path: Path) -> None:
    words = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file, "--size", "5%", "--method", "movement")
    detached = call("localize", *words, "--parts", "--detach", "--runs-dir", tmp_path)
    assert detached.code == 2 and "leave out --detach" in detached.err
    said = call("localize", *words, "--parts", "--device", "cpu", "--runs-dir", tmp_path, "--json")
    assert said.code == 0, said.err
    assert "forward passes" in said.out and (tmp_path / PARTS / said.json["run_id"] / "cells").is_dir()
