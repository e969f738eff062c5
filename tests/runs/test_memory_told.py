"""What preflight says of memory and time, beside what a run's own process then takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import memory
from skillviz.runs.estimate import Facts, estimate, peak_bytes
from skillviz.runs.spec import RunSpec
from tests.scripts import ROOT
from tests.tiny import tiny_pair, tiny_task

RUN = """
import json, sys, time
from pathlib import Path
from skillviz.runs.spec import RunSpec
begun = time.perf_counter()
from skillviz.runs.produce import produce
from skillviz.runs.store import Store
spec = RunSpec(**json.loads(sys.argv[1]))
run = produce(spec, Store(Path(sys.argv[2])))
line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([int(line.split()[1]) * 1024, time.perf_counter() - begun]))
"""


def told_and_taken(folder: Path, lean: bool) -> tuple[float, tuple[float, float], float, float]:
    """Bytes and the range of seconds that are told, and what the run's own process takes of both."""
    from skillviz.runs.estimate import facts_of

    fields = {
        "base": str(folder / "base"), "finetuned": str(folder / "finetuned"), "task": str(folder / "task.yaml"),
        "steps": 3, "batch_size": 16, "device": "cpu", "lean": lean, "dtype": "own" if lean else "float32",
    }  # fmt: skip
    spec = RunSpec(**fields)
    told = estimate(spec, facts_of(spec))
    words = [sys.executable, "-c", RUN, json.dumps(fields), str(folder / f"runs-{lean}")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    peak, seconds = json.loads(done.stdout.splitlines()[-1])
    return told.bytes, told.range, peak, seconds


@pytest.fixture(scope="module", params=["tiny", pytest.param("11M", marks=pytest.mark.nightly)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair and a task: tiny, or of 11 million parameters."""
    found = tmp_path_factory.mktemp(request.param)
    if request.param == "tiny":
        tiny_pair(found)
    else:
        memory.make_pair(memory.SHAPES[request.param], found)
    tiny_task(found)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("lean", [False, True])
def test_memory_is_told_within_a_fifth(folder: Path, lean: bool) -> None:
    told, _, taken, _ = told_and_taken(folder, lean)
    assert told == pytest.approx(taken, rel=0.2)


@pytest.mark.bench
@pytest.mark.parametrize("lean", [False, True])
def test_time_is_within_the_range_that_is_told(folder: Path, lean: bool) -> None:
    _, (least, most), _, seconds = told_and_taken(folder, lean)
    assert least <= seconds <= most


def test_seven_billion_parameters_are_told_to_fit_24_gb_in_lean_mode_alone() -> None:
    facts = Facts(6_476_005_376, 6_607_085_568, 4096, 32, 2, {"train": 1000, "test": 1000}, (6_476_005,), "cuda",
                  25.0, "bfloat16")  # fmt: skip
    lean = RunSpec(base="a", finetuned="b", task="c", lean=True, dtype="own")
    assert 14e9 < peak_bytes(lean, facts) < 24e9
    assert peak_bytes(lean.model_copy(update={"lean": False, "dtype": "bfloat16"}), facts) > 40e9
    wide = lean.model_copy(update={"options": {"candidate_share": 0.1}})
    assert peak_bytes(wide, facts) > 40e9, "candidates are what lean mode keeps"
