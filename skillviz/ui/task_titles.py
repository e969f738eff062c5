"""What tasks of studies are: their titles, read from the task files that ship, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import yaml

from skillviz.show import text
from skillviz.tasks.project import project_root

FOLDERS = ("benchmarks/tasks", "demo_world/tasks")


@lru_cache(maxsize=256)
def title(task: str) -> str:
    """The title of the task file of this name; empty where none ships."""
    if not re.fullmatch(r"[\w-]+", task):
        return ""
    for folder in FOLDERS:
        path = project_root() / folder / f"{task}.yaml"
        if path.is_file():
            told = yaml.safe_load(path.read_text(encoding="utf-8"))
            return str(told.get("title", "")) if isinstance(told, dict) else ""
    return ""


def told(tasks: Iterable[str]) -> str:
    """A line a task with its title, in Markdown; empty where no title is known."""
    known = {task: title(task) for task in dict.fromkeys(tasks)}
    return "\n\n".join(f"**{text.plain(task)}**: {text.plain(said)}." for task, said in known.items() if said)
