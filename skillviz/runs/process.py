"""The processes that make runs and studies: their environment, whether they live, and how they are stopped."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from skillviz import json_text
from skillviz.atomic import write_text
from skillviz.runs.progress import Progress, Report
from skillviz.tasks.project import PROJECT

PROCESS = "process.json"
LAUNCH = "launch.json"
CLOCK = 2.0  # seconds by which two readings of one process's start time may differ
SPIN = "GOMP_SPINCOUNT"
GRACE = 0.8  # seconds that a step may take after the signal, before it is broken off
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def name_process(work: Path, pid: int) -> None:
    """Names the process of this machine that works on a folder; raises psutil.Error where it is gone."""
    process = psutil.Process(pid)
    owner = {"pid": process.pid, "started": process.create_time(), "host": os.uname().nodename}
    write_text(work / PROCESS, json.dumps(owner))


def note_launch(work: Path, cwd: Path, **fields: str | int) -> None:
    """Stores where a folder's process was started and what with, so that it can be started again alike."""
    write_text(work / LAUNCH, json.dumps({"cwd": str(cwd), **fields}))


def launch_of(work: Path) -> dict[str, Any]:
    """The fields of `note_launch`, of them `cwd` in any case: this process's where none is stored, or it is gone."""
    fields: dict[str, Any] = {}
    with suppress(OSError, ValueError, TypeError):
        fields = dict(json_text.loads((work / LAUNCH).read_text(encoding="utf-8")))
    cwd = Path(fields.get("cwd", ""))
    return {**fields, "cwd": cwd if fields.get("cwd") and cwd.is_dir() else Path.cwd()}


def is_alive(work: Path, besides: int = 0) -> bool:
    """True while the process named in work/process.json runs; on another machine it is assumed to.

    A process number is used again after a while, so the start time must agree too. The one of number `besides`
    on this machine does not count.
    """
    try:
        owner = json_text.loads((work / PROCESS).read_text(encoding="utf-8"))
        pid, started, host = int(owner["pid"]), float(owner["started"]), str(owner["host"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return False
    if pid < 1:
        return False
    if host != os.uname().nodename:
        return True
    try:
        process = psutil.Process(pid)
        return (
            pid != besides and abs(process.create_time() - started) < CLOCK and process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.NoSuchProcess:
        return False


def environment() -> dict[str, str]:
    """This process's, with the package found first from any folder, and short waits.

    Threads that wait for each other spin for microseconds and then sleep, where nothing else was asked for (GNU's
    OpenMP spins for milliseconds): alone a search is as fast so, and beside one busy process on two cores a search of
    10 s took 14 s instead of 43 s.
    """
    paths = [str(PROJECT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    return variables if "OMP_WAIT_POLICY" in variables else {SPIN: "1000", **variables}


@contextmanager
def gently(report: Report) -> Iterator[Report]:
    """A report that raises KeyboardInterrupt at the first step reported after Ctrl-C or SIGTERM.

    What takes longer than GRACE is broken off, and so is everything by a second signal. Signals that are
    ignored stay so; outside the main thread, where Python takes no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield report
        return
    is_to_stop = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal is_to_stop
        if is_to_stop or number == signal.SIGALRM:
            raise KeyboardInterrupt
        is_to_stop = True
        signal.setitimer(signal.ITIMER_REAL, GRACE)

    def stop_or_report(progress: Progress) -> None:
        report(progress)
        if is_to_stop:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = {s: signal.getsignal(s) for s in (*SIGNALS, signal.SIGALRM)}
    taken: dict[signal.Signals, Any] = {s: h for s, h in before.items() if h is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, on_signal)
    try:
        yield stop_or_report
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in taken.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
