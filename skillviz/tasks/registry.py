"""Tasks by name, and a user's own by path."""

from __future__ import annotations

from pathlib import Path

from skillviz.errors import UnknownTask
from skillviz.tasks.paper import TASKS
from skillviz.tasks.project import expanded, located
from skillviz.tasks.task import Files, Task
from skillviz.tasks.user_file import data_files, read_task

__all__ = ["TASKS", "task"]

YAML = (".yaml", ".yml")


def task(name: str | Path | Task) -> Task:
    """The task of a registry name or of a YAML file, whose data files must be there; raises UnknownTask."""
    if isinstance(name, Task):
        return name
    told, path = expanded(str(name)), located(str(name))
    if told.lower().endswith(YAML):
        if not path.is_file():
            raise UnknownTask(f"there is no task file {told}; how to write one: docs/add-a-task.md.")
        found = read_task(path)
        if isinstance(found.data, Files):
            data_files(found)
        return found
    key = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    if key not in TASKS:
        raise UnknownTask(f"'{name}' is not a task; known: {', '.join(sorted(TASKS))}. Add one: docs/add-a-task.md.")
    return TASKS[key]
