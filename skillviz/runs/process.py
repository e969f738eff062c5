"""The processes that make runs and studies: their environment, whether they live, and how they are stopped."""

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
PLACE = ("boot", "space")  # in process.json: this start of the machine, this container's space of process numbers
CLOCK = 2.0  # seconds by which two readings of one process's start time may differ
SPIN = "GOMP_SPINCOUNT"
LOOK = 1.0  # seconds that somebody who asks whether a lock is held may hold it
GRACE = 0.8  # seconds that a step may take after the signal, before it is broken off
SIGNALS = (signal.SIGINT, signal.SIGTERM)
TIME_IS_UP = signal.SIGUSR2
"""What Slurm sends a while before a job's time limit."""
CLUSTER = "cluster"
"""In launch.json: the cluster that a job was submitted to."""
JOBS, ATTEMPT, END = "jobs", "attempt", "end"
"""In process.json, of a folder on a cluster: its jobs, how often they were started before, how they ended."""


class Suspended(KeyboardInterrupt):
    """The cluster ends this process, and its job goes on later from the checkpoint.

    `time_is_up`: at its time limit, so that the job itself has to go back into the queue.
    """

    def __init__(self, time_is_up: bool) -> None:
        super().__init__()
        self.time_is_up = time_is_up


def name_process(work: Path, pid: int) -> None:
    """Names the process of this machine that works on a folder; raises psutil.Error where it is gone.

    This process also holds the folder's lock from now on, so that those who cannot see it know that it lives.
    """
    process = psutil.Process(pid)
    owner = {"pid": process.pid, "started": process.create_time(), "host": os.uname().nodename, **_place()}
    job = slurm_queue.own_job()
    batch = {} if job is None else {JOBS: [job], ATTEMPT: slurm_queue.attempt()}
    write_text(work / PROCESS, json.dumps({**owner, "ticks": _ticks(pid), **batch}))
    if pid == os.getpid():
        _hold(work)


def name_jobs(work: Path, jobs: Sequence[str]) -> None:
    """Names the jobs of a cluster that work on a folder, or will; this process lets go of its lock."""
    write_text(work / PROCESS, json.dumps({JOBS: list(jobs)}))
    let_go(work)


def jobs_of(work: Path) -> list[str]:
    """The jobs of a cluster that a folder names."""
    jobs = _note(work).get(JOBS)
    return [job for job in jobs if isinstance(job, str)] if isinstance(jobs, list) else []


def end_on_cluster(work: Path) -> str | None:
    """The state that the folder's job ended in on its cluster; None where it has none, or Slurm does not say.

    It is noted, as Slurm forgets it.
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
    """No process is named any more, and this one lets go of the folder's lock; an unwritable folder stays as it is."""
    with suppress(OSError):
        (work / PROCESS).unlink(missing_ok=True)
    let_go(work)


def let_go(work: Path) -> None:
    """This process holds the folder's lock no longer."""
    if (lock := _locks.pop(work.resolve(), None)) is not None:
        lock.release()


_locks: dict[Path, BaseFileLock] = {}
"""The locks that this process holds, by folder; the system lets go of them with the process."""


def _hold(work: Path) -> None:
    if work.resolve() in _locks:
        return
    lock = lock_at(work / LOCK, timeout=LOOK, thread_local=False)  # another thread may let go of it
    with suppress(*NOT_OURS):
        lock.acquire()
        _locks[work.resolve()] = lock


def _is_held(work: Path) -> bool:
    """Whether a process, here or elsewhere, holds the folder's lock; where that cannot be asked, it is assumed to."""
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
    """Where numbers of processes mean what they mean here: this start of the machine, this container. {} off Linux."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return dict(zip(PLACE, (boot, os.readlink("/proc/self/ns/pid")), strict=True))
    return {}


def _ticks(pid: int) -> int | None:
    """When a process began, in the machine's own ticks since its start: no setting of the clock changes it."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def note_launch(work: Path, cwd: Path, **fields: str | int) -> None:
    """Stores where a folder's process was started and what with, so that it can be started again alike."""
    write_text(work / LAUNCH, json.dumps({"cwd": str(cwd), **fields}))


