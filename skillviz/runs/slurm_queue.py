"""The state of Slurm jobs, read from squeue: waiting, running or ended, and the number of jobs ahead.

squeue forgets a job some minutes after its end (MinJobAge); then sacct is used, if the cluster keeps accounts. An
answer is reused for at most KEPT seconds, and the state of an ended job is not requested again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from typing import NamedTuple

from skillviz.errors import NODE_FAILURE, OUT_OF_MEMORY, PREEMPTED, TIME_LIMIT

SLURM = "slurm"
BATCH = "SKILLVIZ_BATCH"
"""Set in the jobs that skillviz submits. A run inside a user's interactive allocation is not such a job."""
KEPT = 2.0  # seconds; a page asks once a second
PATIENCE = 20.0  # seconds to wait for a busy controller
FORMAT = "%i|%T|%r|%P|%Q"
PENDING, CANCELLED, UNKNOWN = "PENDING", "CANCELLED", "UNKNOWN"
OPEN = (
    PENDING, "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
    "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD",
)  # fmt: skip
FAILURES = {
    "OUT_OF_MEMORY": OUT_OF_MEMORY, "TIMEOUT": TIME_LIMIT, "DEADLINE": TIME_LIMIT, "NODE_FAIL": NODE_FAILURE,
    "BOOT_FAIL": NODE_FAILURE, "PREEMPTED": PREEMPTED,
}  # fmt: skip
"""The class of a failure by the final state of its job. In any other state the end is that of the job's process."""
NOT_AHEAD = ("Dependency", "DependencyNeverSatisfied", "BeginTime", "JobHeldUser", "JobHeldAdmin")
"""Reasons of waiting jobs that do not wait for a node."""


class Standing(NamedTuple):
    """The state of a waiting job: its state, the reason for waiting, its partition and its priority there."""

    job: str
    state: str
    reason: str
    partition: str
    priority: int


def read(text: str) -> dict[str, Standing]:
    """Return job id (`12`, or `12_3` in an array) to standing, from lines of FORMAT; other lines are ignored."""
    standings = {}
    for line in text.splitlines():
        job, *fields = line.strip().split("|")
        if len(fields) == 4 and job.replace("_", "").isdigit() and fields[3].isdigit():
            standings[job] = Standing(job, first_word(fields[0]), fields[1], fields[2], int(fields[3]))
    return standings


def first_word(state: str) -> str:
    """Return `CANCELLED` for `CANCELLED by 1000`, `RUNNING` for `RUNNING+`, and UNKNOWN for an empty text."""
    return (state.split() or [UNKNOWN])[0].rstrip("+")


def is_there() -> bool:
    """True if this machine has Slurm's commands."""
    return shutil.which("squeue") is not None


def answers() -> bool:
    """True if a controller of Slurm answers this user; without a controller this takes some seconds."""
    return _ask(_of_this_user()) is not None


def own_job() -> str | None:
    """Return the job of this process; None unless skillviz submitted it."""
    if os.environ.get(BATCH) is None:
        return None
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def attempt() -> int:
    """Return the number of earlier starts of this process's job: before a time limit, a preemption or a lost node."""
    return int(os.environ.get("SLURM_RESTART_COUNT", 0))


def requeue() -> None:
    """Put this process's own job back into the queue; Slurm then ends the process."""
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scontrol", "requeue", str(own_job())], timeout=PATIENCE, check=False)


def state_of(job: str) -> str | None:
    """Return the state of a job of this user: UNKNOWN if Slurm has forgotten it, None if Slurm does not answer."""
    if job in _ended:
        return _ended[job]
    for fresh in (False, True):  # an answer from before the submission does not contain the job
        answer = _ask(_of_this_user(), fresh)
        if answer is None:
            return None
        if (standing := read(answer).get(job)) is not None:
            state = standing.state
            break
    else:
        state = first_word(_ask(("sacct", "-n", "-X", "-P", "-o", "State", "-j", job)) or "")
    if state not in OPEN:
        _ended[job] = state
    return state


def is_open(job: str) -> bool:
    """True if a job waits or runs, or if Slurm does not answer."""
    state = state_of(job)
    return state is None or state in OPEN


def standing(job: str) -> Standing | None:
    """Return the standing of a waiting job; None if it does not wait."""
    return _waiting().get(job)


def ahead(job: str) -> int | None:
    """Return the number of jobs of all users ahead of a waiting job in its partition; None if it does not wait."""
    return jobs_ahead(job, _waiting())


def jobs_ahead(job: str, waiting: dict[str, Standing]) -> int | None:
    """Return the number of jobs before one in its partition, by higher priority and then by lower id."""
    own = waiting.get(job)
    if own is None:
        return None
    others = [o for o in waiting.values() if o.partition == own.partition and o.reason not in NOT_AHEAD]
    return sum(_turn(other) < _turn(own) for other in others)


def forget() -> None:
    """Clear the cached answers, so that the next request runs Slurm's command."""
    _answers.clear()


def _turn(standing: Standing) -> tuple[int, int, int]:
    array, _, task = standing.job.partition("_")
    return -standing.priority, int(array), int(task or 0)


def _waiting() -> dict[str, Standing]:
    known = read(_ask(("squeue", "--noheader", "--array", f"--states={PENDING}", f"--format={FORMAT}")) or "")
    return {job: standing for job, standing in known.items() if standing.state == PENDING}


def _of_this_user() -> tuple[str, ...]:
    return ("squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", f"--format={FORMAT}")


_answers: dict[tuple[str, ...], tuple[float, str | None]] = {}
_ended: dict[str, str] = {}


def _ask(words: tuple[str, ...], fresh: bool = False) -> str | None:
    """Return the output of a Slurm command; None if it is missing or fails."""
    asked, answer = _answers.get(words, (0.0, None))
    if asked and not fresh and time.monotonic() - asked < KEPT:
        return answer
    answer = None
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    _answers[words] = (time.monotonic(), answer)
    return answer
