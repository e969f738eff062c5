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
from skillviz.studies.status import cores

QUERY = "index,uuid,name,memory.free,memory.total"
PATIENCE = 5.0  # seconds; a driver that is busy or broken must not hold up a page
DRIVEN, HIDDEN = Path("/dev"), ("", "-1")
CPU_FACTS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Device:
    """A device to compute on. `name` is its name in a spec: cpu, cuda:0, ...; memory is in bytes."""

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
    """The device that a spec's `device` selects; None if this machine does not list it."""
    if name == "auto":
        return next((device for device in available if device.name != "cpu"), available[0])
    full_name = "cuda:0" if name == "cuda" else name
    return next((device for device in available if device.name == full_name), None)


def automatic() -> str:
    """The device that `auto` selects, as far as can be found out without torch; computed once."""
    return _automatic(os.environ.get("CUDA_VISIBLE_DEVICES"))


@cache
def _automatic(visible: str | None) -> str:
    listed = gpus(visible)
    if listed or is_cpu_build():
        return "cuda:0" if listed else "cpu"
    # a container may have a GPU's device files but no nvidia-smi; AMD GPUs have a device file of their own (kfd)
    has_program = shutil.which("nvidia-smi") is not None
    files = [path for path in DRIVEN.glob("nvidia[0-9]*") if not has_program] + [*DRIVEN.glob("kfd")]
    return "cuda:0" if files and visible not in HIDDEN else "cpu"


def is_cpu_build() -> bool:
    """True if the installed torch can use no GPU."""
    with suppress(PackageNotFoundError):
        return version("torch").endswith("+cpu")
    return True


def gpus(visible: str | None) -> list[Device]:
    """The GPUs that nvidia-smi lists and CUDA_VISIBLE_DEVICES allows, numbered as in a process that sees only these.

    Empty if the installed torch can use no GPU.
    """
    if is_cpu_build():
        return []
    rows = [row for line in _nvidia_smi().splitlines() if (row := [word.strip() for word in line.split(",")])[4:]]
    if visible is not None:
        rows = [match for word in visible.split(",") if (match := _named(word.strip(), rows))]
    return [
        Device(f"cuda:{number}", row[2], _mib(row[3]), _mib(row[4])) for number, row in enumerate(rows)
    ]  # row: index, uuid, name, free, total


def _nvidia_smi() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    words = [program, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    return ""


def _named(word: str, rows: list[list[str]]) -> list[str] | None:
    """The row with this index, or whose uuid starts with the word."""
    return next((row for row in rows if word and (row[0] == word or row[1].startswith(word))), None)


def _mib(word: str) -> int:
    """The bytes in a number of MiB; 0 if the driver does not report a number."""
    return int(float(word) * 2**20) if word.replace(".", "", 1).isdigit() else 0


def _cpu_name() -> str:
    with suppress(OSError):
        for line in CPU_FACTS.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "CPU"
