"""Test that two processes sharing every batch find the region of one that computes both parts in turn, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillviz.runs.produce import produce
from skillviz.runs.store import Store
from tests.runs.tiny_world import spec_of

FEW = {"steps": 4, "batch_size": 15, "sizes": ("5%",)}


@pytest.mark.nightly
@pytest.mark.parametrize("mode", [["--lean"], []])
def test_two_processes_find_the_region_of_one(world: Path, store: Store, mode: list[str]) -> None:
    lean = {"lean": True, "dtype": "own"} if mode else {}
    spec = spec_of(world, localizer="stagewise", data_parallel=2, **FEW, **lean)
    alone = produce(spec, store)
    words = spec.command().split()[3:]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "skillviz"]
    done = subprocess.run(
        [*command, *words, "--runs-dir", store.root / "two"],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},  # says where a process aborted
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (entry,) = Store(store.root / "two").list()
    together = Store(store.root / "two").open(entry.id)
    assert together.spec.key() == alone.spec.key()
    assert together.region() == alone.region() and (together.ranking() == alone.ranking()).all()
    assert together.history()["loss"].tolist() == alone.history()["loss"].tolist()


def test_parts_change_the_key_and_the_command(world: Path) -> None:
    one, two = spec_of(world), spec_of(world, data_parallel=2)
    assert one.key() != two.key() and "--data-parallel 2" in two.command() and "data_parallel" not in one.json_text()
