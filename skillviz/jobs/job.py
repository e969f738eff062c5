"""A job as a watcher sees it: what it makes, where it stands, how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillviz.runs.folder import OPEN
from skillviz.runs.record import Failure, RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.studies.store import StudyRecord

Kind = Literal["run", "study"]
JobStatus = Literal["queued", "running", "finished", "failed", "cancelled", "stopped"]
RESUMABLE = ("failed", "cancelled", "stopped")


@dataclass(frozen=True)
class Job:
    """A process that makes one run or one study.

    `name` is the run's id or the study's name; `record` is its run.json or study.json, None for a study that has not
    begun. A run waits for the device `slot`; `position` counts the jobs before it while it waits or runs: 0 has the
    device (or is about to), 1 is next. A study whose process ended early without a cancel is `stopped`.
    """

    kind: Kind
    name: str
    path: Path
    status: JobStatus
    record: RunRecord | StudyRecord | None = None
    slot: str = ""
    position: int | None = None

    @property
    def title(self) -> str:
        """The job in a sentence: `run x`, `the study 'x'`."""
        return f"run {self.name}" if self.kind == "run" else f"the study '{self.name}'"

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
        """The run.json of a job that makes a run."""
        assert isinstance(self.record, RunRecord)
        return self.record

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
        """Why the run failed, and what to do; None for a study, see `failed_steps`."""
        return self.record.error if isinstance(self.record, RunRecord) else None

    @property
    def failed_steps(self) -> dict[str, str]:
        """Title of each failed step of a study to the reason."""
        notes = self.record.steps.values() if isinstance(self.record, StudyRecord) else ()
        return {note.title: f"{note.error.kind}: {note.error.message}" for note in notes if note.error is not None}

    @property
    def finished_steps(self) -> int:
        """How many steps of a study are finished."""
        notes = self.record.steps.values() if isinstance(self.record, StudyRecord) else ()
        return sum(note.state == "finished" for note in notes)


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
