"""The linearized localizer's convex problem, from its definition and by brute force, in float64 numpy."""

from __future__ import annotations

import numpy as np


def slow_project(point: np.ndarray, size: float) -> np.ndarray:
    """The nearest point of {0 <= x <= 1, sum(x) <= size}, found by trying every breakpoint of the shift."""
    if np.clip(point, 0, 1).sum() <= size:
        return np.clip(point, 0, 1)
    breaks = sorted({0.0, *(float(p) for p in point if p > 0), *(float(p - 1) for p in point if p > 1)})
    for low, high in zip(breaks, breaks[1:], strict=False):
        at_low, at_high = (np.clip(point - s, 0, 1).sum() for s in (low, high))
        if at_low >= size >= at_high:
            shift = low if at_low == at_high else low + (at_low - size) / (at_low - at_high) * (high - low)
            return np.clip(point - shift, 0, 1)
    raise AssertionError("the sum falls to 0 at the last break")


def slow_loss(
    logits: np.ndarray, jacobian: np.ndarray, labels: np.ndarray, at: np.ndarray, gamma: np.ndarray
) -> tuple[float, np.ndarray]:
    """Mean cross-entropy and gradient [c] of the linear model, example by example."""
    total, slope = 0.0, np.zeros(len(gamma))
    for f, rows, label in zip(logits, jacobian, labels, strict=True):
        z = f.astype(np.float64).copy()
        for k, row in enumerate(rows):
            z[k + 1] += sum(float(j) * float(x) for j, x in zip(row, gamma - at, strict=True))
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        total -= np.log(p[label]) / len(labels)
        for k, row in enumerate(rows):
            slope += (p[k + 1] - (label == k + 1)) * row.astype(np.float64) / len(labels)
    return total, slope


def slow_minimum(
    logits: np.ndarray, jacobian: np.ndarray, labels: np.ndarray, size: float, steps: int = 3000
) -> tuple[np.ndarray, float]:
    """The minimum from gamma 0, by plain projected gradients with a step that cannot overshoot."""
    flat = jacobian.reshape(-1, jacobian.shape[2]).astype(np.float64)
    rate = len(labels) / np.linalg.norm(flat, 2) ** 2  # the softmax's own curvature is at most 1
    gamma, at = np.zeros(flat.shape[1]), np.zeros(flat.shape[1])
    one_hot = np.eye(logits.shape[1])[labels]
    for _ in range(steps):
        z = logits.astype(np.float64).copy()
        z[:, 1:] += (flat @ gamma).reshape(len(labels), -1)
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gamma = slow_project(gamma - rate * flat.T @ (p - one_hot)[:, 1:].reshape(-1) / len(labels), size)
    return gamma, slow_loss(logits, jacobian, labels, at, gamma)[0]
