"""Shared entries of regions: asymmetric overlap, intersection over union, and their expected values by chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import prod
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd

from skillviz.core.intervals import LEVEL
from skillviz.core.region import Region
from skillviz.errors import BadInput

Regions = Mapping[str, Region]
EXACT = 4096
"""The number of possibly common entries up to which the mean IoU by chance is exact."""
FEW_COMMON = 1000
"""The mean number of common entries up to which the range by chance is exact."""
NEGLIGIBLE = 1e-14


class Chance(NamedTuple):
    """The overlap expected of random regions with as many entries in each tensor.

    The mean, and the ends of the range of 95% of draws, inclusive; NaN if it is undefined.
    """

    mean: float
    low: float
    high: float

    def columns(self) -> dict[str, float]:
        """The columns of a table: chance, chance_low, chance_high."""
        return {"chance": self.mean, "chance_low": self.low, "chance_high": self.high}


def overlap_matrix(regions: Regions) -> pd.DataFrame:
    """Row i, column j: |g_i and g_j| / |g_j| (paper, Fig. 8a); diagonal 1; NaN if g_j is empty."""
    common, sizes = shared_entries(regions), _sizes(regions)
    return _framed(regions, _shares(common, np.broadcast_to(sizes, common.shape)))


def iou_matrix(regions: Regions) -> pd.DataFrame:
    """Row i, column j: |g_i and g_j| / |g_i or g_j| (paper, Table 8); symmetric; NaN if both are empty."""
    common, sizes = shared_entries(regions), _sizes(regions)
    return _framed(regions, _shares(common, sizes[:, None] + sizes - common))


def shared_entries(regions: Regions) -> np.ndarray:
    """|g_i and g_j| in row i, column j, int64; each pair is counted once. Raises BadInput for unlike models."""
    several = list(regions.values())
    if any(dict(region.shapes) != dict(several[0].shapes) for region in several[1:]):
        raise BadInput("regions of two different architectures cannot be compared: their parameters differ.")
    flat = [region.like(several[0].shapes).flat() for region in several]
    common = np.zeros((len(flat), len(flat)), dtype=np.int64)
    for i, one in enumerate(flat):
        for j in range(i + 1):
            common[i, j] = common[j, i] = _common(one, flat[j])
    return common


def _common(a: np.ndarray, b: np.ndarray) -> int:
    """Return how many numbers two sorted lists without repetitions share."""
    few, many = sorted((a, b), key=len)
    if not len(few):
        return 0
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return int((many[place] == few).sum())


def _sizes(regions: Regions) -> np.ndarray:
    return np.array([region.size for region in regions.values()], dtype=np.int64)


def _shares(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _framed(regions: Regions, values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(values, index=list(regions), columns=list(regions), dtype=np.float64)


def matched_iou(a: Region, b: Region) -> float:
    """Mean of |a and b| / |a or b| over random regions with as many entries in each tensor; NaN if both are empty.

    The common count of a tensor is hypergeometric, independent of the others'. If at most EXACT entries can be common,
    the mean is exact (a convolution over the tensors); otherwise it is from the second-order expansion about the mean
    count, whose relative error is below 1e-5 there.
    """
    if not a.size + b.size:
        return float("nan")
    counts, total = _counts_by_tensor(a, b), a.size + b.size
    if int(counts[:, :2].min(axis=1).sum()) <= EXACT:
        x, chance = 0.0, np.ones(1)
        for a_t, b_t, d_t in counts:
            here, chance_here = _common_counts(int(a_t), int(b_t), int(d_t))
            x, chance = x + here[0], np.convolve(chance, chance_here)
        common = x + np.arange(len(chance))
        return float((chance * (common / (total - common))).sum())
    a_t, b_t, d_t = counts.T.astype(np.float64)
    means = a_t * b_t / d_t
    variance = (means * (1 - a_t / d_t) * (1 - b_t / d_t) * d_t / np.maximum(d_t - 1, 1)).sum()
    either = total - means.sum()
    return float(means.sum() / either + variance * total / either**3)


def matched_chance(pairs: Sequence[tuple[Region, Region]], kind: str = "overlap") -> Chance:
    """Return the mean `overlap` (|a and b| / |b|) or `iou` over these pairs that is expected by chance.

    For a single pair the range is `common_range`'s. Overlaps of pairs that share one random region are pairwise
    independent, so the ends of several are combined by their squared distances from the mean; a pair and its reverse
    count as one.
    """
    several = [_chance_of_pair(a, b, kind) for a, b in pairs]
    if not several:
        return Chance(math.nan, math.nan, math.nan)
    ends: dict[frozenset[int], tuple[float, float]] = {}
    for (a, b), one in zip(pairs, several, strict=True):
        key = frozenset((id(a), id(b)))
        down, up = ends.get(key, (0.0, 0.0))
        ends[key] = down + one.mean - one.low, up + one.high - one.mean
    mean = float(np.mean([one.mean for one in several]))
    down, up = (math.sqrt(sum(end[side] ** 2 for end in ends.values())) / len(pairs) for side in (0, 1))
    return Chance(mean, mean - down, mean + up)


def overlap_by_chance(counts: np.ndarray, size: int) -> Chance:
    """|a and b| / |b| by chance for regions with these `counts` [tensor, 3], `size` being |b|; see `common_range`."""
    if not size:
        return Chance(math.nan, math.nan, math.nan)
    a, b, d = np.asarray(counts, dtype=np.float64).reshape(-1, 3).T
    return Chance(float((a * b / d).sum() / size), *(x / size for x in common_range(counts)))


def _chance_of_pair(a: Region, b: Region, kind: str) -> Chance:
    counts, total = _counts_by_tensor(a, b), a.size + b.size
    if kind == "overlap":
        return overlap_by_chance(counts, b.size)
    low, high = (x / (total - x) if total else math.nan for x in common_range(counts))
    return Chance(matched_iou(a, b), low, high)


def common_range(counts: np.ndarray, level: float = LEVEL) -> tuple[int, int]:
    """Return the range of the number of entries that two random regions share in 95 of 100 draws, ends inclusive.

    `counts` [tensor, 3] are the entries of one region, of the other, and of all in each tensor: a sum of independent
    hypergeometric counts. At most half of 1 - level lies on each side outside the ends. Exact, by a convolution over
    the tensors, if FEW_COMMON or fewer are common on average; otherwise the normal quantiles with the third moment
    (Cornish and Fisher 1938), at most one entry off.
    """
    tail = (1 - level) / 2
    a, b, d = np.asarray(counts, dtype=np.float64).reshape(-1, 3).T
    means = a * b / d
    if means.sum() <= FEW_COMMON:
        x, chance = 0.0, np.ones(1)
        for row in np.asarray(counts).reshape(-1, 3):
            here, chance_here = _common_counts(*map(int, row))
            chance = np.convolve(chance, chance_here)
            likely = np.flatnonzero(chance > NEGLIGIBLE)
            x, chance = x + here[0] + likely[0], chance[likely[0] : likely[-1] + 1]
        below = np.cumsum(chance) / chance.sum()
        return int(x + np.searchsorted(below, tail, "right")), int(x + np.searchsorted(below, 1 - tail))
    variance = means * (1 - a / d) * (1 - b / d) * d / np.maximum(d - 1, 1)
    third = variance * (d - 2 * a) * (d - 2 * b) / (d * np.maximum(d - 2, 1))
    sd = math.sqrt(variance.sum())
    if sd == 0:  # in each tensor one of the two regions has all entries
        return (int(means.sum()),) * 2
    skew = third.sum() / sd**3
    ends = []
    for share in (tail, 1 - tail):
        z = NormalDist().inv_cdf(share)
        ends.append(means.sum() + sd * (z + (z * z - 1) * skew / 6))
    return math.ceil(ends[0] - 0.5), math.ceil(ends[1] - 0.5)


def _counts_by_tensor(a: Region, b: Region) -> np.ndarray:
    """Return the entries of a, of b, and of all in each tensor in which both have entries: int64 [tensor, 3]."""
    if dict(a.shapes) != dict(b.shapes):
        raise BadInput("regions of two different architectures cannot be compared: their parameters differ.")
    both = [name for name in a.indices if name in b.indices]
    rows = [(len(a.indices[name]), len(b.indices[name]), prod(a.shapes[name])) for name in both]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _common_counts(a: int, b: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The likely numbers of entries common to two random regions, and their probabilities (sum 1)."""
    mean = a * b / d
    sd = np.sqrt(mean * (1 - a / d) * (1 - b / d) * d / max(d - 1, 1))
    reach = int(40 * sd) + 40
    lowest = max(0, a + b - d, int(mean) - reach)
    x = np.arange(lowest, min(a, b, int(mean) + reach) + 1, dtype=np.float64)
    # p(x + 1) / p(x) in logs, because the products overflow float64
    ratio = np.log((a - x[:-1]) * (b - x[:-1])) - np.log((x[:-1] + 1) * (d - a - b + x[:-1] + 1))
    logs = np.concatenate([[0.0], np.cumsum(ratio)])
    chance = np.exp(logs - logs.max())
    return x, chance / chance.sum()
