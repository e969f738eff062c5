"""The stability of a region: IoU between regions of several seeds, or of bootstrap samples, against chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skillviz.core.intervals import LEVEL, draws, jackknife_half
from skillviz.core.localizers.table import LinearizedOptions
from skillviz.core.overlap import Chance, iou_matrix, matched_chance
from skillviz.core.region import Region
from skillviz.errors import BadInput

if TYPE_CHECKING:
    from skillviz.core.localizers.table import LinearizedOptions
    from skillviz.core.problem import Problem


class Stability(NamedTuple):
    """The mean IoU over all pairs of `n` regions with its interval, and the IoU expected by chance.

    The chance level is from random regions with as many entries in each tensor.
    """

    iou: float
    low: float
    high: float
    chance: Chance
    pairs: int
    n: int


def pairwise_iou(regions: Sequence[Region]) -> np.ndarray:
    """IoU of every pair, in the order of itertools.combinations: float64 [n (n - 1) / 2]."""
    whole = iou_matrix({str(i): region for i, region in enumerate(regions)}).to_numpy()
    return whole[np.triu_indices(len(regions), 1)]


def stability(regions: Sequence[Region], level: float = LEVEL) -> Stability:
    """Return the mean IoU of the pairs, with a jackknife interval over the regions (Student's t, n - 1 degrees).

    Pairs that share a region are not independent, so a t-interval over pairs would be too narrow: the jackknife leaves
    out one region, with all its pairs, at a time (Arvesen 1969). NaN ends for two regions, because neither can be left
    out. The ends are cut to 0..1.
    """
    n = len(regions)
    if n < 2:
        raise BadInput(f"stability needs at least two regions to compare; got {n}.")
    values = pairwise_iou(regions)
    pairs = list(combinations(range(n), 2))
    chance = matched_chance([(regions[i], regions[j]) for i, j in pairs], "iou")
    # with two regions neither can be left out
    without = [np.mean([v for v, pair in zip(values, pairs, strict=True) if i not in pair]) for i in range(n) if n > 2]
    mean, half = float(np.mean(values)), jackknife_half([np.array(without)], level)
    low, high = max(0.0, mean - half), min(1.0, mean + half)
    ends = (float("nan"), float("nan")) if np.isnan(half) else (low, high)
    return Stability(mean, *ends, chance, len(pairs), n)


@dataclass(frozen=True)
class BootstrapRegions:
    """The linearized region of all `examples`, and the regions of bootstrap samples of them; seconds of each part."""

    whole: Region
    regions: tuple[Region, ...]
    examples: int
    seconds: tuple[float, float]

    def iou(self) -> np.ndarray:
        """Return the IoU of each bootstrap region with the region of all examples: float64 [resample]."""
        return np.array([region.iou(self.whole) for region in self.regions])


def bootstrap_regions(
    problem: Problem,
    size: int,
    *,
    resamples: int = 20,
    seed: int = 0,
    options: LinearizedOptions | None = None,
) -> BootstrapRegions:
    """Return the linearized regions of bootstrap samples of the training examples (ours).

    One Jacobian is enough for all: its rows count as often as a resample draws them, and the convex problem is solved
    again from the solution for all examples, to the same tolerance. An example is in both of two samples with
    probability 0.4, so their regions agree more than regions of two data sets would.
    """
    from skillviz.core.localizers.linearized import linearization  # imports torch

    begun = perf_counter()
    chosen = options or LinearizedOptions()
    if chosen.rounds != 1:
        raise BadInput(f"the bootstrap takes one Jacobian, at the base: rounds must be 1; got {chosen.rounds}.")
    table, solved = problem.table, linearization(problem, size, seed=seed, options=chosen)
    whole, prepared = Region.from_flat(solved.order(), table.shapes), perf_counter()
    drawn = [Region.from_flat(solved.order(w), table.shapes) for w in _weights(solved.examples, resamples, seed)]
    return BootstrapRegions(whole, tuple(drawn), solved.examples, (prepared - begun, perf_counter() - prepared))


def _weights(n: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each resample draws each example, float64 [n], one resample after the other."""
    for block in draws(n, resamples, seed):
        yield from block
