"""A job as a watcher sees it: its run or study, its status and its progress. Its two kinds are in jobs.kinds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from skillviz.errors import UNKNOWN, StoreError
from skillviz.jobs.backend import Backend
from skillviz.runs.folder import OPEN
from skillviz.runs.record import Failure, RunRecord
from skillviz.runs.spec import RunSpec

Kind = Literal["run", "study"]
JobStatus = Literal["queued", "running", "finished", "failed", "cancelled", "stopped", "unknown"]
RESUMABLE = ("failed", "cancelled", "stopped", UNKNOWN)

Event = dict[str, Any]


@dataclass(frozen=True)
class Job(ABC):
    """A process that makes one run or one study; each kind of job defines how it is cancelled, launched and followed.

    `name` is the run's id or the study's name. A run waits for the device `slot`; `position` counts the jobs ahead of
    it while it is queued or running: 0 has the device (or is about to), 1 is next. A study whose process ended early
    without a cancel is `stopped`. `unknown` is a job whose process cannot be seen from this machine: only a user may
    resume it.
    """

    kind: ClassVar[Kind]
    name: str
    path: Path
    status: JobStatus
    slot: str = field(default="", kw_only=True)
    position: int | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def title(self) -> str:
        """The job in a sentence: `run x`, `the study 'x'`."""

    @property
    def is_open(self) -> bool:
        """True if the job is queued or running, so that it can be cancelled."""
        return self.status in OPEN

    @property
    def is_resumable(self) -> bool:
        """True if a user may resume the job: it ended early, or may have."""
        return self.status in RESUMABLE

    @property
    def run(self) -> RunRecord:
        """The run.json of a job that makes one run; raises StoreError for any other."""
        raise StoreError(f"{self.title} is not a run; name a run by its id.")

    @property
    def run_id(self) -> str:
        """The id of a job that makes a run."""
        return self.run.run_id

    @property
    def spec(self) -> RunSpec:
        """The settings of a job that makes a run."""
        return self.run.spec

    @property
    def error(self) -> Failure | None:
        """The reason why the whole job failed or is unknown, and a hint on how to continue; None if it did not."""
        return None

    @property
    def failed_steps(self) -> Mapping[str, str]:
        """Maps the title of each failed step to the reason, for a job of many steps."""
        return {}

    @property
    def finished_steps(self) -> int:
        """The number of finished steps, for a job of many steps."""
        return 0

    @abstractmethod
    def progress(self, events: Sequence[Event]) -> JobProgress:
        """The progress of a running job, from its latest events."""

    @abstractmethod
    def check_resume(self, root: Path) -> None:
        """Raises the reasons against resuming the job that take long to find; called before anything is changed."""

    @abstractmethod
    def resume(self, root: Path, backend: Backend) -> None:
        """Starts the job again in its folder, on the same backend and from the same working directory as before."""

    @abstractmethod
    def announce_cancel(self, root: Path) -> None:
        """Leaves a mark that a process that is just starting will see; called before the job's process is ended."""

    @abstractmethod
    def close(self, root: Path) -> None:
        """Records the end in the folder and stops waiting for the process; called after the process has ended."""


@dataclass(frozen=True)
class JobProgress:
    """The progress of a job.

    `phase` is one of runs.process.PHASES, `steps` for a study, or the status of a job that is not running. `step` of
    `total` counts the steps done, over all searches of a run, or the steps of a study, whose next step is called
    `title`. `loss` (nats), `size`, `added` and `removed` (entries) belong to the last search step; `scored` is the
    share of the scoring that is done. None: not known, or not part of this phase.
    """

    phase: str
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    size: int | None = None
    added: int | None = None
    removed: int | None = None
    seconds_left: float | None = None
    scored: float | None = None
    title: str = ""

    @property
    def share(self) -> float | None:
        """Share of the steps that are done, 0 to 1."""
        return self.step / self.total if self.step is not None and self.total else None


def seconds_left(event: Event) -> float | None:
    """Seconds left by now, 0 if the estimated time has already passed; None if the event has no estimate."""
    left = event.get("left")
    return None if left is None else max(0.0, round(left - (time.time() - event["time"]), 1))
