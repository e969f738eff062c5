"""The paths WiSE-FT and WiSE-Graft from the base to the fine-tuned model and to the graft (PAPER.md, section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skillviz.errors import BadInput

PATHS = ("wise-ft", "wise-graft")
LOWEST = -1.0
"""The position as far below the base as the end is above it: the skill is negated (Ilharco et al. 2023)."""


def alphas(points: int = 11) -> NDArray[np.float64]:
    """Positions from 0 (base) to 1 (end) in equal steps, [points]; ours: the paper gives no grid."""
    if not 2 <= points <= 1001:
        raise BadInput(f"an interpolation needs 2 to 1001 points; got {points}.")
    return np.arange(points) / (points - 1)
