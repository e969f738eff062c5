"""Tests of `regions`: other regions are found once, stored beside the run, and printed on the next call."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import skillviz
from skillviz.errors import BadInput
from skillviz.runs.store import PARTS, Store
from tests.cli.calls import call, done, refused

pytestmark = pytest.mark.slow


def test_each_kind_is_stored_and_printed_with_what_it_comes_to(store: tuple[Path, str], tmp_path: Path) -> None:
    (root, run), csv = store, tmp_path / "regions.csv"
    assert "No other region is stored" in call("regions", run).out
    for kind in ("minimal", "adversarial"):
        said = done("regions", run, "--find", kind, "--draws", 2, "--sample", 8, "--json")
    rows = said.json["regions"]
    assert said.json["n"] == 8 and {row["kind"] for row in rows} == {"own", "minimal", "adversarial"}
    assert "of the region suffices" in said.out and "hurt most change" in said.out
    assert (root / PARTS / run / "regions" / "regions.safetensors").is_file() and Store(root).verify(run) == []
    assert call("regions", run, "--out", csv, "--json").json["regions"] == rows and len(pd.read_csv(csv)) == len(rows)
    refused(call("regions", run, "--find", "nearby"))


def test_python_has_the_same_table(store: tuple[Path, str]) -> None:
    run, told = skillviz.open_run(store[1]), list[str]()
    with pytest.raises(BadInput, match="no other region of run .* is stored; find some"):
        skillviz.regions(run)
    found = skillviz.regions(run.id, "adversarial", sample=8, told=told.append)
    assert told and skillviz.regions(run).equals(found) and found["kind"].tolist() == ["own", "adversarial"] * 2