def launch_of(work: Path) -> dict[str, Any]:
    """The fields of `note_launch`, of them `cwd` in any case: this process's where none is stored, or it is gone."""
    fields: dict[str, Any] = {}
    with suppress(OSError, ValueError, TypeError):
        fields = dict(json_text.read(work / LAUNCH))
    cwd = fields.get("cwd")
    with suppress(OSError, ValueError):  # a name that no folder can have
        if isinstance(cwd, str) and cwd and Path(cwd).is_dir():
            return {**fields, "cwd": Path(cwd)}
    return {**fields, "cwd": Path.cwd()}


def is_alive(work: Path, besides: int = 0) -> bool:
    """True while the process named in work/process.json runs, or the cluster has a job of the folder open.

    Only the cluster knows of a job that waits, or that waits again after its node was lost. A job asks of itself, too:
    then its process counts, as one of an earlier attempt has ended.
    """
    jobs = jobs_of(work)
    if jobs and slurm_queue.own_job() not in jobs and slurm_queue.is_there():
        return any(slurm_queue.is_open(job) for job in jobs)
    return _has_process(work, besides)


def _has_process(work: Path, besides: int) -> bool:
    """True while the process named in work/process.json runs.

    A process number is used again after a while, so the start must agree too, in ticks since the machine's start. What
    cannot be seen from here, on another machine or in another container, lives while it holds the folder's lock. The
    one of number `besides` here does not count.
    """
    owner = _owner(work)
    if owner is None:
        return False
    if not owner.is_here:
        return not owner.is_of_earlier_attempt and _is_held(work)
    process = owner.process()
    return process is not None and process.pid != besides


def process_of(work: Path) -> psutil.Process | None:
    """The living process that works on a folder, where it can be seen and signalled from here."""
    owner = _owner(work)
    with suppress(psutil.Error):
        return owner.process() if owner is not None and owner.is_here else None
    return None


@dataclass(frozen=True)
class _Owner:
    """What process.json says: a number, when it began, and whether the number means the same process here."""

    pid: int
    started: float
    ticks: int | None
    is_here: bool
    is_of_earlier_attempt: bool = False  # of this very job of a cluster, on a node that was lost

    def process(self) -> psutil.Process | None:
        """The process itself, None where it has ended; only for one that is here."""
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
    """Who is named in a folder; None where nobody is, or the note cannot be read."""
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
    """What process.json says; {} where it cannot be read."""
    try:
        note = json_text.read(work / PROCESS)
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def environment() -> dict[str, str]:
    """This process's, with the package found first from any folder, and short waits."""
    return {**os.environ, **importable(), **short_waits()}


def short_waits() -> dict[str, str]:
    """What has threads that wait for each other spin for microseconds and then sleep; nothing where the environment
    says how they wait. It counts for whatever imports torch after it is set.

    GNU's OpenMP spins for milliseconds. Alone a search is as fast with short waits; beside one busy process on two
    cores a search of 10 s took 14 s instead of 43 s.
    """
    return {} if {SPIN, "OMP_WAIT_POLICY"} & os.environ.keys() else {SPIN: "1000"}


@contextmanager
def gently(report: Report, is_cancelled: Callable[[], bool] = lambda: False) -> Iterator[Report]:
    """A report that raises KeyboardInterrupt at the first step reported after Ctrl-C or SIGTERM.

    In a job of a cluster it raises Suspended, also at the signal before the time limit, unless `is_cancelled` then
    says that somebody asked for the end. What takes longer than GRACE is broken off, and so is everything by a second
    signal. Signals that are ignored stay so; outside the main thread, where Python takes no signals, nothing is
    changed.
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
