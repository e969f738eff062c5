"""Families of related tasks: the tasks of one family ask for the same kind of answer."""

from __future__ import annotations

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
