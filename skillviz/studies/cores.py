"""How many cores this process may use, and how many processes do a study's steps on them where nobody says."""

import os

from skillviz.studies.scales import DEMO
from skillviz.studies.setting import is_demo_world
from skillviz.studies.spec import StudySpec


def cores() -> int:
    """Processors that this process may run on; those of the machine where the system tells no more."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def usual_workers(scale: str | None, there: int) -> int:
    """Processes on so many cores where none are asked for: models of the demo world are too small to use two in one."""
    return min(2, there) if scale == DEMO.name else 1


def workers_for(study: StudySpec, there: int) -> int:
    """The same of a study: by what it asks for, as other models may be asked for at the scale of the demo world.

    Raises BadInput where the study cannot be planned.
    """
    return usual_workers(DEMO.name if is_demo_world(study) else None, there)
