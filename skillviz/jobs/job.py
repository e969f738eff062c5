"""A job as a watcher sees it: what it makes, where it stands, how far it has come. Its two kinds are in jobs.kinds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from skillviz.errors import StoreError
from skillviz.jobs.backend import Backend
from skillviz.runs.folder import OPEN
from skillviz.runs.record import Failure, RunRecord
from skillviz.runs.spec import RunSpec

Kind = Literal["run", "study"]
JobStatus = Literal["queued", "running", "finished", "failed", "cancelled", "stopped"]
RESUMABLE = ("failed", "cancelled", "stopped")

Event = dict[str, Any]


@dataclass(frozen=True)
class Job(ABC):
    """A process that makes one run or one study; a kind of job says how it is cancelled, launched and followed.

    `name` is the run's id or the study's name. A run waits for the device `slot`; `position` counts the jobs before
    it while it waits or runs: 0 has the device (or is about to), 1 is next. A study whose process ended early without
    a cancel is `stopped`.
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
        """Whether it waits or runs, so that it can be cancelled."""
        return self.status in OPEN

    @property
    def is_resumable(self) -> bool:
        """Whether it ended early, so that it can continue where it stopped."""
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
        """Why the job failed as a whole, and what to do."""
        return None

    @property
    def failed_steps(self) -> Mapping[str, str]:
        """Title of each failed step of a job of many steps to the reason."""
        return {}

    @property
    def finished_steps(self) -> int:
        """How many steps of a job of many steps are finished."""
        return 0

    @abstractmethod
    def progress(self, events: Sequence[Event]) -> JobProgress:
        """How far a running job has come, from its latest events."""

    @abstractmethod
    def check_resume(self, root: Path) -> None:
        """Raises what stands against resuming it and takes long to see; before anything is begun."""

    @abstractmethod
    def resume(self, root: Path, backend: Backend) -> None:
        """Starts the job in its folder again, from where and as it was started."""

    @abstractmethod
    def announce_cancel(self, root: Path) -> None:
        """Before its process is ended: what one that starts just now must see."""

    @abstractmethod
    def close(self, root: Path) -> None:
        """After its process was ended: the folder says so, and nobody waits for it."""


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come.

    `phase` is one of runs.progress.PHASES, `steps` for a study, or the status of a job that does not run. `step` of
    `total` counts the steps done, over all searches of a run; those of a study, whose next step is called `title`.
    `loss` (nats), `size`, `added` and `removed` (entries) are those of the last search step; `scored` is the share of
    the scoring that is done. None: not known, or not of this phase.
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
    """Seconds left by now, 0 where more time has passed than was measured; None where nothing was."""
    left = event.get("left")
    return None if left is None else max(0.0, round(left - (time.time() - event["time"]), 1))
