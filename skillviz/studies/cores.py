"""The number of cores that this process may use."""

import os


def cores() -> int:
    """The number of processors that this process may run on, or the machine's number if the system has no affinity."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
