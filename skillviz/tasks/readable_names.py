"""How a task is called where somebody reads it: its name in the field, instead of the id in files and code."""

from __future__ import annotations

import re

from skillviz.tasks.paper import TASKS

SHORT = {name: task.title.partition(" (")[0] for name, task in TASKS.items()}
SHIPPED = {
    "sst2_sentences": "SST-2 sentences", "yelp_reviews": "Yelp reviews", "uci_yelp": "Yelp sentences",
    "uci_amazon": "Amazon sentences", "uci_imdb": "IMDb sentences", "clinc_domains": "CLINC domains",
}  # fmt: skip
"""Tasks of the shipped runs that are not built in; their definitions are files."""
OTHER_DATA = "_other_data"
"""What the name of a task ends with that is asked for beside another of the same name."""
ALONE = re.compile(r"(?<![\w./,:@`-])\w+(?![\w/@`-]|[.,:]\w)")
"""A word that is no part of a path, an option or somebody's longer name."""


def readable_name(task: str) -> str:
    """The name of a built-in task from its title, `SST-2`; of a task that ships, `SST-2 sentences`.

    Any other task is somebody's own and keeps the name that its file gives it.
    """
    if task.endswith(OTHER_DATA):
        return f"{readable_name(task.removesuffix(OTHER_DATA))} (other data)"
    return SHORT.get(task) or SHIPPED.get(task, task)


def name_beside(task: str, own: str) -> str:
    """What a task is called beside a run's own: by its name, unless that is the run's too."""
    return f"{task}{OTHER_DATA}" if task == own else task


def readable(words: str) -> str:
    """The words, with the names of the tasks that they speak of: `CR + my-reviews` of `cr + my-reviews`."""
    return ALONE.sub(lambda word: readable_name(word[0]), words)
