"""The free memory for a run, and the error for a run that needs more. Needs no torch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from skillviz.core.formats import byte_size
from skillviz.errors import NotEnoughMemory

CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Return the bytes of main memory free for a process: of the machine, or of its container if it has less."""
    return min([psutil.virtual_memory().available, *_free_of_container()])


def total_memory() -> int:
    """Return the bytes of main memory of the machine, or of its container if it has less."""
    total = psutil.virtual_memory().total
    with suppress(OSError, ValueError):  # the file says "max" if there is no limit
        total = min(total, int((CGROUP / "memory.max").read_text()))
    return total


def _free_of_container() -> list[int]:
    """Return the bytes left below the container's limit; empty if there is no limit.

    Cached files count as free, because the system drops them when memory is needed.
    """
    with suppress(OSError, ValueError):
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        rows = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return [max(0, limit - used + int(rows.get("inactive_file", 0)))]
    return []


def refuse_larger(needed: float, free: int, where: str, is_lean: bool) -> None:
    """Raise NotEnoughMemory if a run needs more than `free` bytes."""
    if needed <= free:
        return
    less = "--dtype bfloat16" if is_lean else "--lean, --dtype bfloat16"
    raise NotEnoughMemory(
        f"the run needs {byte_size(needed)} of {where} and {byte_size(free)} can be used; use {less}, a smaller model, "
        "or end other programs."
    )
