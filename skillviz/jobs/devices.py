"""The devices that jobs can run on, with names and free memory, from the system and nvidia-smi; without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from skillviz.runs.memory import free_memory, total_memory
from skillviz.studies.cores import cores

QUERY = "index,uuid,name,memory.free,memory.total"
PATIENCE = 5.0  # seconds; a driver that is busy or broken must not hold up a page
DRIVEN, HIDDEN = Path("/dev"), ("", "-1")
CPU_FACTS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Device:
    """One place to compute. `name` is how a spec says it: cpu, cuda:0, ...; memory in bytes."""

    name: str
    title: str
    free: int
    total: int


def devices() -> list[Device]:
    """The CPU, then the GPUs that this process may use, in their order."""
    return [
        Device("cpu", f"{_cpu_name()}, {cores()} threads", free_memory(), total_memory()),
        *gpus(os.environ.get("CUDA_VISIBLE_DEVICES")),
    ]


def chosen(name: str, available: list[Device]) -> Device | None:
    """The device that a spec's `device` will take; None where this machine does not show it."""
    if name == "auto":
        return next((device for device in available if device.name != "cpu"), available[0])
    full_name = "cuda:0" if name == "cuda" else name
    return next((device for device in available if device.name == full_name), None)


def automatic() -> str:
    """The device that `auto` takes, as far as that shows without torch; looked up once."""
    return _automatic(os.environ.get("CUDA_VISIBLE_DEVICES"))


@cache
def _automatic(visible: str | None) -> str:
    listed = gpus(visible)
    if listed or is_cpu_build():
        return "cuda:0" if listed else "cpu"
    # a container may have a GPU's files and no nvidia-smi; another maker's GPUs have files of their own
    has_program = shutil.which("nvidia-smi") is not None
    files = [path for path in DRIVEN.glob("nvidia[0-9]*") if not has_program] + [*DRIVEN.glob("kfd")]
    return "cuda:0" if files and visible not in HIDDEN else "cpu"


def is_cpu_build() -> bool:
    """Whether the torch that is installed can use no GPU at all."""
    with suppress(PackageNotFoundError):
        return version("torch").endswith("+cpu")
    return True


def gpus(visible: str | None) -> list[Device]:
    """The GPUs that nvidia-smi lists, of them those in CUDA_VISIBLE_DEVICES, numbered as a process sees them.

    None where the torch that is installed can use none.
    """
    if is_cpu_build():
        return []
    rows = [row for line in _nvidia_smi().splitlines() if (row := [word.strip() for word in line.split(",")])[4:]]
    if visible is not None:
        rows = [match for word in visible.split(",") if (match := _named(word.strip(), rows))]
    return [
        Device(f"cuda:{number}", row[2], _mib(row[3]), _mib(row[4])) for number, row in enumerate(rows)
    ]  # of row: index, uuid, name, free, total


def _nvidia_smi() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    words = [program, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    return ""


def _named(word: str, rows: list[list[str]]) -> list[str] | None:
    """The row of an index, or of the beginning of a uuid."""
    return next((row for row in rows if word and (row[0] == word or row[1].startswith(word))), None)


def _mib(word: str) -> int:
    """Bytes of a number of MiB; 0 where the driver does not tell."""
    return int(float(word) * 2**20) if word.replace(".", "", 1).isdigit() else 0


def _cpu_name() -> str:
    with suppress(OSError):
        for line in CPU_FACTS.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "CPU"
