"""Tests of the worker on another task: a point, both whole paths, and a record of the transfer like a run's."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.errors import BadData
from skillviz.live.request import Worker
from skillviz.runs.produce import produce
from skillviz.runs.record import TransferNote
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from tests.live.test_operations import ask
from tests.runs.test_scoring import other_task
from tests.runs.tiny_world import spec_of

pytestmark = pytest.mark.slow  # the run with its grids takes most of their time


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a task with the same labels as the pair's."""
    return other_task(tmp_path_factory.mktemp("near"), "near")


@pytest.fixture(scope="module")
def scored(lived: Path, near: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run that was scored on the other task, with its grid."""
    store = Store(tmp_path_factory.mktemp("scored"))
    return produce(spec_of(lived, sizes=("5%", "20%"), others=(str(near),), interpolation=True), store)


@pytest.fixture
def worker(scored: Run) -> Worker:
    return Worker(scored.path.parent)


def test_a_point_is_the_stored_grids(worker: Worker, scored: Run, near: Path) -> None:
    found = ask(
        worker, "wise", scored, path="wise-graft", alpha=0.3, region={"run": scored.id, "size": 889}, task=str(near)
    )
    assert found["size"] == 889 and list(found["labels"]) == list(scored.logits("grafted", "test", "near")[1])
    grid = scored.interpolation()
    here = (grid["dataset"] == "near") & (grid["path"] == "wise-graft") & (grid["size"] == 889)
    rows = grid[here & np.isclose(grid["alpha"], 0.3)].set_index("metric")
    assert set(rows.index) == set(found["metrics"])
    for name, told in found["metrics"].items():
        stored = [None if pd.isna(x) else x for x in rows.loc[name, ["value", "low", "high"]]]
        assert [told["value"], told["low"], told["high"]] == stored, name
    bins = scored.interpolation_bins()
    own = bins[(bins["dataset"] == "near") & (bins["size"] == 889) & np.isclose(bins["alpha"], 0.3)]
    assert found["bins"]["count"].tolist() == own["count"].tolist()
    own_task = ask(worker, "wise", scored, path="wise-ft", alpha=1)
    ends = own_task["metrics"]["accuracy_difference"]
    assert ends == {"value": 0.0, "low": 0.0, "high": 0.0, "debiased": None}


def test_both_ways_are_traced_as_a_run_stores_them(worker: Worker, scored: Run, near: Path) -> None:
    found = ask(worker, "wise_grid", scored, task=str(near))
    rows, grid = pd.DataFrame(found["rows"]), scored.interpolation()
    stored = grid[(grid["dataset"] == "near") & (grid["size"].isna() | (grid["size"] == scored.record.size))]
    assert found["dataset"] == "near" and found["n"] == scored.record.transfers[0].scores.n
    assert rows["value"].tolist() == stored["value"].tolist() and rows["path"].tolist() == stored["path"].tolist()
    few = ask(worker, "wise_grid", scored, sample=9)
    assert few["dataset"] == "tiny" and few["n"] == 9
    assert pd.DataFrame(few["bins"]).groupby(["path", "alpha"])["count"].sum().eq(9).all()


def test_a_transfer_is_told_as_the_record_has_it(worker: Worker, scored: Run, near: Path) -> None:
    found = ask(worker, "transfer", scored, task=str(near))
    assert TransferNote(**found["note"]) == scored.record.transfers[0]


def test_other_examples_than_the_stored_ones_are_refused(scored: Run, near: Path, tmp_path: Path) -> None:
    changed = other_task(tmp_path, "near", seed=5)
    with pytest.raises(BadData, match="not those that run"):
        ask(Worker(scored.path.parent), "wise", scored, path="wise-ft", alpha=0.5, task=str(changed))
    shutil.copy(near.parent / "test.jsonl", tmp_path / "test.jsonl")
    ask(Worker(scored.path.parent), "wise", scored, path="wise-ft", alpha=0.5, task=str(changed))
