"""The processes that make runs and studies: their environment, how to tell if they are alive, and how to stop them."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
from filelock import BaseFileLock

from skillviz import json_text
from skillviz.atomic import write_text
from skillviz.errors import SkillvizError
from skillviz.locks import NOT_OURS, lock_at
from skillviz.runs import slurm_queue
from skillviz.runs.progress import Progress, Report
from skillviz.tasks.project import importable

PROCESS = "process.json"
LAUNCH = "launch.json"
LOCK = "process.lock"
PLACE = ("boot", "space")  # in process.json: the machine's boot and the container's pid namespace
CLOCK = 2.0  # seconds by which two readings of a process's start time may differ
SPIN = "GOMP_SPINCOUNT"
LOOK = 1.0  # seconds to wait for a lock that another process holds briefly to test it
GRACE = 0.8  # seconds that a step may take after the signal before it is interrupted
SIGNALS = (signal.SIGINT, signal.SIGTERM)
TIME_IS_UP = signal.SIGUSR2
"""The signal that Slurm sends some time before a job's time limit."""
CLUSTER = "cluster"
"""In launch.json: the cluster to which a job was submitted."""
JOBS, ATTEMPT, END = "jobs", "attempt", "end"
"""In process.json of a folder on a cluster: its jobs, the number of their earlier starts, and their end."""


class Suspended(KeyboardInterrupt):
    """Raised if the cluster ends this process, whose job will resume from the checkpoint.

    `time_is_up` means that the time limit was reached, so that the job itself must requeue.
    """

    def __init__(self, time_is_up: bool) -> None:
        super().__init__()
        self.time_is_up = time_is_up


def name_process(work: Path, pid: int) -> None:
    """Record the process on this machine that works on a folder; raises psutil.Error if it has ended.

    If it is this process, it also holds the folder's lock from now on, so that other machines can tell that it is
    alive.
    """
    process = psutil.Process(pid)
    owner = {"pid": process.pid, "started": process.create_time(), "host": os.uname().nodename, **_place()}
    job = slurm_queue.own_job()
    batch = {} if job is None else {JOBS: [job], ATTEMPT: slurm_queue.attempt()}
    write_text(work / PROCESS, json.dumps({**owner, "ticks": _ticks(pid), **batch}))
    if pid == os.getpid():
        _hold(work)


def name_jobs(work: Path, jobs: Sequence[str]) -> None:
    """Record the cluster jobs that work on a folder, or will; this process releases its lock."""
    write_text(work / PROCESS, json.dumps({JOBS: list(jobs)}))
    let_go(work)


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


def unname_process(work: Path) -> None:
    """Remove the record of the process, and release the folder's lock. An unwritable folder stays as it is."""
    with suppress(OSError):
        (work / PROCESS).unlink(missing_ok=True)
    let_go(work)


def let_go(work: Path) -> None:
    """Release this process's lock on the folder."""
    if (lock := _locks.pop(work.resolve(), None)) is not None:
        lock.release()


_locks: dict[Path, BaseFileLock] = {}
"""The locks that this process holds, by folder; the system releases them when the process ends."""


def _hold(work: Path) -> None:
    if work.resolve() in _locks:
        return
    lock = lock_at(work / LOCK, timeout=LOOK, thread_local=False)  # another thread may release it
    with suppress(*NOT_OURS):
        lock.acquire()
        _locks[work.resolve()] = lock


def _is_held(work: Path) -> bool:
    """True if a process, here or elsewhere, holds the folder's lock, or if that cannot be tested."""
    lock = lock_at(work / LOCK, blocking=False)
    if not os.path.exists(lock.lock_file):
        return False
    if work.resolve() in _locks:
        return True
    try:
        with lock:
            return False
    except NOT_OURS:
        return True


def _place() -> dict[str, str]:
    """Return the machine boot and the process namespace in which a pid is valid; {} on systems other than Linux."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return dict(zip(PLACE, (boot, os.readlink("/proc/self/ns/pid")), strict=True))
    return {}


def _ticks(pid: int) -> int | None:
    """Return the start of a process in ticks since the machine's boot, which no clock change affects."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


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


def is_alive(work: Path, besides: int = 0) -> bool:
    """True while the process named in work/process.json runs, or the cluster has a job of the folder open.

    Only the cluster knows about a job that waits, also after its node was lost. For a job that asks about itself, the
    process decides, since the process of an earlier attempt has ended.
    """
    jobs = jobs_of(work)
    if jobs and slurm_queue.own_job() not in jobs and slurm_queue.is_there():
        return any(slurm_queue.is_open(job) for job in jobs)
    return _has_process(work, besides)


def _has_process(work: Path, besides: int) -> bool:
    """True while the process named in work/process.json runs.

    Since pids are reused, the start time must match too, in ticks since the machine's boot. A process on another
    machine or in another container counts as alive while it holds the folder's lock. The process with the pid `besides`
    on this machine does not count.
    """
    owner = _owner(work)
    if owner is None:
        return False
    if not owner.is_here:
        return not owner.is_of_earlier_attempt and _is_held(work)
    process = owner.process()
    return process is not None and process.pid != besides


def process_of(work: Path) -> psutil.Process | None:
    """Return the living process that works on a folder, if this process can see and signal it."""
    owner = _owner(work)
    with suppress(psutil.Error):
        return owner.process() if owner is not None and owner.is_here else None
    return None


@dataclass(frozen=True)
class _Owner:
    """The content of process.json: a pid, its process's start, and if the pid is valid here (`is_here`)."""

    pid: int
    started: float
    ticks: int | None
    is_here: bool
    is_of_earlier_attempt: bool = False  # of this same cluster job, on a node that was lost

    def process(self) -> psutil.Process | None:
        """Return the process, or None if it has ended; only for a pid that is valid here."""
        try:
            process = psutil.Process(self.pid)
            if self.ticks is None:
                is_it = abs(process.create_time() - self.started) < CLOCK
            else:
                is_it = self.ticks == _ticks(self.pid)
            return process if is_it and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


def _owner(work: Path) -> _Owner | None:
    """Return the owner recorded in a folder; None if there is none or the record cannot be read."""
    try:
        note = _note(work)
        place = {name: note[name] for name in PLACE if name in note}
        is_here = place == _place() if place else note["host"] == os.uname().nodename
        was_lost = slurm_queue.own_job() in note.get(JOBS, ()) and note.get(ATTEMPT) != slurm_queue.attempt()
        owner = _Owner(int(note["pid"]), float(note["started"]), note.get("ticks"), is_here, was_lost)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return owner if owner.pid > 0 else None


def _note(work: Path) -> dict[str, Any]:
    """Return the content of process.json; {} if it cannot be read."""
    try:
        note = json_text.read(work / PROCESS)
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


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
