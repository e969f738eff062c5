"""The environment of a process that skillviz starts: a job, or the worker of the live pages."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SPIN = "GOMP_SPINCOUNT"


def environment() -> dict[str, str]:
    """This process's, with the package found first from any folder, and short waits.

    Threads that wait for each other spin for microseconds and then sleep, where nothing else was asked for (GNU's
    OpenMP spins for milliseconds): alone a search is as fast so, and beside one busy process on two cores a search of
    10 s took 14 s instead of 43 s.
    """
    paths = [str(PROJECT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    return found if "OMP_WAIT_POLICY" in found else {SPIN: "1000", **found}
