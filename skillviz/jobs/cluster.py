"""The cluster settings: the resources that a job may use, from the YAML file in $SKILLVIZ_CLUSTER, or cluster.yaml."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from skillviz.errors import BadInput, NoCluster
from skillviz.runs.slurm_queue import is_there
from skillviz.serving.settings import OURS
from skillviz.tasks.project import expanded, project_root
from skillviz.tasks.refusals import refused
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
    try:
        return ClusterSettings(**{str(name): value for name, value in content.items()})
    except ValidationError as error:
        field, reason = refused(error)
        if error.errors()[0]["type"] == "extra_forbidden":
            known = ", ".join(ClusterSettings.model_fields)
            raise BadInput(f"'{field}' is not a cluster setting; known: {known}.") from error
        raise BadInput(f"'{field}' of the cluster settings cannot be used: {reason}.") from error


def checked_settings() -> ClusterSettings:
    """The settings, if jobs can be submitted from this machine; otherwise raises NoCluster or BadInput."""
    if shutil.which("sbatch") is None or not is_there():
        raise NoCluster(
            "Slurm is not on this machine; leave out --cluster, or run this on a login node of your cluster."
        )
    return settings()
