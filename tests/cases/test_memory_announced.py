"""Tests of memory estimates: within a fifth of the peak of the run's process; a run that does not fit is refused."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import memory as shapes
from skillviz.commands import preflight
from skillviz.errors import NotEnoughMemory
from skillviz.runs import memory, produce
from skillviz.runs.folder import RunFolder
from skillviz.runs.memory import PROCESS, Facts, facts_of, peak_bytes, refuse_larger
from tests.cases.build import RunSpec, Session, Store, by_hand, near, refuses, tiny_pair, tiny_task
from tests.cli.calls import call
from tests.runs.tiny_world import spec_of as tiny_spec
from tests.scripts import ROOT

RUN = """
import json, sys
from pathlib import Path
from skillviz.runs.spec import RunSpec
from skillviz.runs.produce import produce
from skillviz.runs.store import Store
run = produce(RunSpec(**json.loads(sys.argv[1])), Store(Path(sys.argv[2])))
line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(line.split()[1]) * 1024)
"""

# Peaks of processes (VmHWM) in MiB on two cores: the facts of the pair, the localizer, and the peak.
ROWS = {"train": 64, "validation": 16, "test": 16}
MINILM = Facts(10_646_784, 22_713_216, 384, 6, 2, ROWS, (10_646,), tokens=14.3)
BERT = Facts(10_646_784, 11_761_538, 384, 6, 2, ROWS, (10_646,), tokens=13.1)
LLAMA = Facts(37_957_632, 40_019_456, 512, 12, 2, ROWS, (37_957,), tokens=13.1)
TINY = Facts(4_448, 8_592, 16, 2, 2, ROWS, (4,), tokens=13.1)
MEASURED = {
    "MiniLM-L6, stagewise": (MINILM, "stagewise", 1181),
    "BERT of 12 million, stagewise": (BERT, "stagewise", 933),
    "BERT of 12 million, frank-wolfe": (BERT, "frank-wolfe", 928),
    "BERT of 12 million, learned": (BERT, "learned", 969),
    "BERT of 12 million, movement": (BERT, "movement", 794),
    "Llama of 40 million, stagewise": (LLAMA, "stagewise", 2012),
    "tiny BERT, stagewise": (TINY, "stagewise", 513),
    "tiny BERT, learned": (TINY, "learned", 514),
}


spec_of = partial(tiny_spec, localizer="stagewise", sizes=("0.1%",), steps=2, batch_size=16)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_pair(folder)
    tiny_task(folder)
    return folder


def check_announced(world: Path, runs: Path, lean: bool) -> None:
    spec = spec_of(world, lean=lean, dtype="own" if lean else "float32")
    words = [sys.executable, "-c", RUN, spec.json_text(), str(runs)]
    taken = float(subprocess.check_output(words, text=True, cwd=ROOT).splitlines()[-1])
    assert peak_bytes(spec, facts_of(spec, Session())) == pytest.approx(taken, rel=0.2)


test_measured_peaks_are_announced_within_a_fifth = by_hand(
    *((name, near(peak * 2**20, rel=0.2), peak_bytes,
       RunSpec(base="b", finetuned="f", task="t", localizer=localizer, steps=2, batch_size=16), facts)
      for name, (facts, localizer, peak) in MEASURED.items()),
)  # fmt: skip


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("lean", [False, True])
def test_a_process_of_its_own_takes_what_was_announced(tiny: Path, tmp_path: Path, lean: bool) -> None:
    check_announced(tiny, tmp_path / "runs", lean)


@pytest.mark.nightly
@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("shape", ["11M", "45M"])
def test_a_larger_process_too(tmp_path: Path, shape: str, lean: bool) -> None:
    shapes.make_pair(shapes.SHAPES[shape], tmp_path)
    tiny_task(tmp_path)
    check_announced(tmp_path, tmp_path / "runs", lean)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("changes", [{}, {"lean": True, "dtype": "own"}, {"localizer": "movement"}])
def test_what_does_not_fit_is_refused_before_there_is_a_folder(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    spec, store = spec_of(tiny, **changes), Store(tmp_path)
    needed = peak_bytes(spec, facts_of(spec, Session()))
    monkeypatch.setattr(produce.psutil.Process, "memory_info", lambda self: SimpleNamespace(rss=10_000_000))
    monkeypatch.setattr(produce, "free_memory", lambda: int(needed) - 20_000_000)
    refuses(NotEnoughMemory, r"needs \d+ MiB of memory and \d+ MiB can be used", produce.produce, spec, store)
    assert not list(tmp_path.glob("*/run.json"))
    monkeypatch.setattr(produce, "free_memory", lambda: int(needed) + 20_000_000)
    assert produce.produce(spec, store).record.status == "finished"


def test_a_queued_run_says_so_in_its_record(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce.psutil.Process, "memory_info", lambda self: SimpleNamespace(rss=0))
    monkeypatch.setattr(produce, "free_memory", lambda: 2**20)
    folder = Store(tmp_path).create(spec_of(tiny), size=4, task="tiny")
    refuses(NotEnoughMemory, None, produce.carry_on, folder)
    error = RunFolder(folder.path).record.error
    assert error.kind == "NotEnoughMemory" and "preflight" in error.hint


def test_preflight_says_what_fits_in_place_of_a_refusal(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "free_bytes", lambda device: 2**20)
    words = [f"--{name}={tiny / path}" for name, path in
             (("base", "base"), ("finetuned", "finetuned"), ("task", "task.yaml"))]  # fmt: skip
    said = call("preflight", *words, "--device", "cpu", "--runs-dir", tmp_path, "--json")
    assert said.json["fits"] and not any(mode["fits"] for mode in said.json["modes"].values())
    assert "Neither fits" in said.out


def test_a_refusal_names_both_sizes_and_a_way_out() -> None:
    refuse_larger(2**30, 2**30, "memory", is_lean=False)
    for is_lean in (False, True):
        words = rf"needs 2\.0 GiB of memory and 1\.0 GiB can be used; (?{'!' if is_lean else '='}.*use --lean)"
        refuses(NotEnoughMemory, words, refuse_larger, 2**31, 2**30, "memory", is_lean=is_lean)


def test_free_memory_is_that_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.free_memory() > 2**20, "no container"
    for name, content in (("max", str(2**30)), ("current", str(2**30)), ("stat", f"anon 1\ninactive_file {2**20}\n")):
        (tmp_path / f"memory.{name}").write_text(content)
    assert memory.free_memory() == 2**20, "cached files give way"
    (tmp_path / "memory.max").write_text("max")
    assert memory.free_memory() > 2**20


def test_seven_billion_parameters_fit_24_gb_in_lean_mode_alone() -> None:
    facts = Facts(6_476_005_376, 6_607_085_568, 4096, 32, 2, {"train": 1000, "test": 1000}, (6_476_005,), "cuda",
                  25.0, "bfloat16")  # fmt: skip
    lean = RunSpec(base="a", finetuned="b", task="c", lean=True, dtype="own")
    assert 14e9 < peak_bytes(lean, facts) < 24e9
    # candidates are what lean mode keeps
    for more in ({"lean": False, "dtype": "bfloat16"}, {"options": {"candidate_share": 0.1}}):
        assert peak_bytes(lean.model_copy(update=more), facts) > 40e9, more


def test_the_data_and_the_grid_count(tiny: Path) -> None:
    spec = spec_of(tiny)
    facts = facts_of(spec, Session())
    assert peak_bytes(spec, facts) > PROCESS
    many = replace(facts, counts={"train": 25_000, "test": 25_000}, tokens=300.0)
    assert peak_bytes(spec, many) - peak_bytes(spec, facts) > 3e8, "ids, padded, and the resamples"
    grid, wide = spec.model_copy(update={"interpolation": True}), replace(facts, width=2000)
    assert peak_bytes(grid, wide) > peak_bytes(spec, wide)
