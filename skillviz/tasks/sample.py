"""Assign rows to splits, by row numbers: k-shot samples, a validation tenth, caps. All are seeded and keep the
order."""

from __future__ import annotations

import numpy as np
import pandas as pd

# Second entry of the generator's seed, so that the draws of one seed are independent of one another.
_K_SHOT, _TENTH, _CAP = 0, 1, 2


def k_shot_rows(labels: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of (train, validation), each sorted and disjoint: up to k examples per class in each.

    The whole set is shuffled by the seed; of a class with m examples the first min(k, 0.8 m) are train (at least one),
    the next min(k, m - train) validation (PAPER section 8, the paper's scheme with our rule for small classes).
    """
    order = np.random.default_rng([seed, _K_SHOT]).permutation(len(labels))
    train, validation = [], []
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        first = min(k, max(1, len(rows) * 4 // 5))
        train.append(rows[:first])
        validation.append(rows[first : first + k])
    return _joined(train), _joined(validation)


def tenth(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of (the rest, a tenth) of n rows, each sorted; the tenth has at least one row."""
    order = np.random.default_rng([seed, _TENTH]).permutation(n)
    cut = max(1, n // 10)
    return np.sort(order[cut:]), np.sort(order[:cut])


def capped(chosen: np.ndarray, most: int | None, seed: int) -> np.ndarray:
    """`chosen` itself, or `most` of them in their order, drawn by the seed."""
    if most is None or len(chosen) <= most:
        return chosen
    drawn = np.random.default_rng([seed, _CAP]).permutation(len(chosen))[:most]
    return chosen[np.sort(drawn)]


def sampled(frame: pd.DataFrame, most: int | None, seed: int = 0) -> pd.DataFrame:
    """`most` rows of the frame in their order, drawn by the seed; all rows if there are no more."""
    return frame.iloc[capped(np.arange(len(frame)), most, seed)].reset_index(drop=True)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate(parts)).astype(np.int64)
