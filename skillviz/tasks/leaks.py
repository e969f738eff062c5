"""Find examples that a model has seen in training, in their own task or in another, by comparing texts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.tasks.source import opened
from skillviz.tasks.task import Task

OTHER, NO_LETTER = re.compile(r"[^a-z0-9]+"), re.compile(r"[\W_]+")
MOSTLY = 0.8
"""A text with at least this share of a to z and 0 to 9 among its letters and digits is compared by these alone."""


@dataclass(frozen=True)
class Unseen:
    """A task's test examples after the leak check: `leaked` are the ids left out, `rows` the number of examples before.

    `by` counts, for each other task, the leaked rows in its training texts; a row in two tasks counts for both.
    """

    task: str
    rows: int
    leaked: frozenset[str]
    by: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """The sentence for a table; empty if no example was left out."""
        if not self.leaked:
            return ""
        counts = ", ".join(f"{count:,} of {name}" for name, count in self.by.items() if count)
        return (
            f"{self.task}: {len(self.leaked):,} of {self.rows:,} test examples are left out: their text is also in the "
            f"training data of another task ({counts})."
        )


def unseen(tasks: Sequence[Task]) -> dict[str, Unseen]:
    """For each task, by name, its test examples whose text is not in any other task's whole training split."""
    texts = {task.name: training_texts(task) for task in tasks}
    return {task.name: _unseen(task, {n: d for n, d in texts.items() if n != task.name}) for task in tasks}


def training_texts(task: Task) -> frozenset[bytes]:
    """Digests of the texts of the task's whole training split, even if a run was searched on part of it."""
    return frozenset(_digests(task, "train")[1])


def plain(text: Any) -> str:
    """The text's letters and digits in lower case: the form in which two texts are compared.

    In a text of mostly plain Latin letters the few others are left out: sources write accents in different ways, or
    lose them to a wrong encoding. A text without letters and digits is compared unchanged.
    """
    lower = str(text).lower()
    every, latin = NO_LETTER.sub("", lower), OTHER.sub("", lower)
    return (latin if len(latin) >= MOSTLY * len(every) else every) or str(text)


def digests(frame: pd.DataFrame) -> list[bytes]:
    """A digest of each example's letters and digits; the two texts of a pair together, in order."""
    columns: list[Iterable[Any]] = [frame[name] for name in ("text_a", "text_b") if name in frame]
    rows = ("\0".join(plain(text) for text in row) for row in zip(*columns, strict=True))
    return [hashlib.blake2b(row.encode(), digest_size=16).digest() for row in rows]


def _unseen(task: Task, training: Mapping[str, frozenset[bytes]]) -> Unseen:
    ids, test = _digests(task, "test")
    by = {name: sum(digest in texts for digest in test) for name, texts in training.items()}
    everyone = frozenset().union(*training.values())
    leaked = frozenset(name for name, digest in zip(ids, test, strict=True) if digest in everyone)
    return Unseen(task.name, len(ids), leaked, by)


def without(frame: pd.DataFrame, texts: Collection[bytes]) -> pd.DataFrame:
    """The examples of the frame whose digest is not among `texts`."""
    return frame[np.array([digest not in texts for digest in digests(frame)], dtype=bool)]


def whole_split(task: Task, split: str) -> pd.DataFrame:
    """All examples of a split, even if a model was trained or scored on part of it."""
    source = opened(task, (split,))[split]
    return source.frame(task, np.arange(len(source.rows)))


def _digests(task: Task, split: str) -> tuple[list[str], list[bytes]]:
    """Ids and digests of a whole split."""
    frame = whole_split(task, split)
    return frame["example_id"].tolist(), digests(frame)
