"""How many cores this process may use."""

import os


def cores() -> int:
    """Processors that this process may run on; those of the machine where the system tells no more."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
