"""One step of a study, done: what is finished and current is left as it is."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from skillviz.errors import DiskFull, SkillvizError
from skillviz.runs.artifact import Stored, Workshop
from skillviz.runs.record import Failure
from skillviz.runs.record_failure import failure_of
from skillviz.studies.step import Step

SKIPPED, FINISHED, FAILED = "skipped", "finished", "failed"


class Reply(NamedTuple):
    """What became of a step: skipped, finished or failed, the seconds it took, why it failed, what had changed where
    it was done again, and where an error came from that is no user's."""

    what: str
    seconds: float = 0.0
    failure: Failure | None = None
    again: str = ""
    trace: str = ""

    @property
    def is_disk_full(self) -> bool:
        """Whether the disk is full: nothing else can be written either."""
        return self.failure is not None and self.failure.kind == DiskFull.__name__


def ensure(step: Step, stored: Stored | None, workshop: Workshop) -> tuple[str, str]:
    """SKIPPED where the artifact is finished and current, FINISHED once it is made, and then what had changed where it
    was finished before; raises what stops it."""
    artifact = step.artifact
    finished = artifact.finished(workshop.store, stored)
    changes = "" if finished is None else artifact.changes(finished, workshop.store, workshop.session)
    if finished is not None and not changes:
        return SKIPPED, ""
    artifact.make(workshop, step.device, stored)
    return FINISHED, changes


def attempt(make: Callable[[], tuple[str, str]], workshop: Workshop) -> Reply:
    """The reply of a step that may fail."""
    begun = time.perf_counter()
    try:
        what, again = make()
    except Exception as error:
        workshop.session.values.clear()
        trace = "" if isinstance(error, SkillvizError) else "".join(traceback.format_exception(error))
        return Reply(FAILED, time.perf_counter() - begun, failure_of(error), trace=trace)
    return Reply(what, time.perf_counter() - begun if what == FINISHED else 0.0, again=again)
