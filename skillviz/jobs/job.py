"""A job as a watcher sees it: what was asked, where it stands, how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillviz.runs.folder import OPEN
from skillviz.runs.record import Failure, RunRecord, Status
from skillviz.runs.spec import RunSpec


@dataclass(frozen=True)
class Job:
    """The making of one run. `position` counts the jobs before it on its device, while it waits or runs:
    0 has the device (or is about to), 1 is next."""

    path: Path
    record: RunRecord
    slot: str
    position: int | None = None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.record.run_id

    @property
    def spec(self) -> RunSpec:
        """What was asked for."""
        return self.record.spec

    @property
    def status(self) -> Status:
        """What it is now: a job whose process is gone has failed (killed)."""
        return self.record.status

    @property
    def error(self) -> Failure | None:
        """Why it failed, and what to do."""
        return self.record.error

    @property
    def is_open(self) -> bool:
        """Whether it waits or runs, so that it can be cancelled."""
        return self.status in OPEN

    @property
    def is_resumable(self) -> bool:
        """Whether it ended early, so that it can go on where it stopped."""
        return self.status in ("failed", "cancelled")


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come. `phase` is one of runs.progress.PHASES, or the status of a job outside of them.

    `step` of `total` counts over all searches of the run; `loss` (nats), `size`, `added` and `removed` (entries)
    are those of the last step; `scored` is the share of the scoring that is done. None: not known, or not of this
    phase.
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

    @property
    def share(self) -> float | None:
        """Share of the searches' steps that are done, 0 to 1."""
        return self.step / self.total if self.step is not None and self.total else None
