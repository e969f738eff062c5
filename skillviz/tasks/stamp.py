"""What tells that a task's files have changed, without reading them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skillviz.tasks.task import Files, Task
from skillviz.tasks.user_file import data_files


def task_stamp(task: Task) -> list[list[Any]]:
    """Name, size and time of every file that the task is read from; its name alone for data on a hub."""
    if not isinstance(task.data, Files):
        return [[task.name]]
    paths = [*([task.path] if task.path else []), *data_files(task).values()]
    return [file_stamp(path) for path in paths]


def file_stamp(path: Path) -> list[Any]:
    """Name, size and time of one file."""
    found = path.stat()
    return [str(path), found.st_size, found.st_mtime_ns]
