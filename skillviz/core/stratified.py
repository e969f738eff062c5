"""A sample with the class shares of the whole, drawn by a seed: never the first rows, which may all be of one class."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skillviz.errors import BadInput


def stratified(labels: ArrayLike, count: int, seed: int) -> np.ndarray:
    """Return the rows of a sample of `count` examples (all, if there are no more), sorted, int64.

    A class with m of the n labels gets count * m / n rows, rounded by largest remainders (ties: the smaller label); its
    rows are drawn by the seed. Raises BadInput for a count below 0.
    """
    y = np.asarray(labels).ravel()
    if count < 0:
        raise BadInput(f"a sample of {count} examples cannot be drawn; give 0 or more.")
    if count >= len(y):
        return np.arange(len(y))
    classes, sizes = np.unique(y, return_counts=True)
    places, remainders = np.divmod(count * sizes, len(y))
    places[np.argsort(-remainders, kind="stable")[: count - places.sum()]] += 1
    order = np.random.default_rng(seed).permutation(len(y))
    rows = [order[y[order] == label][:k] for label, k in zip(classes, places, strict=True)]
    return np.sort(np.concatenate(rows))
