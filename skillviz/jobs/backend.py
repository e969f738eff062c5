"""Where jobs run: detached processes on this machine. A cluster would be a second class of the same three words."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

import psutil

from skillviz.runs.alive import is_alive
from skillviz.runs.child import environment
from skillviz.runs.folder import LOG, PROCESS, WORK, RunFolder

PATIENCE = 1.5  # seconds that a process has to stop by itself
POLL = 0.02


class Backend(Protocol):
    """Runs the command `work` on run folders."""

    def start(self, run: Path, cwd: Path) -> None:
        """Begins to work on a queued run folder, from the folder `cwd`; returns at once."""

    def alive(self, run: Path) -> bool:
        """Whether somebody works on it."""

    def cancel(self, run: Path) -> None:
        """Ends the work; returns when nobody works on it any more, after two seconds at the latest."""


class LocalBackend:
    """A process and session of its own for each job: it outlives the browser tab, the server and the terminal."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, run: Path, cwd: Path) -> None:
        """Spawns `python -m skillviz work RUN`; what it prints goes to the run's log.

        The process is named at once: on a busy machine it takes its time until it does so itself.
        """
        self._reap()
        words = [sys.executable, "-m", "skillviz", "work", str(run.resolve())]
        with (run / WORK / LOG).open("ab") as log:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=cwd,
                env=environment(), start_new_session=True,
            )  # fmt: skip
        self._children.append(child)
        folder = RunFolder(run)
        with contextlib.suppress(psutil.Error, OSError):  # it names itself, too
            folder.belongs_to(child.pid)
        if not folder.is_open:  # it was so fast that it is done
            (folder.work / PROCESS).unlink(missing_ok=True)

    def alive(self, run: Path) -> bool:
        """Whether the process that the run names lives (on another machine: it is taken at its word)."""
        self._reap()
        return is_alive(run / WORK)

    def cancel(self, run: Path) -> None:
        """SIGTERM, upon which it leaves a checkpoint; SIGKILL where that does not help in time."""
        process = _process(run)
        if process is None:
            return
        for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, 0.4)):
            _send(process.pid, number)
            ends = time.monotonic() + patience
            while (runs := self._runs(process)) and time.monotonic() < ends:
                time.sleep(POLL)
            if not runs:
                return

    def _runs(self, process: psutil.Process) -> bool:
        """Whether the process itself is there still: it closes its run a little before it ends.

        Its first thread may have ended before the others; a child of ours is gone once it could be taken note of.
        """
        self._reap()
        if any(child.pid == process.pid for child in self._children):
            return True
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return False

    def _reap(self) -> None:
        """Takes note of children that have ended, so that they do not stay as zombies."""
        self._children = [child for child in self._children if child.poll() is None]


LOCAL = LocalBackend()


def _process(run: Path) -> psutil.Process | None:
    """The living process of this machine that works on a run."""
    with contextlib.suppress(OSError, ValueError, KeyError, psutil.Error):
        own = json.loads((run / WORK / PROCESS).read_text(encoding="utf-8"))
        if own["host"] == os.uname().nodename and is_alive(run / WORK):
            return psutil.Process(int(own["pid"]))
    return None


def _send(pid: int, number: signal.Signals) -> None:
    """To the whole group where the process leads one, as a job does; else to it alone: a shell may be in its group."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
