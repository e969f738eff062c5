"""Decide whether the process of a run or study lives: it holds the lock of the work folder from its start to its end.

The system releases the lock when the process ends, however it ends. A job on a cluster lives while Slurm's queue has
it. On a file system without locks, and for a process of another machine whose lock is not held here, nothing can be
decided: the answer is UNKNOWN.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from filelock import lock_descriptor, unlock_descriptor

from skillviz import json_text
from skillviz.atomic import write_text
from skillviz.errors import UNKNOWN, SkillvizError
from skillviz.runs import slurm_queue

PROCESS = "process.json"
LOCK = "process.lock"
ALIVE, DEAD = "alive", "dead"
HOST, PID, JOBS, END = "host", "pid", "jobs", "end"
"""In process.json: the process's machine and number; for a folder on a cluster, its jobs and their end."""
INHERITED = "SKILLVIZ_LOCK"
"""In a job's environment: the descriptor of the lock that it holds from its start."""
LOOK, LOOKS = 0.05, 20  # seconds between looks at a lock, and their number: another process may hold it to test it
HELD = -1

_held: dict[Path, int] = {}
"""The descriptors of the locks that this process holds, by folder."""


def life(work: Path) -> str:
    """Return ALIVE, DEAD or UNKNOWN for the process that works on a folder, or for the folder's job on a cluster.

    A job that asks about itself is alive only in its own process, since the process of an earlier attempt has ended.
    """
    jobs = jobs_of(work)
    if slurm_queue.own_job() in jobs:
        return ALIVE if is_held_here(work) else DEAD
    if jobs and slurm_queue.is_there():
        return ALIVE if any(slurm_queue.is_open(job) for job in jobs) else DEAD
    is_locked = _is_locked(work)
    if is_locked:
        return ALIVE
    note = _note(work)
    can_tell = is_locked is False and note.get(HOST) == os.uname().nodename
    return DEAD if can_tell or not note else UNKNOWN


def is_alive(work: Path) -> bool:
    """True if a process certainly works on a folder."""
    return life(work) == ALIVE


def is_held_here(work: Path) -> bool:
    """True if this process works on a folder."""
    return work.resolve() in _held


def hold(work: Path) -> bool:
    """Record this process as the one that works on a folder; it holds the lock until it ends, or until `unname`.

    Returns False, and changes nothing, if another process holds the lock. Slurm starts a job only once, so a job of a
    cluster does not ask: the lock of a lost node may still be held.
    """
    job = slurm_queue.own_job()
    if not is_held_here(work):
        handle = _inherited(work) or _locked(work)
        if handle == HELD and job is None:
            return False
        if handle > 0:
            _held[work.resolve()] = handle
    name_process(work, os.getpid(), **({} if job is None else {JOBS: [job]}))
    return True


@contextmanager
def lock_for_child(work: Path) -> Iterator[tuple[Sequence[int], dict[str, str]]]:
    """Take the folder's lock; yield the descriptors and variables with which a child process holds it on."""
    handle = _locked(work)
    if handle <= 0:  # the child finds that another process works on the folder, or that there are no locks
        yield (), {}
        return
    try:
        yield (handle,), {INHERITED: str(handle)}
    finally:
        os.close(handle)


def name_process(work: Path, pid: int, **fields: Any) -> None:
    """Record the process on this machine that works on a folder, so that it can be signaled."""
    write_text(work / PROCESS, json.dumps({PID: pid, HOST: os.uname().nodename, **fields}))


def name_jobs(work: Path, jobs: Sequence[str]) -> None:
    """Record the cluster jobs that work on a folder, or will; this process releases its lock."""
    write_text(work / PROCESS, json.dumps({JOBS: list(jobs)}))
    let_go(work)


def unname(work: Path) -> None:
    """Remove the record of the process, and release the folder's lock. An unwritable folder stays as it is."""
    with suppress(OSError):
        (work / PROCESS).unlink(missing_ok=True)
    let_go(work)


def let_go(work: Path) -> None:
    """Release this process's lock on the folder, also for the processes that it forked."""
    if (handle := _held.pop(work.resolve(), None)) is not None:
        unlock_descriptor(handle)
        os.close(handle)


def process_of(work: Path) -> psutil.Process | None:
    """Return the process that holds the folder's lock, if it runs on this machine and may be signaled.

    A number in the record of another machine or container, or of a process that has ended, belongs to a process that
    does not have the lock open.
    """
    with suppress(psutil.Error, KeyError, TypeError, ValueError, OverflowError):
        process = psutil.Process(_note(work)[PID])
        if str((work / LOCK).resolve()) in {file.path for file in process.open_files()}:
            return process
    return None


def jobs_of(work: Path) -> list[str]:
    """Return the cluster jobs recorded in a folder."""
    jobs = _note(work).get(JOBS)
    return [job for job in jobs if isinstance(job, str)] if isinstance(jobs, list) else []


def end_on_cluster(work: Path) -> str | None:
    """Return the final state of the folder's job on its cluster; None if it has no job, or Slurm does not say.

    The state is stored, because Slurm forgets it.
    """
    note = _note(work)
    if isinstance(note.get(END), str):
        return str(note[END])
    jobs = jobs_of(work) if slurm_queue.is_there() else []
    state = slurm_queue.state_of(jobs[-1]) if jobs else None
    if state in (None, slurm_queue.UNKNOWN, *slurm_queue.OPEN):
        return None
    with suppress(OSError, SkillvizError):
        write_text(work / PROCESS, json.dumps({**note, END: state}))
    return state


def _locked(work: Path) -> int:
    """Return the descriptor of the folder's lock, taken; HELD if another process holds it, 0 without locks."""
    try:
        handle = os.open(work / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError:
        return 0
    with suppress(OSError):
        for _ in range(LOOKS):
            if lock_descriptor(handle, blocking=False):
                return handle
            time.sleep(LOOK)
        os.close(handle)
        return HELD
    os.close(handle)
    return 0


def _inherited(work: Path) -> int:
    """Return the descriptor of the folder's lock that this process was started with; 0 if there is none."""
    with suppress(OSError, ValueError):
        handle = int(os.environ.get(INHERITED, ""))
        if os.path.samestat(os.fstat(handle), os.stat(work / LOCK)):
            del os.environ[INHERITED]
            os.set_inheritable(handle, False)
            return handle
    return 0


def _is_locked(work: Path) -> bool | None:
    """True if a process holds the folder's lock; None if that cannot be tested. Tests do not disturb each other."""
    try:
        handle = os.open(work / LOCK, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place does not block
    except OSError as error:
        return False if isinstance(error, FileNotFoundError | NotADirectoryError) else None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return True if isinstance(error, BlockingIOError) else None
    finally:
        os.close(handle)
    return False


def _note(work: Path) -> dict[str, Any]:
    """Return the content of process.json; {} if it cannot be read."""
    try:
        note = json_text.read(work / PROCESS)
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
