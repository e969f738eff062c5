"""How many processes do a study's steps side by side where nobody says, and the words for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies.cores import cores, workers_for

if TYPE_CHECKING:
    from skillviz.studies.spec import StudySpec
    from skillviz.studies.status import Snapshot
    from skillviz.studies.step import Step


def default_for(study: StudySpec) -> int:
    """Processes for a study where none are asked for; raises BadInput where it cannot be planned."""
    return workers_for(study, cores())


def last_of(at: Snapshot) -> int:
    """Those that the study was begun with in this store; the default where it was not begun there."""
    return at.folder.record.workers if at.folder is not None else default_for(at.plan.study)


def time_left(at: Snapshot, workers: int) -> tuple[list[Step], str]:
    """The steps that are not there, and in words how long so many processes take for them; nothing takes nothing."""
    from skillviz.studies.estimate import estimates

    left = [step for step in at.plan.steps if not at.is_there(step)]
    if not left:
        return left, "nothing"
    side = f", with {workers} processes side by side" if workers > 1 else ""
    return left, estimates(at).words(left, workers) + side


def left_in_words(at: Snapshot, workers: int) -> str:
    """`4 of 6 steps left, about 3 min (...)`."""
    left, told = time_left(at, workers)
    return f"{len(left)} of {len(at.plan.steps)} steps left, {told}" if left else "nothing is left"
