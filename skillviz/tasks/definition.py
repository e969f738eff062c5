"""What a task asks and how it is scored, as one hash: with its data, all that a result depends on of a task."""

from __future__ import annotations

import hashlib
import json

from skillviz.tasks.task import Task

OF_DATA = frozenset({"data", "label", "classes", "drop"})
"""Which rows there are and what their labels are: the fingerprint of the examples tells of these."""
SAID = frozenset({"name", "title", "source", "path"})
"""What only names or describes the task."""


def definition(task: Task) -> str:
    """sha256 of the fields that change what a model is given or how it is scored.

    Fields that are not set are left out, so that the hash stays as fields are added; `positive` is told of F1 only.
    """
    told = task.model_dump(mode="json", exclude=set(OF_DATA | SAID | {"positive"}), exclude_defaults=True)
    if task.metric == "f1":
        told["positive"] = task.positive
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def same_definition(told: str | None, now: str | None) -> bool:
    """Whether a task is defined as it was told to be; a record that says nothing of it is taken at its word."""
    return not told or not now or told == now
