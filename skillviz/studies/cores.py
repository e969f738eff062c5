"""How many cores this process may use, and how many processes do a study's steps on them where nobody says."""

import os


def cores() -> int:
    """Processors that this process may run on; those of the machine where the system tells no more."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def usual_workers(scale: str | None, there: int) -> int:
    """Processes on so many cores where none are asked for: models of the demo world are too small to use two in one."""
    return min(2, there) if scale == "demo" else 1
