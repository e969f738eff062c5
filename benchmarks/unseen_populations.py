"""The second grid: populations that were not used while the interval was developed.

Written after the constants of `core/calibration_error.py` were frozen in a commit, and run once. Confidences are
mixtures and logit-normals instead of Betas, or from stored runs that the first grid does not use; chances follow random
steps, a quadratic, label noise and others that are not in the first grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy.special import expit, logit

from benchmarks import populations
from benchmarks.coverage import Case
from benchmarks.populations import (
    ATOMS,
    Population,
    Warp,
    between,
    classes_of,
    scores_of_two,
    stored,
    warped,
)  # fmt: skip

ERRORS = (0.0, 0.007, 0.015, 0.025, 0.04, 0.065, 0.11, 0.15)
DIFFERENCES = (0.0, 0.007, 0.015, 0.04, 0.065, 0.09)
STORED = ("mr-minilm-l6", "snli-minilm-l6", "cr-minilm-l6-stagewise-10646-s0", "mpqa-minilm-l6", "rte-minilm-l6")
SHAPES = ("two humps", "logit-normal", "near certain", "near chance", "stepped")


def _steps(seed: int) -> Warp:
    """Return a warp with a random gap in each of nine intervals of the confidence."""
    heights = np.random.default_rng(seed).normal(size=9)
    return lambda c, x, t: c - t * heights[np.minimum((9 * x).astype(int), 8)]


WARPS: dict[str, Warp] = {
    "random steps": _steps(1),
    "other random steps": _steps(2),
    "quadratic": lambda c, x, t: c - t * (x**2 - 0.3),
    "label noise": lambda c, x, t: c * (1 - np.minimum(t, 1)) + np.minimum(t, 1) * 0.3,
    "only the most certain": lambda c, x, t: c - t * (x > 0.8),
    "only the least certain": lambda c, x, t: c - t * (x < 0.3),
    "scaled and shifted logits": lambda c, x, t: expit(logit(c) / (1 + 0.5 * t) - 0.4 * t),
    "bent logits": lambda c, x, t: expit(logit(c) * np.exp(-t * x)),
}


def _confidences(shape: str, classes: int, scores: np.ndarray, seed: int) -> np.ndarray:
    """Return confidences [atom] of one of SHAPES in the order of the normal scores."""
    random = np.random.default_rng(100 + seed)
    n = len(scores)
    x = {
        "two humps": lambda: np.where(random.random(n) < 0.4, random.beta(2, 8, n), random.beta(9, 1.5, n)),
        "logit-normal": lambda: expit(random.normal(0.8, 1.6, n)),
        "near certain": lambda: 1 - 0.08 * random.random(n) ** 2,
        "near chance": lambda: 0.35 * random.random(n),
        "stepped": lambda: random.choice(np.linspace(0.05, 0.97, 24), n) + 0.01 * random.random(n),
    }[shape]()
    return between(x, classes, scores)


def _single(shape: str, warp: str, classes: int, error: float) -> Population | None:
    sure = _confidences(shape, classes, np.arange(ATOMS), 0)
    return warped(f"{shape}, {warp if error else 'calibrated'}", [sure], [WARPS[warp]], classes, [error])


def _pair(
    shapes: tuple[str, str], warps: tuple[str, str], classes: int, errors: tuple[float, float], alike: float,
    shared: float,
) -> Population | None:  # fmt: skip
    scores = scores_of_two(np.random.default_rng(50), alike)
    sures = [_confidences(s, classes, z, i) for i, (s, z) in enumerate(zip(shapes, scores, strict=True))]
    parts = [f"{s}, {w if e else 'calibrated'}" for s, w, e in zip(shapes, warps, errors, strict=True)]
    name = f"{'; '.join(parts)}; alike {alike}"
    return warped(name, sures, [WARPS[warp] for warp in warps], classes, errors, shared)


def unseen() -> Iterator[Case]:
    """Yield the second grid: errors, differences and stored runs of its own.

    `turn` chooses the shapes and warps of a cell. Some of its values belong to cells that are not measured any more.
    """
    kinds = list(WARPS)
    for (row, classes), (place, error) in itertools.product(enumerate((2, 3, 5, 6)), enumerate(ERRORS)):
        turn = 16 * row + place
        for attempt in range(40):
            shape, kind = SHAPES[(turn + attempt) % 5], kinds[(turn * 3 + attempt) % 8]
            found = _single(shape, kind, classes, error)
            if found is not None:
                yield Case("unseen", "error", classes, error, found)
                break
    for (row, classes), (place, difference) in itertools.product(enumerate((2, 3, 6)), enumerate(DIFFERENCES)):
        turn = 64 + 12 * row + place
        for attempt in range(40):
            base = (0.0, 0.01, 0.05)[turn % 3]
            alike, shared = ((0.5, 0.4), (0.85, 0.95), (0.99, 0.97))[(turn // 3) % 3]
            shapes = (SHAPES[(turn + attempt) % 5], SHAPES[(turn * 2 + attempt) % 5])
            warps = (kinds[(turn * 3 + attempt) % 8], kinds[(turn * 5 + 1 + attempt) % 8])
            found = _pair(shapes, warps, classes, (base, base + difference), alike, shared)
            if found is not None:
                yield Case("unseen", "difference", classes, -difference, found)
                break
    for run in STORED:
        if not populations.stored_runs(run):
            continue
        for states in (("finetuned",), ("pretrained",), ("grafted", "finetuned")):
            quantity = "difference" if len(states) == 2 else "error"
            yield Case("unseen", quantity, classes_of(run), math.nan, stored(run, states))
