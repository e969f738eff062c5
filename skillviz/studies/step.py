"""The steps of a study: fine-tune a model, find a region, score a model, or make the tables; and doing one step."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skillviz.core.comparison import Comparison
from skillviz.errors import BadInput, DiskFull, SkillvizError
from skillviz.runs.artifact import CURRENT, Artifact, Change, RunArtifact, Stored, Workshop
from skillviz.runs.record import Failure
from skillviz.runs.record_failure import failure_of
from skillviz.runs.score import ScoreArtifact
from skillviz.studies.federated import FederatedArtifact
from skillviz.studies.finetuned_model import FineTunedArtifact, task_name

TABLE = "table"
ARTIFACTS: dict[str, Any] = {
    each.kind: each for each in (FineTunedArtifact, RunArtifact, ScoreArtifact, FederatedArtifact)
}
KINDS = (*ARTIFACTS, TABLE)


@dataclass(frozen=True)
class StudyStep:
    """A piece of work, and the keys of the steps that must be done before it.

    `key` is the key of the spec (for the tables: "table"). `entry` are its labels, by which results are found: entry
    (its number), label, base, task, task_name, tasks, recipe, mode, stage, finetune_seed, data_seed, k_shot, localizer,
    sizes, size, seed, on, on_name, role (run, region or score), device; labels that do not apply are absent.
    """

    key: str
    kind: str
    title: str
    spec: Any
    needs: tuple[str, ...] = ()
    entry: Mapping[str, Any] = field(default_factory=dict)

    @property
    def artifact(self) -> Artifact:
        """The artifact that the step makes; invalid for the tables."""
        artifact: Artifact = ARTIFACTS[self.kind](self.spec)
        return artifact

    @property
    def pair(self) -> tuple[Any, ...] | None:
        """The pair and task that a session loads for this step; None if it needs none."""
        return None if self.kind == TABLE else self.artifact.pair

    @property
    def device(self) -> str:
        """The device to use: auto, cpu, cuda, cuda:<n>."""
        device = str(self.entry.get("device", "auto"))
        return device if self.kind == TABLE else self.artifact.device(device)


def name_of(task: str | None) -> str:
    """The name of a task; if its file cannot be read, the file's stem, and the study's check reports the error."""
    try:
        return task_name(task or "")
    except BadInput:
        return Path(task or "").stem


SKIPPED, FINISHED, FAILED = "skipped", "finished", "failed"


class Reply(NamedTuple):
    """The result of a step: skipped, finished or failed, its seconds, its failure, and the traceback of an internal
    error. `change` compares the sources of an artifact that was finished before with today's."""

    what: str
    seconds: float = 0.0
    failure: Failure | None = None
    change: Change = CURRENT
    trace: str = ""

    @property
    def is_disk_full(self) -> bool:
        """True if the disk is full, so that nothing else can be written either."""
        return self.failure is not None and self.failure.kind == DiskFull.__name__


def ensure(step: StudyStep, stored: Stored | None, workshop: Workshop) -> tuple[str, Change]:
    """Make the artifact unless it is finished and its sources are unchanged; raises any error of making it. Return
    SKIPPED or FINISHED, with the change of sources since it was last finished."""
    artifact = step.artifact
    finished = artifact.finished(workshop.store, stored)
    change = CURRENT if finished is None else artifact.changes(finished, workshop.store, workshop.session)
    if finished is not None and change.comparison is not Comparison.DIFFERENT:
        return SKIPPED, change
    artifact.make(workshop, step.device, stored)
    return FINISHED, change


def attempt(make: Callable[[], tuple[str, Change]], workshop: Workshop) -> Reply:
    """Run a step that may fail, and return its reply."""
    begun = time.perf_counter()
    try:
        what, change = make()
    except Exception as error:
        workshop.session.values.clear()
        trace = "" if isinstance(error, SkillvizError) else "".join(traceback.format_exception(error))
        return Reply(FAILED, time.perf_counter() - begun, failure_of(error), trace=trace)
    return Reply(what, time.perf_counter() - begun if what == FINISHED else 0.0, change=change)
