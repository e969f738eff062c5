"""Whether the process that makes a run still lives."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil

CLOCK = 2.0  # seconds by which two readings of one process's start time may differ


def is_alive(work: Path, besides: int = 0) -> bool:
    """True while the process named in work/process.json runs; on another machine it is taken at its word.

    A process number is used again after a while, so the start time must agree too. The one of number `besides`
    on this machine does not count.
    """
    try:
        own = json.loads((work / "process.json").read_text(encoding="utf-8"))
        pid, started, host = int(own["pid"]), float(own["started"]), str(own["host"])
    except (OSError, ValueError, KeyError, TypeError):
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
