"""Tests of `regions`: other regions are found once, stored beside the run, and printed on the next call."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import skillviz
from skillviz.errors import BadInput
from skillviz.runs.store import PARTS, Store
from tests.cli.calls import call

pytestmark = pytest.mark.slow


def test_each_kind_is_stored_and_printed_with_what_it_comes_to(localized: tuple[Path, object], user_runs: Path) -> None:
    shutil.copytree(localized[0], user_runs)
    run = Store(user_runs).list()[0].id
    assert "No other region is stored" in call("regions", run).out
    for kind in ("minimal", "adversarial"):
        said = call("regions", run, "--find", kind, "--draws", 2, "--sample", 8, "--json")
        assert said.code == 0, said.err
    assert said.json["n"] == 8 and {row["kind"] for row in said.json["regions"]} == {"own", "minimal", "adversarial"}
    assert "of the region suffices" in said.out and "hurt most change" in said.out
    assert (user_runs / PARTS / run / "regions" / "regions.safetensors").is_file()
    assert Store(user_runs).verify(run) == []
    csv = user_runs.parent / "regions.csv"
    again = call("regions", run, "--out", csv, "--json")
    assert again.json["regions"] == said.json["regions"] and len(pd.read_csv(csv)) == len(said.json["regions"])
    assert call("regions", run, "--find", "nearby").code == 2


def test_python_has_the_same_table(localized: tuple[Path, object], user_runs: Path) -> None:
    shutil.copytree(localized[0], user_runs)
    run = skillviz.open_run(Store(user_runs).list()[0].id)
    with pytest.raises(BadInput, match="no other region of run .* is stored; find some"):
        skillviz.regions(run)
    told: list[str] = []
    found = skillviz.regions(run.id, "adversarial", sample=8, told=told.append)
    assert told and skillviz.regions(run).equals(found)
    assert found["kind"].tolist() == ["own", "adversarial"] * 2
