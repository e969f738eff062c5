"""Several trainees of one base with one body between them: what one moves, all have; heads stay their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from skillviz.errors import BadInput
from skillviz.models.finetune.trainer import Trainee, open_trainee
from skillviz.models.finetune.training_config import Recipe
from skillviz.models.finetune.training_data import Material
from skillviz.tasks.task import Task


def open_together(base: str, materials: Sequence[Material], recipe: Recipe, device: torch.device) -> list[Trainee]:
    """A trainee a task, all with the first one's body; each has its own classification head, where there is one."""
    first, *rest = (open_trainee(base, material.task, recipe, device) for material in materials)
    return [first, *(_joined(first, other) for other in rest)]


def together(trainees: Sequence[Trainee]) -> Trainee:
    """One trainee that moves the shared body and every head; its model is the first's."""
    first, *rest = trainees
    known = {id(p) for p in first.trained}
    heads = [p for other in rest for p in other.trained if id(p) not in known]
    return replace(first, trained=[*first.trained, *heads])


def check_tasks(tasks: Sequence[Task]) -> None:
    """Raises BadInput where two tasks would be written to one folder."""
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"the task '{name}' is given twice; name each task once.")
        if Path(name).name != name:
            raise BadInput(f"the task '{name}' cannot name a folder; give it a name without '/'.")


def _joined(first: Trainee, other: Trainee) -> Trainee:
    """The other with the first's parameters in place of its own, but for its head; their equal values are freed."""
    mine = dict(first.model.named_parameters())
    for name, parameter in list(other.model.named_parameters()):
        if name not in other.head:
            _put(other.model, mine[name], parameter)
    trained = [p for p in other.model.parameters() if p.requires_grad]
    return replace(other, trained=trained, start=first.start)


def _put(model: Any, parameter: torch.nn.Parameter, old: torch.nn.Parameter) -> None:
    """The parameter wherever the old one stands (tied weights stand in several places)."""
    for module in model.modules():
        for leaf, held in list(module._parameters.items()):
            if held is old:
                module._parameters[leaf] = parameter
