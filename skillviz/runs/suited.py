"""What a localizer cannot be used with, known before there is a run and without torch: some tasks, and lean mode."""

from __future__ import annotations

from skillviz.core.localizers.table import LOCALIZERS, Localizer
from skillviz.errors import BadInput
from skillviz.models.lean_files import INSTEAD, lean_refusal
from skillviz.models.preflight import Preflight
from skillviz.tasks.task import GENERATION, Task


def refuse_unsuited(row: Localizer, task: Task, check: Preflight, is_lean: bool) -> None:
    """Raises BadInput where a localizer cannot be used on a task, or not in lean mode with this pair."""
    error = (refused_lean(row, check) if is_lean else None) or refused_generation(row, task)
    if error is not None:
        raise error


def refused_lean(row: Localizer, check: Preflight | None) -> BadInput | None:
    """Why a localizer or a pair is not for lean mode; None where both are, as far as is known of the pair."""
    if not row.lean:
        names = ", ".join(name for name, other in LOCALIZERS.items() if other.lean)
        return BadInput(
            f"the localizer '{row.name}' keeps numbers for every parameter, which lean mode has no room for; use one "
            f"of {names}, or {INSTEAD}."
        )
    return None if check is None else lean_refusal(check)


def refused_generation(row: Localizer, task: Task) -> BadInput | None:
    """Why a localizer is not for a task with references; None where it is, and for other tasks."""
    if not row.compares_answers or task.kind != GENERATION:
        return None
    names = ", ".join(name for name, other in LOCALIZERS.items() if other.is_search and not other.compares_answers)
    return BadInput(
        f"the localizer '{row.name}' compares the scores of several answers, and "
        f"{'a text that is generated' if task.generates else 'each example'} has one reference; use another, such as "
        f"{names}."
    )
