"""Tests of the devices that the system reports: names, free memory, and the numbers that a job's process sees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillviz.jobs import devices
from skillviz.jobs.devices import Device, chosen, gpus
from skillviz.runs import memory
from tests.programs import program

TWO = "0, GPU-aaa1, NVIDIA H100 80GB, 70000, 81559\n1, GPU-bbb2, NVIDIA T4, [N/A], 15360\n"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install an nvidia-smi that prints two GPUs, and a torch that can use them."""
    monkeypatch.setattr(devices, "version", lambda name: "2.9.1")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    devices._automatic.cache_clear()
    yield program(tmp_path / "nvidia-smi", f"printf '{TWO}'")
    devices._automatic.cache_clear()


def test_the_cpu_is_first_and_a_container_has_what_its_limit_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = devices.devices()[0]
    assert cpu.name == "cpu" and "threads" in cpu.title and 0 < cpu.free <= cpu.total
    files = {"memory.max": "3000", "memory.current": "1000", "memory.stat": "anon 700\ninactive_file 300\n"}
    for name, value in files.items():
        (tmp_path / name).write_text(value)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    within = devices.devices()[0]
    assert (within.free, within.total) == (2300, 3000), "cached files give way"
    (tmp_path / "memory.max").write_text("max\n")
    assert devices.devices()[0].total > 2**27


H100 = Device("cuda:0", "NVIDIA H100 80GB", 70000 * 2**20, 81559 * 2**20)
T4 = Device("cuda:1", "NVIDIA T4", 0, 15360 * 2**20)  # a driver may not tell what is free


@pytest.mark.parametrize(
    ("visible", "titles"),
    [(None, [H100, T4]), ("1", [T4]), ("1,0", [T4, H100]), ("GPU-aaa", [H100]), ("", [])],
)
def test_gpus_are_numbered_as_a_process_sees_them(driver: Path, visible: str | None, titles: list[Device]) -> None:
    assert gpus(visible) == [Device(f"cuda:{n}", gpu.title, gpu.free, gpu.total) for n, gpu in enumerate(titles)]


@pytest.mark.parametrize("script", ["exit 9", "echo broken", None], ids=str)
def test_no_driver_or_a_broken_one_shows_no_gpu(
    driver: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    program(driver, script or "")
    if script is None:
        monkeypatch.setenv("PATH", str(driver.parent / "nothing"))
    assert gpus(None) == []


@pytest.mark.parametrize(
    ("files", "visible", "has_driver", "name"),
    [
        ((), None, True, "cuda:0"),
        (("nvidia0",), "", True, "cpu"),
        (("nvidia3", "nvidiactl"), None, False, "cuda:0"),
        (("nvidia3",), "-1", False, "cpu"),
        (("nvidiactl",), None, False, "cpu"),
        (("kfd",), None, False, "cuda:0"),
        ((), None, False, "cpu"),
    ],
)
def test_auto_is_told_as_torch_will_decide(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...], visible: str | None, has_driver: bool, name: str,
) -> None:  # fmt: skip
    if not has_driver:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "dev").mkdir()
    for file in files:
        (tmp_path / "dev" / file).touch()
    monkeypatch.setattr(devices, "DRIVEN", tmp_path / "dev")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices.automatic() == name
    devices._automatic.cache_clear()
    monkeypatch.setattr(devices, "version", lambda name: "2.9.1+cpu")
    assert (devices.automatic(), gpus(None)) == ("cpu", []), "a build without CUDA uses none"


def test_auto_takes_the_first_gpu_else_the_cpu() -> None:
    cpu, gpu = Device("cpu", "c", 1, 1), Device("cuda:0", "g", 1, 1)
    found = {name: chosen(name, [cpu, gpu]) for name in ("auto", "cuda", "cpu", "cuda:3")}
    assert found == {"auto": gpu, "cuda": gpu, "cpu": cpu, "cuda:3": None} and chosen("auto", [cpu]) == cpu
