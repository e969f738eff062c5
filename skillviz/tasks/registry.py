"""Tasks by name, and a user's own by path."""

from __future__ import annotations

from pathlib import Path

from skillviz.errors import UnknownTask
from skillviz.tasks.paper import TASKS
from skillviz.tasks.project import expanded, located
from skillviz.tasks.task import Files, Task
from skillviz.tasks.user_file import data_files, read_task

__all__ = ["TASKS", "defined", "task", "with_data"]

YAML = (".yaml", ".yml")
EXAMPLE_TASKS = "examples/tasks"
"""The folder of the examples' task files, from the project's root."""


def task(name: str | Path | Task, field: str | None = None) -> Task:
    """The task of a registry name or of a YAML file, whose data files must exist; raises UnknownTask.

    Variables in a file's name are filled in; if `field` is given, a variable that is not set raises BadInput.
    """
    return name if isinstance(name, Task) else with_data(defined(name, field))


def with_data(known: Task) -> Task:
    """The task; raises BadInput or BadData if one of its data files is missing."""
    if isinstance(known.data, Files):
        data_files(known)
    return known


def defined(name: str | Path, field: str | None = None) -> Task:
    """The task as in `task`, but without checking that its data exist: its prompts and its labels."""
    written = expanded(str(name), field)
    if written.lower().endswith(YAML):
        path = located(written)
        if not path.is_file():
            raise UnknownTask(f"there is no task file {written}; how to write one: docs/add-a-task.md.")
        return read_task(path)
    key = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    if key not in TASKS:
        example = f"{EXAMPLE_TASKS}/{key}.yaml"
        is_there = key.isidentifier() and located(example).is_file()
        hint = f"The example's is {example}." if is_there else "Add one: docs/add-a-task.md."
        raise UnknownTask(f"'{name}' is not a task; known: {', '.join(sorted(TASKS))}. {hint}")
    return TASKS[key]
