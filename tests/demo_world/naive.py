"""A classifier that only counts words: how far one gets in the demo world without reading."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

from demo_world.program.examples import Example

Features = Callable[[Example], Sequence[str]]


def words(row: Example) -> list[str]:
    """The words of all its texts, those of the second marked."""
    return [f"{number}:{word}" for number, text in enumerate(row.texts) for word in re.findall(r"\w+", text.lower())]


def last_words(row: Example) -> list[str]:
    """The words of its last text only: for pairs, the hypothesis."""
    return re.findall(r"\w+", row.texts[-1].lower())


def shared_words(row: Example) -> list[str]:
    """How many words of the second text the first has too, in tenths."""
    one, other = (set(re.findall(r"\w+", text.lower())) for text in row.texts)
    return [str(round(10 * len(one & other) / len(other)))]


def accuracy(train: Sequence[Example], test: Sequence[Example], features: Features = words) -> float:
    """Share of test rows that naive Bayes with add-one smoothing gets right."""
    labels = sorted({row.label for row in train})
    counts = {label: Counter(w for row in train if row.label == label for w in set(features(row))) for label in labels}
    sizes = Counter(row.label for row in train)

    def score(row: Example, label: int) -> float:
        seen = (math.log((counts[label][w] + 1) / (sizes[label] + 2)) for w in set(features(row)))
        return math.log(sizes[label]) + sum(seen)

    return sum(max(labels, key=lambda label: score(row, label)) == row.label for row in test) / len(test)
