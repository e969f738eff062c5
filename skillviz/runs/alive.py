"""The process that makes a run or a study: named in work/process.json, and whether it still lives."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil

from skillviz.atomic import write_text

PROCESS = "process.json"
CLOCK = 2.0  # seconds by which two readings of one process's start time may differ


def name_process(work: Path, pid: int) -> None:
    """Names the process of this machine that works on a folder; raises psutil.Error where it is gone."""
    process = psutil.Process(pid)
    owner = {"pid": process.pid, "started": process.create_time(), "host": os.uname().nodename}
    write_text(work / PROCESS, json.dumps(owner))


def is_alive(work: Path, besides: int = 0) -> bool:
    """True while the process named in work/process.json runs; on another machine it is assumed to.

    A process number is used again after a while, so the start time must agree too. The one of number `besides`
    on this machine does not count.
    """
    try:
        owner = json.loads((work / PROCESS).read_text(encoding="utf-8"))
        pid, started, host = int(owner["pid"]), float(owner["started"]), str(owner["host"])
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
