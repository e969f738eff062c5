"""How a task is called where somebody reads it: its name in the field, instead of the id in files and code."""

from __future__ import annotations

import re

from skillviz.tasks.paper import TASKS

SEPARATORS = re.compile(r"[-_]+")
SHORT = {name: task.title.partition(" (")[0] for name, task in TASKS.items()}


def readable_name(task: str) -> str:
    """The name of a built-in task from its title, `SST-2`; of a version of one its beginning, `SST-2 sentences`; of
    any other task its own words, `film sentiment`.
    """
    if task in SHORT:
        return SHORT[task]
    words = SEPARATORS.split(task)
    for count in range(len(words) - 1, 0, -1):
        if (known := "_".join(words[:count])) in SHORT:
            return " ".join([SHORT[known], *words[count:]])
    return " ".join(words).strip() or task
