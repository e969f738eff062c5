"""Slow twins of approximate movements, in float64 with loops and lists, one tensor and one entry at a time."""

import math

import numpy as np


def slow_signs(movement: np.ndarray) -> tuple[np.ndarray, int]:
    """Each entry's sign times the mean magnitude; whole bytes of eight signs, and four for the mean."""
    flat = [float(value) for value in movement.ravel()]
    scale, groups = math.fsum(map(abs, flat)) / len(flat), [flat[at : at + 8] for at in range(0, len(flat), 8)]
    return np.reshape([scale if value > 0 else -scale for value in flat], movement.shape), len(groups) + 4


def slow_int8(movement: np.ndarray) -> tuple[np.ndarray, int]:
    """Each entry at the nearest of the levels -127 to 127 of the largest magnitude."""
    most = max(map(abs, map(float, movement.ravel())))
    levels = [0 if most == 0 else min(range(-127, 128), key=lambda k: abs(value - k * most / 127))
              for value in map(float, movement.ravel())]  # fmt: skip
    return np.reshape([level * most / 127 for level in levels], movement.shape), len(levels) + 4


def slow_low_rank(movement: np.ndarray, rank: int) -> tuple[np.ndarray, int]:
    """The projection of each matrix on its leading right singular vectors, the eigenvectors of its Gram matrix."""
    if movement.ndim < 2 or rank * sum(movement.shape[-2:]) >= np.prod(movement.shape[-2:]):
        return movement, 4 * movement.size
    if movement.ndim > 2:
        parts = [slow_low_rank(part, rank) for part in movement]
        return np.stack([part for part, _ in parts]), sum(count for _, count in parts)
    leading = np.linalg.eigh(movement.T @ movement).eigenvectors[:, -rank:]
    return movement @ leading @ leading.T, 4 * sum(rank * length for length in movement.shape)
