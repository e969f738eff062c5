"""Jobs on a Slurm cluster: each is a batch job that runs the same command as a local one.

submitit writes the batch script and submits it. Its own way of running Python functions is not used: it would read a
pickle on the node.

The resources that a job may use are in the YAML file in $SKILLVIZ_CLUSTER, or cluster.yaml.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from skillviz.errors import BadInput, NoCluster
from skillviz.jobs.backend import LOCAL, Backend
from skillviz.runs import slurm_queue
from skillviz.runs.folder import LOG, WORK
from skillviz.runs.liveness import PROCESS, jobs_of, name_jobs
from skillviz.runs.process import environment
from skillviz.runs.slurm_queue import SLURM, is_there
from skillviz.serving.settings import OURS
from skillviz.tasks.project import expanded, project_root
from skillviz.tasks.refusals import validated
from skillviz.tasks.yaml_files import TextLoader, read_yaml

VARIABLE = f"{OURS}CLUSTER"
FILE = "cluster.yaml"
LONGEST_NOTICE = 90  # seconds before its time limit at which a job gets the signal to save; at most a quarter of it
TIME = re.compile(r"(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?")
OURSELVES = (
    "array", "chdir", "dependency", "error", "gpus", "gpus-per-node", "input", "job-name", "mem", "no-requeue",
    "open-mode", "output", "parsable", "partition", "requeue", "signal", "time", "wait", "wrap",
)  # fmt: skip
"""Options of sbatch that skillviz sets, or that have a setting of their own."""


def _time(value: str) -> str:
    if not TIME.fullmatch(value) or seconds_of(value) < 60:
        raise ValueError(f"it is '{value}'; allowed are minutes (90), H:MM:SS or D-HH:MM:SS, and at least a minute")
    return value


def _memory(value: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,8}[KMGT]", value):
        raise ValueError(f"it is '{value}'; allowed is a number and K, M, G or T, such as 32G")
    return value


def _extra(values: dict[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if not re.fullmatch(r"[a-z][a-z-]*", name):
            raise ValueError(f"'{name}' is no long option of sbatch; write it without dashes in front, such as account")
        if name in OURSELVES:
            raise ValueError(f"'{name}' is set by skillviz, or by a setting of its own; leave it out of extra")
        if not value.isprintable():
            raise ValueError(f"the value of '{name}' holds a character that cannot be printed")
    return values


class ClusterSettings(BaseModel):
    """The resources of each job. `gpus` is the number per job; `extra` holds more options of sbatch by their long
    name, with the value `true` for an option without a value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: str | None = Field(default=None, pattern=r"^[\w.,-]+$")
    gpus: int = Field(default=0, ge=0, le=64)
    time: Annotated[str, AfterValidator(_time)]
    memory: Annotated[str, AfterValidator(_memory)] | None = None
    extra: Annotated[dict[str, str], AfterValidator(_extra)] = Field(default_factory=dict)

    @property
    def notice(self) -> int:
        """Seconds before its time limit at which a job gets the signal to save."""
        return min(LONGEST_NOTICE, seconds_of(self.time) // 4)


def seconds_of(time: str) -> int:
    """The seconds in a time limit, in Slurm's formats: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    match = TIME.fullmatch(time)
    assert match is not None
    days, *fields = (int(field) if field else None for field in match.groups())
    given = [field for field in fields if field is not None]
    if days is None and len(given) < 3:
        minutes, seconds = (*given, 0)[:2]
        return 60 * minutes + seconds
    hours, minutes, seconds = (*given, 0, 0)[:3]
    return ((24 * (days or 0) + hours) * 60 + minutes) * 60 + seconds


def settings_path() -> Path:
    """The path of the settings file, whether or not it exists."""
    chosen = os.environ.get(VARIABLE)
    return Path(expanded(chosen)) if chosen else project_root() / FILE


def is_set_up() -> bool:
    """True if the settings file exists. Pages offer the cluster only then."""
    return settings_path().is_file()


def settings() -> ClusterSettings:
    """The settings; raises NoCluster if there is no settings file, BadInput if it cannot be used."""
    path = settings_path()
    if not path.is_file():
        raise NoCluster(
            f"there are no cluster settings in {path}; write its time limit there, such as `time: 2:00:00`, or name "
            f"another file in {VARIABLE} (docs/jobs.md)."
        )
    content = read_yaml(path, f"the cluster settings {path}", TextLoader)
    if not isinstance(content, dict):
        raise BadInput(f"the cluster settings {path} are not a list of `name: value` lines (docs/jobs.md).")
    values = {str(name): value for name, value in content.items()}
    return validated(ClusterSettings, values, "the cluster settings", "a cluster setting")


def checked_settings() -> ClusterSettings:
    """The settings, if jobs can be submitted from this machine; otherwise raises NoCluster or BadInput."""
    if shutil.which("sbatch") is None or not is_there():
        raise NoCluster(
            "Slurm is not on this machine; leave out --cluster, or run this on a login node of your cluster."
        )
    return settings()


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
