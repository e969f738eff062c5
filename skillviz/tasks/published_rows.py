"""The numbers of examples in the built-in tasks, so that the needs of a plan are known before data are downloaded."""

from __future__ import annotations

from typing import NamedTuple

from skillviz.tasks.task import Task


class PublishedRows(NamedTuple):
    """Rows of the splits that are read as train and test, and the mean number of words of an example."""

    train: int
    test: int
    words: float


# Rows: as stated by the sources. Words: means of 400 training rows of public copies. The two sets without neutral use
# the values of MNLI and SNLI, whole Yelp reviews use the copy in the studies, and Amazon is without titles.
PUBLISHED_ROWS = {
    "sst2": PublishedRows(6_920, 1_821, 18.8),
    "cr": PublishedRows(3_012, 753, 20.0),
    "mr": PublishedRows(8_530, 1_066, 21.3),
    "mpqa": PublishedRows(8_603, 2_000, 3.5),
    "trec": PublishedRows(5_452, 500, 10.3),
    "ag_news": PublishedRows(120_000, 7_600, 31.5),
    "subj": PublishedRows(8_000, 2_000, 23.8),
    "qnli": PublishedRows(104_743, 5_463, 35.6),
    "snli": PublishedRows(549_367, 9_824, 20.7),
    "mnli": PublishedRows(392_702, 9_815, 28.7),
    "rte": PublishedRows(2_490, 277, 51.9),
    "mrpc": PublishedRows(3_668, 408, 44.5),
    "qqp": PublishedRows(363_846, 40_430, 22.0),
    "imdb": PublishedRows(25_000, 25_000, 225.8),
    "yelp": PublishedRows(560_000, 38_000, 128.6),
    "amazon": PublishedRows(3_600_000, 400_000, 75.0),
    "mnli_01": PublishedRows(261_802, 6_692, 28.7),
    "snli_01": PublishedRows(366_603, 6_605, 20.7),
}


def published_counts(
    task: Task,
    k_shot: int | None = None,
    max_train: int | None = None,
    max_validation: int | None = None,
    max_test: int | None = None,
) -> dict[str, int]:
    """The approximate number of examples in each split after sampling; classes are assumed to be of equal size.

    k-shot as in tasks/sample.py: up to k per class for training, at most four fifths of the rows, and up to k of the
    rest. Otherwise a tenth of the training rows is validation. Raises KeyError for a task that is not in the table.
    """
    rows, labels = PUBLISHED_ROWS[task.name], len(task.labels)
    if k_shot:
        train = min(k_shot * labels, rows.train * 4 // 5)
        validation = min(k_shot * labels, rows.train - train)
    else:
        validation = rows.train // 10
        train = rows.train - validation
    most = {"train": max_train, "validation": max_validation, "test": max_test}
    counts = {"train": train, "validation": validation, "test": rows.test}
    return {split: min(count, most[split] or count) for split, count in counts.items()}
