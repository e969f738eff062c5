"""Points on the straight way from one model to another: WiSE-FT and WiSE-Graft (PAPER.md, section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skillviz.errors import BadInput

PATHS = ("wise-ft", "wise-graft")


def alphas(points: int = 11) -> NDArray[np.float64]:
    """Positions from 0 (base) to 1 (end) in equal steps, [points]; ours: the paper gives no grid."""
    if not 2 <= points <= 1001:
        raise BadInput(f"an interpolation needs 2 to 1001 points; got {points}.")
    return np.arange(points) / (points - 1)


def interpolated(
    base: np.ndarray, end: np.ndarray, alpha: float, region: NDArray[np.int64] | None = None
) -> np.ndarray:
    """(1 - alpha) * base + alpha * end, in the wider type of both; a new array.

    alpha 0 and 1 copy the ends, and entries equal at both stay as they are, bit for bit. With `region` (flat
    indices) only those entries move and the rest is the base: WiSE-Graft, whose alpha 1 is the graft.
    """
    base, end = np.asarray(base), np.asarray(end)
    if base.shape != end.shape:
        raise BadInput(f"both ends must have one shape; got {base.shape} and {end.shape}.")
    if not 0.0 <= alpha <= 1.0:
        raise BadInput(f"alpha must lie in 0..1 (0 = base, 1 = end); got {alpha}.")
    mixed = base.astype(np.result_type(base, end), copy=True)
    inside = slice(None) if region is None else np.asarray(region, dtype=np.int64)
    mixed.reshape(-1)[inside] = _between(base.reshape(-1)[inside], end.reshape(-1)[inside], alpha)
    return mixed


def _between(base: np.ndarray, end: np.ndarray, alpha: float) -> np.ndarray:
    if alpha in (0.0, 1.0):
        return end if alpha else base
    start = base.astype(np.float64)
    return start + alpha * (end.astype(np.float64) - start)
