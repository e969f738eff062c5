"""Seeded choices that come out the same on every platform and Python version."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices of one stream, named by `key`: equal keys give equal choices.

    Only `Random.random()` is used, the one method whose sequence Python promises to keep; a text seeds it
    through sha512, so that streams of different names have nothing to do with one another.
    """

    def __init__(self, *key: str | int) -> None:
        self._random = random.Random("/".join(str(part) for part in key))

    def below(self, n: int) -> int:
        """A whole number in 0..n-1."""
        return int(self._random.random() * n)

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self._random.random() < share

    def one(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[self.below(len(options))]

    def other(self, options: Sequence[T], than: T) -> T:
        """One of the options that is not `than`."""
        return self.one([option for option in options if option != than])

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """One of the options, each with its weight."""
        left = self._random.random() * sum(weight for _, weight in options)
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]

    def common(self, options: Sequence[T]) -> T:
        """One of the options, the first most often: the n-th with a weight of 1 / n, as Zipf found of words."""
        return self.weighted([(option, 1 / number) for number, option in enumerate(options, start=1)])

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a new order (Fisher and Yates)."""
        entries = list(items)
        for last in range(len(entries) - 1, 0, -1):
            other = self.below(last + 1)
            entries[last], entries[other] = entries[other], entries[last]
        return entries

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items."""
        return self.shuffled(items)[:count]
