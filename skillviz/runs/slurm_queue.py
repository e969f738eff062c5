"""What Slurm says of jobs: whether they wait, run or have ended, and how many are ahead. Read from squeue.

squeue forgets a job some minutes after its end (MinJobAge); sacct is asked then, where the cluster keeps accounts. No
answer is kept longer than KEPT seconds, and a job that has ended is not asked for again.
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
"""Set in the jobs that skillviz submits: a run inside somebody's interactive allocation is no such job."""
KEPT = 2.0  # seconds; a page looks once a second
PATIENCE = 20.0  # seconds that a busy controller may take
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
"""The class of a failure by the state that a job ended in; any other end is that of its process."""
NOT_AHEAD = ("Dependency", "DependencyNeverSatisfied", "BeginTime", "JobHeldUser", "JobHeldAdmin")
"""Reasons of waiting jobs that do not wait for a node."""


class Standing(NamedTuple):
    """Where a job stands: its state, why it waits, its partition and its priority there."""

    job: str
    state: str
    reason: str
    partition: str
    priority: int


def read(text: str) -> dict[str, Standing]:
    """Job id (`12`, of an array `12_3`) to standing, from lines of FORMAT; other lines are left out."""
    standings = {}
    for line in text.splitlines():
        job, *fields = line.strip().split("|")
        if len(fields) == 4 and job.replace("_", "").isdigit() and fields[3].isdigit():
            standings[job] = Standing(job, first_word(fields[0]), fields[1], fields[2], int(fields[3]))
    return standings


def first_word(state: str) -> str:
    """`CANCELLED` of `CANCELLED by 1000`, `RUNNING` of `RUNNING+`; UNKNOWN of nothing."""
    return (state.split() or [UNKNOWN])[0].rstrip("+")


def is_there() -> bool:
    """Whether this machine has Slurm's commands."""
    return shutil.which("squeue") is not None


def answers() -> bool:
    """Whether a controller of Slurm answers this user, which takes some seconds where none does."""
    return _ask(_of_this_user()) is not None


def own_job() -> str | None:
    """The job that this process is, None outside of those that skillviz submits."""
    if os.environ.get(BATCH) is None:
        return None
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def attempt() -> int:
    """How many times this process's job was started before: after a time limit, a preemption or a lost node."""
    return int(os.environ.get("SLURM_RESTART_COUNT", 0))


def requeue() -> None:
    """Puts this process's own job back into the queue; Slurm ends the process right after."""
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scontrol", "requeue", str(own_job())], timeout=PATIENCE, check=False)


def state_of(job: str) -> str | None:
    """The state of a job of this user, UNKNOWN where Slurm has forgotten it; None where Slurm does not answer."""
    if job in _ended:
        return _ended[job]
    for fresh in (False, True):  # an answer from before it was submitted does not have it
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
    """Whether a job waits or runs; of one that Slurm does not answer for it is assumed."""
    state = state_of(job)
    return state is None or state in OPEN


def standing(job: str) -> Standing | None:
    """Where a waiting job stands; None where it does not wait."""
    return _waiting().get(job)


def ahead(job: str) -> int | None:
    """How many jobs of all users are ahead of a waiting job in its partition; None where it does not wait."""
    return jobs_ahead(job, _waiting())


def jobs_ahead(job: str, waiting: dict[str, Standing]) -> int | None:
    """How many of these waiting jobs come before one: those of its partition with a higher priority, else a lower
    number."""
    own = waiting.get(job)
    if own is None:
        return None
    others = [o for o in waiting.values() if o.partition == own.partition and o.reason not in NOT_AHEAD]
    return sum(_turn(other) < _turn(own) for other in others)


def forget() -> None:
    """The next question is asked of Slurm itself."""
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
    """What a command of Slurm prints; None where it is not there or fails."""
    asked, answer = _answers.get(words, (0.0, None))
    if asked and not fresh and time.monotonic() - asked < KEPT:
        return answer
    answer = None
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    _answers[words] = (time.monotonic(), answer)
    return answer
