"""The noise that edges add to the calibration error of equal-mass bins, because edges are a sample's quantiles.

If the gap changes its sign near an edge, a small shift of the edge puts examples of both signs into one bin, where they
cancel, or separates them. An interval that takes the edges as fixed is then too narrow, by an amount that more examples
do not reduce. Here the edges are moved to where another sample's would be: the ranks of a sample's quantiles under the
population's distribution are a Brownian bridge over sqrt(n) (Doob 1949). The draws are fixed, so the same sample always
has the same noise.

If signs change at most edges, the sample's error is too small on average, by an amount that no sample reveals: there
the interval is still too narrow (docs/research/coverage.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillviz.core.bins import equal_mass_ranks
from skillviz.core.scores import Floats

DRAWS = 100


def edge_noise(
    sures: Sequence[Floats], rights: Sequence[Floats | NDArray[np.bool_]], bins: int, norm: str = "l1"
) -> float:
    """The root mean square change of the error when the edges move, a share; for two models, of the difference.

    `sures` and `rights` are confidences and outcomes [n] of one or two models on the same examples; the edges are
    quantiles of all confidences together, whose ranks are assumed to move like the ranks of n examples.
    """
    n, pooled = len(sures[0]), np.sort(np.concatenate(list(sures)))
    most = len(pooled)
    exact = equal_mass_ranks(most, bins)
    moved = np.rint(exact + most / np.sqrt(n) * _bridges(bins)).astype(np.int64)
    ranks = np.maximum.accumulate(np.clip(np.vstack([exact, moved]), 1, most), axis=1)
    edges = pooled[ranks - 1]
    moves = [_moves(sure, right, edges, norm) for sure, right in zip(sures, rights, strict=True)]
    change = moves[0].change - (moves[1].change if len(moves) == 2 else 0.0)
    by_luck = np.sum([move.by_luck for move in moves], axis=0)
    return float(np.sqrt(max(np.mean(change**2 - by_luck), 0.0)))


@lru_cache(maxsize=8)
def _bridges(bins: int) -> Floats:
    """Brownian bridges at the upper edge of every bin, [DRAWS, bins]; the last is 0."""
    steps = np.random.default_rng(0).standard_normal((DRAWS, bins)) / np.sqrt(bins)
    walks = np.cumsum(steps, axis=1)
    bridges = np.asarray(walks - np.arange(1, bins + 1) / bins * walks[:, -1:])
    bridges.setflags(write=False)  # it is cached
    return bridges


class _Moves(NamedTuple):
    """The change of one model's error with each move of the edges, and the part of its variance due to chance, [DRAWS].

    This part comes from the outcomes that change their bin. The caller subtracts it, because another interval already
    includes it.
    """

    change: Floats
    by_luck: Floats


def _moves(sure: Floats, right: Floats | NDArray[np.bool_], edges: Floats, norm: str) -> _Moves:
    """Return the moves of one model's error; `edges` are upper edges [1 + DRAWS, bin], the sample's own first."""
    order, n = np.argsort(sure, kind="stable"), len(sure)
    places = np.searchsorted(sure[order], edges, side="right")
    gaps = sure[order] - right[order]
    total, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (gaps, gaps**2))
    gap = np.diff(total[places], axis=1, prepend=0.0)
    if norm == "l1":
        error, slope = np.abs(gap).sum(axis=1) / n, np.sign(gap[0]) / n
    else:
        examples = np.maximum(np.diff(places, axis=1, prepend=0), 1)
        error = np.sqrt((gap**2 / examples).sum(axis=1) / n)
        slope = gap[0] / (examples[0] * n * max(error[0], 1e-9))
    moved = np.abs(squares[places[1:, :-1]] - squares[places[0, :-1]])
    return _Moves(error[1:] - error[0], (moved * np.diff(slope) ** 2).sum(axis=1))
