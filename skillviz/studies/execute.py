"""Run one step of a study; a finished and current artifact is kept."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from skillviz.core.comparison import Comparison
from skillviz.errors import DiskFull, SkillvizError
from skillviz.runs.artifact import CURRENT, Change, Stored, Workshop
from skillviz.runs.record import Failure
from skillviz.runs.record_failure import failure_of
from skillviz.studies.step import StudyStep

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
