"""Bootstrap resamples of metrics as matrix products: a resample is how often it draws each example.

A statistic takes weights [resamples, n] (how often each example is drawn, each row summing to n) and returns the
metric of every resample. What depends on one example only is computed once, outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from skillviz.core.bins import BINS, bin_numbers, checked_bins, equal_mass_ranks, equal_width_edges
from skillviz.core.scores import (
    Floats,
    Integers,
    confidence,
    correct,
    f1_of,
    losses,
    outcomes,
    probabilities,
    squared_errors,
)
from skillviz.errors import BadInput

Statistic = Callable[[Floats], Floats]

METRICS = ("accuracy", "f1", "ece", "ece_equal_mass", "nll", "brier")
CELLS = 4_000_000  # weights held at a time: 32 MB
MOST_RESAMPLES = 1_000_000


def statistic(metric: str, logits: Floats, labels: Integers, positive: int = 1, bins: int = BINS) -> Statistic:
    """The metric as a function of weights; raises BadInput for a name that is not in METRICS."""
    if metric == "f1":
        table = outcomes(logits, labels, positive)
        return lambda weights: f1_of(weights @ table)
    if metric in ("ece", "ece_equal_mass"):
        sure = confidence(probabilities(logits))
        make = _equal_width if metric == "ece" else _equal_mass
        return make(sure, sure - correct(logits, labels), checked_bins(bins))
    per_example = {"accuracy": correct, "nll": losses, "brier": squared_errors}
    if metric not in per_example:
        raise BadInput(f"'{metric}' is not a metric; known: {', '.join(METRICS)}.")
    values = per_example[metric](logits, labels).astype(np.float64)
    return lambda weights: weights @ values / len(values)


def _equal_width(sure: Floats, gaps: Floats, bins: int) -> Statistic:
    """ECE: bins are fixed, so a resample's gap in a bin is a weighted sum of its examples' gaps."""
    used, column = np.unique(bin_numbers(sure, equal_width_edges(bins)), return_inverse=True)
    table = np.zeros((len(sure), len(used)))
    table[np.arange(len(sure)), column] = gaps
    return lambda weights: np.abs(weights @ table).sum(axis=1) / len(sure)


def _equal_mass(sure: Floats, gaps: Floats, bins: int) -> Statistic:
    """Equal-mass ECE: every resample has bins of its own, found in the running totals of sorted examples."""
    order = np.argsort(sure, kind="stable")
    ranks = equal_mass_ranks(len(sure), bins)
    ends = np.searchsorted(sure[order], sure[order], side="right")  # ties are never parted

    def values(weights: Floats) -> Floats:
        drawn = np.cumsum(weights[:, order], axis=1)
        gap = np.cumsum(weights[:, order] * gaps[order], axis=1)
        gap = np.concatenate([np.zeros((len(gap), 1)), gap], axis=1)
        last = np.stack([np.searchsorted(row, ranks - 0.5) for row in drawn])
        edges = np.take_along_axis(gap, ends[last], axis=1)
        return np.abs(np.diff(edges, axis=1, prepend=0.0)).sum(axis=1) / len(sure)

    return values


def draws(n: int, resamples: int, seed: int, cells: int = CELLS) -> Iterator[Floats]:
    """Weights [some, n] of `resamples` draws with replacement, in blocks of at most `cells` numbers.

    The draws depend on n and the seed alone, not on the blocks.
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
