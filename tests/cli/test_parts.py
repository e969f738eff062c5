"""Tests of `parts`: it prints the cost first, stores the scores beside the run, and reads them on the next call."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from skillviz.runs.store import PARTS, Store
from tests.cli.calls import call, done, refused
from tests.tiers import first

pytestmark = pytest.mark.slow


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("by", first(["cells", "heads", "rows"], "cells".__eq__))
def test_parts_are_scored_and_stored_beside_the_run(store: tuple[Path, str], tmp_path: Path, by: str) -> None:
    root, run = store
    words, csv, html = ("parts", run, "--by", by), tmp_path / "parts.csv", tmp_path / "run.html"
    said = done(*words, "--sample", "8", "--draws", "1", "--json")
    assert "forward passes over at most 8 examples" in said.out and "At most about " in said.out
    told = said.json
    assert (told["n"], told["grouping"], told["subskills"], len(told["effects"])) == (8, by, None, 2 * told["parts"])
    assert told["parts"] > 1 and (root / PARTS / run / by / "parts.parquet").is_file() and Store(root).verify(run) == []
    again = call(*words, "--sample", "8", "--draws", "1", "--json")
    assert "forward passes" not in again.out and again.json["effects"] == told["effects"]
    more = (*words, "--sample", "9", "--draws", "2")
    other = call(*more, "--json").json
    groups, effects = other["subskills"], other["effects"]
    numbers = {row["subskill"] for row in groups if row["metric"] == "share"}
    assert other["n"] == 9 and {row["subskill"] for row in effects} - {None} <= numbers
    assert [row for row in groups[2:] if row["low"] is None] == []
    call(*more, "--out", csv)
    rows = pd.read_csv(csv)
    is_group = rows["condition"] == "sub-skills"
    assert (is_group.sum(), (~is_group).sum()) == (len(groups), 2 * len(effects))
    assert set(rows["metric"][~is_group]) == {"accuracy", "nll"}
    call("report", run, "--out", html)
    text = html.read_text(encoding="utf-8")
    assert f"What each {by.removesuffix('s')} of the region does" in text and "Slice by slice" in text


def test_a_wrong_division_is_named(store: tuple[Path, str]) -> None:
    refused(call("parts", store[1], "--by", "columns"), "'cells', 'heads'")


def test_localize_scores_them_right_away(members, tmp_path: Path) -> None:
    words = ("localize", *members, "--size", "5%", "--method", "movement", "--parts", "--runs-dir", tmp_path)
    refused(call(*words, "--detach"), "leave out --detach")
    said = done(*words, "--device", "cpu", "--json")
    assert "forward passes" in said.out and (tmp_path / PARTS / said.json["run_id"] / "cells").is_dir()
