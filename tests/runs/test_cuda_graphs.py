"""Tests of runs with recorded search passes: an option of the spec, refused if nothing can be recorded.

A recording's kernels are here the pass itself, started again (tests/core/test_recordings.py); on a GPU:
test_cuda.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadInput
from skillviz.jobs import control
from skillviz.runs import plan
from skillviz.runs import produce as produce_module
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.core.test_recordings import Repeated
from tests.runs.tiny_world import spec_of

FEW = {"steps": 4, "batch_size": 16, "localizer": "stagewise"}


def test_keys_of_other_runs_stay() -> None:
    spec = RunSpec(base="a", finetuned="b", task="c")
    recorded = spec.model_copy(update={"cuda_graphs": True})
    assert "cuda_graphs" not in json.loads(spec.json_text()) and spec.key() != recorded.key()
    assert "--cuda-graphs" in recorded.command() and "cuda_graphs=True" in recorded.python()


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_without_a_gpu_it_is_refused_before_there_is_a_folder(
    world: Path, store: Store, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BadInput, match="CUDA graphs need a GPU, and this run is on the CPU; leave CUDA graphs out"):
        produce(spec_of(world, device=device, cuda_graphs=True, **FEW), store)
    assert not list(store.list())


def test_a_job_without_a_gpu_is_refused_before_it_starts(
    world: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.jobs.slots.automatic", lambda: "cpu")
    with pytest.raises(BadInput, match="CUDA graphs need a GPU"):
        control.start(spec_of(world, device="auto", cuda_graphs=True, **FEW), store)
    assert not list(store.list()) and not store.unfinished()


def test_what_cannot_be_recorded_is_refused_by_name() -> None:
    row, causal = LOCALIZERS["stagewise"], SimpleNamespace(readout="causal")
    assert plan.refused_graphs(row, "cuda", False, None) is None
    assert plan.refused_graphs(row, "cuda:1", False, SimpleNamespace(readout="head")) is None  # type: ignore[arg-type]
    assert "causal readout" in str(plan.refused_graphs(row, "cuda", False, causal))  # type: ignore[arg-type]
    assert "lean mode" in str(plan.refused_graphs(row, "cuda", True, None))
    for name in ("fisher", "linearized"):
        assert f"'{name}' takes gradients of single examples" in str(
            plan.refused_graphs(LOCALIZERS[name], "cuda", False, None)
        )


@pytest.mark.nightly
def test_a_recorded_run_finds_the_region_of_a_plain_one_and_resumes_exactly(
    world: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = produce(spec_of(world, **FEW), store)
    monkeypatch.setattr(plan, "refused_graphs", lambda *of: None)
    monkeypatch.setattr(produce_module, "Recordings", Repeated)
    spec = spec_of(world, cuda_graphs=True, **FEW)
    whole = produce(spec, Store(store.root / "whole"))
    assert whole.spec.cuda_graphs and whole.region().iou(plain.region()) > 0.98  # float32: sums of other lengths
    assert all(check.passed for check in whole.record.checks)
    stopped = store.create(spec, size=222, task="tiny")

    def stop(progress: object) -> None:
        if getattr(progress, "phase", "") == "search" and getattr(progress, "done", 0) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_on(stopped, stop)
    stopped.reopen()
    resumed = carry_on(stopped)
    assert (resumed.ranking() == whole.ranking()).all() and len(resumed.history()) == 4
    assert resumed.predictions().equals(whole.predictions())


PARTS = {"steps": 4, "batch_size": 15, "sizes": ("5%",)}


@pytest.mark.nightly
@pytest.mark.parametrize("mode", [["--lean"], []])
def test_two_processes_find_the_region_of_one(world: Path, store: Store, mode: list[str]) -> None:
    lean = {"lean": True, "dtype": "own"} if mode else {}
    spec = spec_of(world, localizer="stagewise", data_parallel=2, **PARTS, **lean)
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
