"""Run jobs as detached processes on this machine. jobs.slurm has a second class with the same methods."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import psutil

from skillviz.runs.folder import LOG, WORK
from skillviz.runs.liveness import lock_for_child, name_process, process_of
from skillviz.runs.process import environment

PATIENCE = 1.5  # seconds that a process has to stop by itself


class Backend(Protocol):
    """Runs commands of skillviz that make a run or a study in its folder."""

    def refuse(self) -> None:
        """Raises a SkillvizError if no job can be started from this process."""

    def start(self, folder: Path, words: Sequence[str], cwd: Path) -> None:
        """Starts `python -m skillviz WORDS` for a folder, from the folder `cwd`; returns at once."""

    def cancel(self, folder: Path) -> None:
        """Ends the work; returns when no process works on the folder any more, or after a few seconds (here two)."""


class LocalBackend:
    """Gives each job its own process and session: it outlives the browser tab, the server and the terminal."""

    def refuse(self) -> None:
        """Never raises: this machine is always available."""

    def start(self, folder: Path, words: Sequence[str], cwd: Path) -> None:
        """Spawns the command; its output goes to the folder's log.

        The process gets the folder's lock, and its id is noted, at once: on a busy machine it takes a while to start.
        """
        work = folder / WORK
        with (work / LOG).open("ab") as log, lock_for_child(work) as (locks, variables):
            child = subprocess.Popen(
                [sys.executable, "-m", "skillviz", *words], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, cwd=cwd, env=environment() | variables, pass_fds=locks,
                start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=child.wait, daemon=True).start()  # reaps the process, so that no zombie remains
        with contextlib.suppress(OSError):
            name_process(work, child.pid)

    def cancel(self, folder: Path) -> None:
        """Sends SIGTERM, on which the process saves a checkpoint; then SIGKILL if it has not ended in time."""
        process = process_of(folder / WORK)
        if process is None:
            return
        for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, 0.4)):
            _send(process.pid, number)
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(patience)  # it closes its run a little before it ends
                return


LOCAL = LocalBackend()


def _send(pid: int, number: signal.Signals) -> None:
    """Sends a signal to the whole group if the process leads one, as jobs do; otherwise to the process alone,
    because its group may include a shell."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
