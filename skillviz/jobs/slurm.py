"""Jobs on a Slurm cluster: each is a batch job that runs the same command as a local one.

submitit writes the batch script and submits it. Its own way of running Python functions is not used: it would read a
pickle on the node.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from skillviz.errors import NoCluster
from skillviz.jobs.backend import LOCAL, Backend
from skillviz.jobs.cluster import ClusterSettings, checked_settings
from skillviz.runs import slurm_queue
from skillviz.runs.folder import LOG, WORK
from skillviz.runs.liveness import PROCESS, jobs_of, name_jobs
from skillviz.runs.process import environment
from skillviz.runs.slurm_queue import SLURM

POLL = 0.2  # seconds between two looks at a cancelled job
PATIENCE = 10.0  # seconds that a cancelled job has to end: its own, plus Slurm's
MOST_TASKS = 1000  # tasks in one array: Slurm's default limit (MaxArraySize) is 1001
FORWARDED = ("PYTHONPATH", "GOMP_SPINCOUNT")
"""Variables of this environment that a job needs, even if the cluster does not pass the environment on."""


class SlurmBackend:
    """Batch jobs of one user; settings are read when a job is submitted."""

    name = SLURM

    def refuse(self) -> None:
        """Raises NoCluster or BadInput if no job can be submitted from here now; Slurm may be slow to answer."""
        checked_settings()
        if not slurm_queue.answers():
            raise NoCluster(
                "Slurm's controller does not answer, so nothing can be submitted now. Leave out --cluster, or try "
                "again once `squeue` answers."
            )

    def start(self, folder: Path, words: Sequence[str], cwd: Path) -> None:
        """Submits the command; its output goes to the folder's log. Raises NoCluster if Slurm refuses it."""
        _name(folder, [_submit(checked_settings(), words, folder, cwd)])

    def start_steps(
        self, folder: Path, levels: Sequence[int], each: Sequence[str], last: Sequence[str], cwd: Path
    ) -> None:
        """Submits job arrays, with `levels` giving the number of tasks per level. Each task runs `each`, followed by
        the level and the index of the array's first task. A level waits for the end of the one before. The command
        `last` waits for all levels.

        If Slurm refuses a job, the jobs already submitted are cancelled.
        """
        settings, jobs, before = checked_settings(), list[str](), list[str]()
        try:
            for level, count in enumerate(levels):
                arrays = []
                for first in range(0, count, MOST_TASKS):
                    words, size = [*each, str(level), str(first)], min(MOST_TASKS, count - first)
                    arrays.append(_submit(settings, words, folder, cwd, before, size))
                    jobs += [f"{arrays[-1]}_{task}" for task in range(size)]
                before = arrays
            jobs.append(_submit(settings, last, folder, cwd, before))
        except NoCluster:
            _scancel(jobs)
            raise
        _name(folder, jobs)

    def cancel(self, folder: Path) -> None:
        """Calls scancel, on which a running job saves a checkpoint; waits for some seconds until Slurm has ended it."""
        jobs = jobs_of(folder / WORK)
        _scancel(jobs)
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            slurm_queue.forget()
            if not any(slurm_queue.is_open(job) for job in jobs):
                return
            time.sleep(POLL)


SLURM_BACKEND = SlurmBackend()


def backend_named(cluster: str | None) -> Backend:
    """The backend of a cluster's jobs; None is this machine."""
    return SLURM_BACKEND if cluster == SLURM else LOCAL


def _name(folder: Path, jobs: Sequence[str]) -> None:
    """Notes the job ids in the folder, unless the jobs have already begun and noted themselves."""
    slurm_queue.forget()
    if not (folder / WORK / PROCESS).exists():
        name_jobs(folder / WORK, jobs)


def _submit(
    settings: ClusterSettings,
    words: Sequence[str],
    folder: Path,
    cwd: Path,
    after: Sequence[str] = (),
    tasks: int | None = None,
) -> str:
    """Submits a job, or an array of `tasks`, and returns its id. The job begins after the jobs `after` have ended."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError  # heavy import
    from submitit.slurm.slurm import SlurmExecutor  # heavy import

    log = (folder / WORK / LOG).absolute()
    command = f"exec {shlex.join([sys.executable, '-m', 'skillviz', *words])}"  # so that signals reach it
    variables = {name: value for name, value in environment().items() if name in FORWARDED}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    options: dict[str, Any] = {
        **{name: True if value == "true" else value for name, value in settings.extra.items()},
        "time": settings.time, "requeue": True, "signal": f"B:USR2@{settings.notice}", "chdir": str(cwd),
        "output": str(log).replace("%", "%%"), "open-mode": "append",
    }  # fmt: skip
    optional = {
        "partition": settings.partition, "gpus-per-node": settings.gpus, "mem": settings.memory,
        "dependency": f"afterany:{':'.join(after)}" if after else None,
    }  # fmt: skip
    options |= {name: value for name, value in optional.items() if value}
    with TemporaryDirectory(prefix="skillviz-") as scripts:  # Slurm keeps its own copy
        executor = SlurmExecutor(scripts)
        executor.update_parameters(
            job_name=f"skillviz-{folder.name}"[:60], setup=[*exports, f"export {slurm_queue.BATCH}={SLURM}"],
            use_srun=False, stderr_to_stdout=True,
            additional_parameters=options,
        )  # fmt: skip
        if tasks is not None:
            executor.parameters["map_count"] = tasks
        try:
            return str(executor._submit_command(command).job_id)
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            raise NoCluster(f"Slurm refused the job: {_reason(error)}. Check the cluster settings.") from error


def _reason(error: BaseException) -> str:
    """The error message of sbatch, without its name and the trace around it."""
    lines = [line for line in str(error).splitlines() if "sbatch: error:" in line]
    said = [line.partition("sbatch: error:")[2].strip() for line in lines]
    return "; ".join(said).rstrip(".") or type(error).__name__


def _scancel(jobs: Sequence[str]) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        if jobs:
            words = ["scancel", *dict.fromkeys(job.partition("_")[0] for job in jobs)]
            subprocess.run(words, capture_output=True, timeout=slurm_queue.PATIENCE, check=False)
    slurm_queue.forget()
