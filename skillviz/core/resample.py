"""Bootstrap resamples as matrix products: a resample is how often it draws each example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from skillviz.core.metrics import Statistic
from skillviz.core.scores import Floats
from skillviz.errors import BadInput

CELLS = 4_000_000  # weights held at a time: 32 MB
MOST_RESAMPLES = 1_000_000


def draws(n: int, resamples: int, seed: int, cells: int = CELLS) -> Iterator[Floats]:
    """Weights [some, n] of `resamples` draws with replacement, in blocks of at most `cells` numbers.

    Each row sums to n. The draws depend on n and the seed alone, not on the blocks.
    """
    if not 1 <= resamples <= MOST_RESAMPLES:
        raise BadInput(f"the number of resamples must be 1..{MOST_RESAMPLES:,}; got {resamples}.")
    generator, block = np.random.default_rng(seed), max(1, cells // n)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        picks = generator.integers(0, n, (rows, n)) + np.arange(rows)[:, None] * n
        yield np.bincount(picks.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def resampled_values(statistics: Sequence[Statistic], n: int, resamples: int, seed: int) -> list[Floats]:
    """Each statistic on the same resamples, one vector [resamples] a statistic."""
    blocks = [[of(weights) for of in statistics] for weights in draws(n, resamples, seed)]
    return [np.concatenate(column) for column in zip(*blocks, strict=True)]
