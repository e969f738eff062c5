"""How many cores this process may use, and how many processes do a study's steps on them where nobody says."""

import os

from skillviz.studies.spec import StudySpec
from skillviz.studies.subject import is_demo_world


def cores() -> int:
    """Processors that this process may run on; those of the machine where the system tells no more."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def workers_for(study: StudySpec, there: int | None = None) -> int:
    """Processes on so many cores (those of here) where none are asked for: a model of the demo world cannot use two.

    Other models may be asked for at the demo world's scale: what counts is what the study asks for. Raises BadInput
    where it cannot be planned.
    """
    return min(2, there or cores()) if is_demo_world(study) else 1
