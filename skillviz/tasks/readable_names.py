"""The readable names of tasks, used in the field instead of their ids; and the families of related tasks."""

from __future__ import annotations

import re

from skillviz.tasks.paper import TASKS

SHORT = {name: task.title.partition(" (")[0] for name, task in TASKS.items()}
SHIPPED = {
    "sst2_sentences": "SST-2 sentences", "yelp_reviews": "Yelp reviews", "uci_yelp": "Yelp sentences",
    "uci_amazon": "Amazon sentences", "uci_imdb": "IMDb sentences", "clinc_domains": "CLINC domains",
}  # fmt: skip
"""Tasks of the bundled runs that are not built in; their definitions are files."""
OTHER_DATA = "_other_data"
"""The suffix of a task's name that is scored in addition to the run's task and has the same name."""
ALONE = re.compile(r"(?<![\w./,:@`-])\w+(?![\w/@`-]|[.,:]\w)")
"""A word that is not part of a path, an option or a longer name."""


def readable_name(task: str) -> str:
    """The name of a built-in task from its title, `SST-2`; of a bundled task, `SST-2 sentences`.

    Any other task belongs to a user and keeps the name in its file.
    """
    if task.endswith(OTHER_DATA):
        return f"{readable_name(task.removesuffix(OTHER_DATA))} (other data)"
    return SHORT.get(task) or SHIPPED.get(task, task)


def name_beside(task: str, own: str) -> str:
    """The name of a task scored in addition to a run's own: its name, with a suffix if the run's task has the same."""
    return f"{task}{OTHER_DATA}" if task == own else task


def readable(words: str) -> str:
    """The text with the readable names of tasks in it: `CR + my-reviews` for `cr + my-reviews`."""
    return ALONE.sub(lambda word: readable_name(word[0]), words)


SAME, RELATED, UNRELATED = "same", "related", "unrelated"

FAMILIES = {
    "sentiment": (
        "sst2", "sst2_sentences", "mr", "cr", "mpqa", "imdb", "yelp", "yelp_reviews", "amazon",
        "uci_yelp", "uci_amazon", "uci_imdb",
    ),
    "inference": ("snli", "mnli", "qnli", "rte"),
    "paraphrase": ("mrpc", "qqp"),
    "topic": ("ag_news",),
    "subjectivity": ("subj",),
    "type": ("trec",),
}  # fmt: skip
"""The paper's tasks. Its figure groups SNLI and MNLI, with QNLI in another group; here all three are one family."""


def family(task: str) -> str:
    """The family of a task, by its name; a task that is not listed is its own family."""
    return next((name for name, tasks in FAMILIES.items() if task in tasks), task)


def relation(a: str, b: str) -> str:
    """`same`, `related` (one family) or `unrelated`."""
    if a == b:
        return SAME
    return RELATED if family(a) == family(b) else UNRELATED
