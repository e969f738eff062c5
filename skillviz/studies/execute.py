"""One step of a study, done: what is finished and current is left as it is."""

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
from skillviz.studies.step import Step

SKIPPED, FINISHED, FAILED = "skipped", "finished", "failed"


class Reply(NamedTuple):
    """What became of a step: skipped, finished or failed, the seconds it took, why it failed, and where an error came
    from that is no user's. `change` compares the sources of an artifact that was finished before with today's."""

    what: str
    seconds: float = 0.0
    failure: Failure | None = None
    change: Change = CURRENT
    trace: str = ""

    @property
    def is_disk_full(self) -> bool:
        """Whether the disk is full: nothing else can be written either."""
        return self.failure is not None and self.failure.kind == DiskFull.__name__


def ensure(step: Step, stored: Stored | None, workshop: Workshop) -> tuple[str, Change]:
    """SKIPPED where the artifact is finished and no source of it has changed, FINISHED once it is made, with the change
    of its sources where it was finished before; raises what stops it."""
    artifact = step.artifact
    finished = artifact.finished(workshop.store, stored)
    change = CURRENT if finished is None else artifact.changes(finished, workshop.store, workshop.session)
    if finished is not None and change.comparison is not Comparison.DIFFERENT:
        return SKIPPED, change
    artifact.make(workshop, step.device, stored)
    return FINISHED, change


def attempt(make: Callable[[], tuple[str, Change]], workshop: Workshop) -> Reply:
    """The reply of a step that may fail."""
    begun = time.perf_counter()
    try:
        what, change = make()
    except Exception as error:
        workshop.session.values.clear()
        trace = "" if isinstance(error, SkillvizError) else "".join(traceback.format_exception(error))
        return Reply(FAILED, time.perf_counter() - begun, failure_of(error), trace=trace)
    return Reply(what, time.perf_counter() - begun if what == FINISHED else 0.0, change=change)
