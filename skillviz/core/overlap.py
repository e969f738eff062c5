"""How much regions share: asymmetric overlap, intersection over union, and what chance would give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import pandas as pd

from skillviz.core.region import Region
from skillviz.errors import BadInput

Regions = Mapping[str, Region]
EXACT = 4096
"""Entries that can be common up to which the mean IoU by chance is exact."""


def overlap_matrix(regions: Regions) -> pd.DataFrame:
    """Row i, column j: |g_i and g_j| / |g_j| (paper, Fig. 8a); diagonal 1; NaN where g_j is empty."""
    common, sizes = shared_entries(regions), _sizes(regions)
    return _framed(regions, _shares(common, np.broadcast_to(sizes, common.shape)))


def iou_matrix(regions: Regions) -> pd.DataFrame:
    """Row i, column j: |g_i and g_j| / |g_i or g_j| (paper, Table 8); symmetric; NaN where both are empty."""
    common, sizes = shared_entries(regions), _sizes(regions)
    return _framed(regions, _shares(common, sizes[:, None] + sizes - common))


def shared_entries(regions: Regions) -> np.ndarray:
    """|g_i and g_j| in row i, column j, int64; each pair is counted once. Raises BadInput for unlike models."""
    several = list(regions.values())
    if any(dict(region.shapes) != dict(several[0].shapes) for region in several[1:]):
        raise BadInput("regions of two different architectures cannot be compared: their parameters differ.")
    flat = [region.flat() for region in several]
    common = np.zeros((len(flat), len(flat)), dtype=np.int64)
    for i, one in enumerate(flat):
        for j in range(i + 1):
            common[i, j] = common[j, i] = _common(one, flat[j])
    return common


def _common(a: np.ndarray, b: np.ndarray) -> int:
    """How many numbers two sorted lists without repetitions share."""
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


def chance_overlap_matrix(regions: Regions) -> pd.DataFrame:
    """What `overlap_matrix` would be for random regions with as many entries in each tensor; NaN where g_j is empty."""
    return _matrix(regions, matched_overlap)


def chance_iou_matrix(regions: Regions) -> pd.DataFrame:
    """What `iou_matrix` would be on average for independent random regions with as many entries in each tensor."""
    return _matrix(regions, matched_iou)


def _matrix(regions: Regions, entry: Callable[[Region, Region], float]) -> pd.DataFrame:
    names = list(regions)
    values = [entry(regions[i], regions[j]) for i in names for j in names]
    return _framed(regions, np.array(values).reshape(len(names), len(names)))


def matched_overlap(a: Region, b: Region) -> float:
    """Mean of |a and b| / |b| over random regions with as many entries in each tensor; NaN where b is empty.

    Regions crowd into the same tensors, so this is well above size / d: sum over tensors of a_t b_t / d_t, over |b|.
    """
    counts = _counts_by_tensor(a, b)
    return float((counts[:, 0] * counts[:, 1] / counts[:, 2]).sum() / b.size) if b.size else float("nan")


def matched_iou(a: Region, b: Region) -> float:
    """Mean of |a and b| / |a or b| over random regions with as many entries in each tensor; NaN where both are empty.

    The common count of a tensor is hypergeometric, independent of the others'. Where at most EXACT entries can be
    common, the mean is exact (a convolution over the tensors); beyond, it is that of the second-order expansion about
    the mean count, whose relative error is below 1e-5 there.
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


def _counts_by_tensor(a: Region, b: Region) -> np.ndarray:
    """Entries of a, of b, and of all in each tensor that both have entries in: int64 [tensor, 3]."""
    if dict(a.shapes) != dict(b.shapes):
        raise BadInput("regions of two different architectures cannot be compared: their parameters differ.")
    both = [name for name in a.indices if name in b.indices]
    rows = [(len(a.indices[name]), len(b.indices[name]), prod(a.shapes[name])) for name in both]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def chance_overlap(size: int, d: int) -> float:
    """Share of any other region that a random region of this size covers, drawn evenly over all d entries: size / d."""
    _check_sizes(d, size)
    return size / d


def chance_iou(size_a: int, size_b: int, d: int) -> float:
    """Mean of |a and b| / |a or b| over random regions of these sizes, drawn evenly over d; NaN where both are empty.

    The common count x is hypergeometric; x / (size_a + size_b - x) is averaged over it exactly, but for counts
    more than 40 standard deviations from the mean.
    """
    _check_sizes(d, size_a, size_b)
    if not size_a + size_b:
        return float("nan")
    x, chance = _common_counts(size_a, size_b, d)
    return float((chance * (x / (size_a + size_b - x))).sum())


def _common_counts(a: int, b: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The likely numbers of entries common to two random regions, and their probabilities (sum 1)."""
    mean = a * b / d
    sd = np.sqrt(mean * (1 - a / d) * (1 - b / d) * d / max(d - 1, 1))
    reach = int(40 * sd) + 40
    lowest = max(0, a + b - d, int(mean) - reach)
    x = np.arange(lowest, min(a, b, int(mean) + reach) + 1, dtype=np.float64)
    # p(x + 1) / p(x); logs, as the products leave float64
    ratio = np.log((a - x[:-1]) * (b - x[:-1])) - np.log((x[:-1] + 1) * (d - a - b + x[:-1] + 1))
    logs = np.concatenate([[0.0], np.cumsum(ratio)])
    chance = np.exp(logs - logs.max())
    return x, chance / chance.sum()


def _check_sizes(d: int, *sizes: int) -> None:
    outside = [s for s in sizes if not 0 <= s <= d]
    if d < 1 or outside:
        raise BadInput(f"region sizes must lie in 0..d with d at least 1; got {sizes} with d = {d:,}.")
