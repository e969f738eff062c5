"""The label column of a source as label numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from skillviz.errors import BadData
from skillviz.tasks.reading import cells
from skillviz.tasks.task import Task


def label_texts(dataset: Any, task: Task, shown: str) -> np.ndarray:
    """The label column as texts: class names where the source declares names that the task knows."""
    feature = dataset.features[task.label]
    names: list[str] = getattr(feature, "names", None) or []
    use_names = bool(names) and (bool(task.classes) or set(names) <= set(task.labels))

    def text(value: Any) -> str:
        if value is None or value != value:
            return ""
        if use_names and value >= 0:
            return str(names[value])
        return str(value)

    return np.array([text(value) for value in cells(dataset, task.label, shown)], dtype=object)


def label_numbers(values: np.ndarray, task: Task, shown: str) -> np.ndarray:
    """Label of each row, int64, -1 where the task drops it; raises BadData at a value that is neither.

    Values are names or indices of `task.labels`, or keys of `task.classes` where the task has them.
    """
    distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    found = np.empty(len(distinct), dtype=np.int64)
    for i in np.argsort(first):
        value = str(distinct[i])
        number = -1 if value in task.drop else _number(value, task)
        if number is None:
            allowed = ", ".join(f"'{name}'" for name in task.classes or task.labels)
            indices = "" if task.classes or _numeric(task) else f", or the indices 0 to {len(task.labels) - 1}"
            what = "no label" if value == "" else f"the label '{value}'"
            raise BadData(
                f"{shown} has {what} in row {first[i] + 1} (column '{task.label}'); "
                f"task '{task.name}' allows {allowed}{indices}."
            )
        found[i] = number
    return found[inverse]


def _number(value: str, task: Task) -> int | None:
    """The label that a cell names, by name or index; None where it names none."""
    whole = re.sub(r"^(-?\d+)\.0+$", r"\1", value)  # 1.0, as pandas writes whole numbers beside a gap
    for name in (value, whole):
        if name in task.classes:
            return task.labels.index(task.classes[name])
        if not task.classes and name in task.labels:
            return task.labels.index(name)
    if task.classes or _numeric(task):  # where names are numbers ("1" to "5"), a number is never an index
        return None
    if value.lower() in ("true", "false"):
        lowered = [label.lower() for label in task.labels]
        return lowered.index(value.lower()) if value.lower() in lowered else int(value.lower() == "true")
    return int(whole) if whole.isdecimal() and int(whole) < len(task.labels) else None


def _numeric(task: Task) -> bool:
    return any(label.lstrip("-").isdecimal() for label in task.labels)
