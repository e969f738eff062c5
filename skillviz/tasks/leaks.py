"""The one comparison of texts: which examples a model has seen in training, in its own task or in another one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
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
    """What is left of a task's test examples: `leaked` are the ids left out, `rows` how many there were.

    `by` says how many of them each other task's training texts hold; a row that two hold is told for both.
    """

    task: str
    rows: int
    leaked: frozenset[str]
    by: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """What a table says of it; empty where nothing was left out."""
        if not self.leaked:
            return ""
        counts = ", ".join(f"{count:,} of {name}" for name, count in self.by.items() if count)
        return (
            f"{self.task}: {len(self.leaked):,} of {self.rows:,} test examples are left out: their text is also in the "
            f"training data of another task ({counts})."
        )


def unseen(tasks: Sequence[Task]) -> dict[str, Unseen]:
    """For each task, by name, which of its test examples the others' whole training splits hold."""
    texts = {task.name: training_texts(task) for task in tasks}
    return {task.name: _unseen(task, {n: d for n, d in texts.items() if n != task.name}) for task in tasks}


def training_texts(task: Task) -> frozenset[bytes]:
    """Digests of the texts of the task's whole training split, whatever part of it a run was searched on."""
    return frozenset(_digests(task, "train")[1])


def plain(text: Any) -> str:
    """The text's letters and digits in lower case: what two texts are compared by.

    In a text of plain Latin letters the few others are left out: sources write accents in different ways, or lose
    them to a wrong encoding. A text without letters and digits is compared as it is.
    """
    lower = str(text).lower()
    every, latin = NO_LETTER.sub("", lower), OTHER.sub("", lower)
    return (latin if len(latin) >= MOSTLY * len(every) else every) or str(text)


def digests(frame: pd.DataFrame) -> list[bytes]:
    """A digest of each example's letters and digits; both texts of a pair together, in their order."""
    columns: list[Iterable[Any]] = [frame[name] for name in ("text_a", "text_b") if name in frame]
    rows = ("\0".join(plain(text) for text in row) for row in zip(*columns, strict=True))
    return [hashlib.blake2b(row.encode(), digest_size=16).digest() for row in rows]


def _unseen(task: Task, training: Mapping[str, frozenset[bytes]]) -> Unseen:
    ids, test = _digests(task, "test")
    by = {name: sum(digest in texts for digest in test) for name, texts in training.items()}
    everyone = frozenset().union(*training.values())
    leaked = frozenset(name for name, digest in zip(ids, test, strict=True) if digest in everyone)
    return Unseen(task.name, len(ids), leaked, by)


def _digests(task: Task, split: str) -> tuple[list[str], list[bytes]]:
    """Ids and digests of a whole split, whatever part of it a model was trained or scored on."""
    source = opened(task, (split,))[split]
    frame = source.frame(task, np.arange(len(source.rows)))
    return frame["example_id"].tolist(), digests(frame)
