"""How a task is called where somebody reads it: its name in the field, instead of the id in files and code."""

from __future__ import annotations

from skillviz.tasks.paper import TASKS

SHORT = {name: task.title.partition(" (")[0] for name, task in TASKS.items()}
VERSIONS = {"sst2_sentences": "SST-2 sentences", "yelp_reviews": "Yelp reviews"}
"""Versions of built-in tasks that come with the shipped runs; their definitions are files."""


def readable_name(task: str) -> str:
    """The name of a built-in task from its title, `SST-2`; of a shipped version of one, `SST-2 sentences`.

    Any other task is somebody's own and keeps the name that its file gives it.
    """
    return SHORT.get(task) or VERSIONS.get(task, task)
