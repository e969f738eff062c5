"""Draw populations at random: the fourth grid, after the interval of differences was changed for the third grid.

Every property of a population is drawn by its number: classes, confidences (a mixture of Betas), the departure of the
chance of being right from the confidence (steps, waves or bent logits), the true error, and the correlation of two
models.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import expit, logit

from benchmarks.coverage import Case
from benchmarks.populations import Population, Warp, between, scores_of_two, warped

COUNT = 60
"""The number of populations of one model, and of pairs."""
CALIBRATED = 0.25
"""The share of models whose true error is 0; the other errors are uniform on ERRORS."""
ERRORS = (0.003, 0.15)


def _sure(classes: int, scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return confidences [atom] in the order of the scores: a mixture of up to three Betas."""
    parts = int(random.integers(1, 4))
    shapes, weights = np.exp(random.uniform(np.log(0.3), np.log(10), (parts, 2))), random.dirichlet(np.ones(parts))
    a, b = shapes[random.choice(parts, len(scores), p=weights)].T
    return between(random.beta(a, b), classes, scores)


def _warp(random: np.random.Generator) -> Warp:
    """Return a function for the chance at confidence c, x of the way from 1 / classes to 1, at strength t."""
    kind = random.choice(["steps", "waves", "logits"])
    if kind == "steps":
        count = int(random.integers(2, 21))
        heights = random.standard_normal(count)
        return lambda c, x, t: c - t * heights[np.minimum((count * x).astype(int), count - 1)]
    if kind == "waves":
        size, speed, start = random.standard_normal(3), random.uniform(0.5, 8, 3), random.uniform(0, 2 * np.pi, 3)
        return lambda c, x, t: c - t * (size * np.sin(2 * np.pi * speed * x[:, None] + start)).sum(1)
    slope, shift = random.standard_normal(2)
    return lambda c, x, t: expit(logit(np.clip(c, 1e-9, 1 - 1e-9)) * np.exp(slope * t) + shift * t)


def _population(models: int, number: int) -> tuple[int, Population]:
    """The classes and the population of one or two models of this number; redrawn until its errors are possible."""
    for attempt in range(1000):
        random = np.random.default_rng((2026, models, number, attempt))
        classes = int(random.integers(2, 7))
        errors = np.where(random.random(models) < CALIBRATED, 0.0, random.uniform(*ERRORS, models))
        alike, shared = random.uniform(0, 1, 2)
        sures = [_sure(classes, score, random) for score in scores_of_two(random, alike)[:models]]
        warps = [_warp(random) for _ in range(models)]
        found = warped(f"random {number}", sures, warps, classes, errors.tolist(), float(shared))
        if found is not None:
            return classes, found
    raise RuntimeError(f"no population of number {number} has its errors")


def drawn() -> Iterator[Case]:
    """Yield a population of one model and a pair for each number."""
    for models, quantity in ((1, "error"), (2, "difference")):
        for number in range(COUNT):
            classes, population = _population(models, number)
            errors = population.errors()
            wanted = errors[0] - errors[1] if models == 2 else errors[0]
            yield Case("random", quantity, classes, round(wanted, 6), population)
