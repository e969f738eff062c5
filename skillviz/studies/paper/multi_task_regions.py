"""The regions of one model of several tasks, which two experiments search in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skillviz.models.finetune.recipes import MULTI_TASK
from skillviz.studies.paper.scales import size_text

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale

LOCALIZER = "stagewise"


def regions_of_tasks(scale: Scale) -> Entry:
    """Return one model of all tasks, and a region of each task, searched from the empty region with every mask seed."""
    return {
        **model_of(scale, scale.some("multi")), **scale.options.get(LOCALIZER, {}), "localizer": LOCALIZER,
        "options": {"start_share": 0.0, "candidate_share": 1.0}, "size": size_text(scale.sizes[0]),
        "seed": list(scale.mask_seeds),
    }  # fmt: skip


def model_of(scale: Scale, tasks: Sequence[str]) -> Entry:
    """Return the fields of a model of these tasks, with as many steps for each task as a model of it alone has."""
    steps = scale.training.get("steps")
    training: dict[str, Any] = {**scale.training, **({"steps": len(tasks) * steps} if steps else {})}
    return scale.several_tasks(MULTI_TASK, tasks, training)
