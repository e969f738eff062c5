"""The processes that make runs and studies: their environment and launch, their progress reports, and how they stop."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from skillviz import json_text
from skillviz.atomic import write_text
from skillviz.runs import slurm_queue
from skillviz.tasks.project import importable

PHASES = ("check", "load", "search", "predict", "evaluate", "store")


@dataclass(frozen=True)
class Progress:
    """`done` of `total` (None: unknown) in a phase, and a text for the user.

    In the phase search, `loss` (nats) and `size` (entries) are the last step's. `left` is the number of seconds until
    the whole run is finished (None: unknown).
    """

    phase: str
    done: int = 0
    total: int | None = None
    text: str = ""
    loss: float | None = None
    size: int | None = None
    left: float | None = None


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Ignore the report."""


LAUNCH = "launch.json"
SPIN = "GOMP_SPINCOUNT"
GRACE = 0.8  # seconds that a step may take after the signal before it is interrupted
SIGNALS = (signal.SIGINT, signal.SIGTERM)
TIME_IS_UP = signal.SIGUSR2
"""The signal that Slurm sends some time before a job's time limit."""
CLUSTER = "cluster"
"""In launch.json: the cluster to which a job was submitted."""


class Suspended(KeyboardInterrupt):
    """Raised if the cluster ends this process, whose job will resume from the checkpoint.

    `time_is_up` means that the time limit was reached, so that the job itself must requeue.
    """

    def __init__(self, time_is_up: bool) -> None:
        super().__init__()
        self.time_is_up = time_is_up


def note_launch(work: Path, cwd: Path, **fields: str | int) -> None:
    """Store the working folder and settings of a folder's process, so that it can be restarted in the same way."""
    write_text(work / LAUNCH, json.dumps({"cwd": str(cwd), **fields}))


def launch_of(work: Path) -> dict[str, Any]:
    """Return the fields of `note_launch`; `cwd` is this process's if none is stored or it is gone."""
    fields: dict[str, Any] = {}
    with suppress(OSError, ValueError, TypeError):
        fields = dict(json_text.read(work / LAUNCH))
    cwd = fields.get("cwd")
    with suppress(OSError, ValueError):  # not a possible folder name
        if isinstance(cwd, str) and cwd and Path(cwd).is_dir():
            return {**fields, "cwd": Path(cwd)}
    return {**fields, "cwd": Path.cwd()}


def environment() -> dict[str, str]:
    """Return this process's environment, with this package first on the import path, and short waits."""
    return {**os.environ, **importable(), **short_waits()}


def short_waits() -> dict[str, str]:
    """Return settings that make waiting threads spin for microseconds and then sleep.

    They are empty if the environment has its own. They apply to every torch imported after they are set. GNU's OpenMP
    spins for milliseconds. Alone, a search is as fast with short waits; beside one busy process on two cores, a search
    of 10 s took 14 s instead of 43 s.
    """
    return {} if {SPIN, "OMP_WAIT_POLICY"} & os.environ.keys() else {SPIN: "1000"}


@contextmanager
def gently(report: Report, is_cancelled: Callable[[], bool] = lambda: False) -> Iterator[Report]:
    """Yield a report that raises KeyboardInterrupt at the first reported step after Ctrl-C or SIGTERM.

    In a cluster job it raises Suspended, also after the signal before the time limit, unless `is_cancelled` returns
    True, which means that a user cancelled the job. A step that takes longer than GRACE is interrupted, and a second
    signal interrupts at once. Ignored signals stay ignored. Outside the main thread, where Python handles no signals,
    nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield report
        return
    first: int | None = None
    is_job = slurm_queue.own_job() is not None

    def interrupt() -> KeyboardInterrupt:
        return Suspended(first == TIME_IS_UP) if is_job and not is_cancelled() else KeyboardInterrupt()

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if first is not None or number == signal.SIGALRM:
            raise interrupt()
        first = number
        signal.setitimer(signal.ITIMER_REAL, GRACE)

    def stop_or_report(progress: Progress) -> None:
        report(progress)
        if first is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise interrupt()

    before = {s: signal.getsignal(s) for s in (*SIGNALS, *((TIME_IS_UP,) if is_job else ()), signal.SIGALRM)}
    taken: dict[signal.Signals, Any] = {s: h for s, h in before.items() if h is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, on_signal)
    try:
        yield stop_or_report
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in taken.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
