"""The four grids of populations on which calibration intervals are measured, each written after the one before.

- `development`: every error by classes, over rotating shapes and kinds, and stored predictions. The interval was
  developed on it.
- `unseen`: written after the constants of `core/calibration_error.py` were frozen in a commit, and run once.
  Confidences are mixtures and logit-normals instead of Betas, or from stored runs that the first grid does not use;
  chances follow random steps, a quadratic, label noise and others that are not in the first grid.
- `later`: pairs that fell short afterwards and changed the interval of differences.
- `random`: every property of a population is drawn by its number, after that change: classes, confidences (a mixture of
  Betas), the departure of the chance of being right from the confidence (steps, waves or bent logits), the true error,
  and the correlation of two models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, logit

from benchmarks import populations
from benchmarks.populations import Population, Warp, between, classes_of, scores_of_two, stored, synthetic, warped

ERRORS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.15)
DIFFERENCES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.081, 0.10)
STORED = (
    "sst2-sentences-minilm-l6-stagewise-10646-s0", "mnli-minilm-l6-stagewise-10646-s0",
    "ag-news-minilm-l6-stagewise-10646-s0", "trec-minilm-l6-stagewise-10646-s0", "qnli-minilm-l6-stagewise-1064-s0",
    "subj-minilm-l6-movement-10646-s0",
)  # fmt: skip
LIKE = {2: STORED[0], 3: STORED[1], 4: STORED[2], 6: STORED[3]}
"""The run whose stored confidences a synthetic population with this number of classes may use."""
KINDS = (
    "overconfident", "mixed sign", "one bad bin", "underconfident", "shifted", "alternating", "temperature", "wave",
)  # fmt: skip
ATTEMPTS = range(40)
"""Shapes and kinds are rotated until a warp can reach the error."""

UNSEEN_ERRORS = (0.0, 0.007, 0.015, 0.025, 0.04, 0.065, 0.11, 0.15)
UNSEEN_DIFFERENCES = (0.0, 0.007, 0.015, 0.04, 0.065, 0.09)
UNSEEN_STORED = (
    "mr-minilm-l6", "snli-minilm-l6", "cr-minilm-l6-stagewise-10646-s0", "mpqa-minilm-l6", "rte-minilm-l6",
)  # fmt: skip
UNSEEN_SHAPES = ("two humps", "logit-normal", "near certain", "near chance", "stepped")

RANDOM_COUNT = 60
"""The number of random populations of one model, and of pairs."""
CALIBRATED, RANDOM_ERRORS = 0.25, (0.003, 0.15)
"""The share of random models whose true error is 0, and the range of the other errors."""


@dataclass(frozen=True)
class Case:
    """A population, with its names in the table."""

    grid: str
    quantity: str
    classes: int
    wanted: float
    population: Population


def development() -> Iterator[Case]:
    """Yield the first grid; `turn` chooses the shapes and kinds of a cell, and some of its values are not in use."""
    for row, classes in enumerate(LIKE):
        shapes = ["flat", "high", "low", "sharp", "middle", LIKE[classes]]
        every = [error for error in ERRORS for _ in range(1 if error == 0 else 2)]
        for turn, error in enumerate(every, 30 * row):
            tried = (
                synthetic([shapes[(turn + k) % 6]], [KINDS[(turn * 3 + k) % 8]], classes, [error]) for k in ATTEMPTS
            )
            for found in itertools.islice(filter(None, tried), 1):
                yield Case("development", "error", classes, error, found)
    for row, classes in enumerate(LIKE):
        shapes = ["flat", "high", "low", "sharp", LIKE[classes], "high"]
        for turn, (difference, base) in enumerate(itertools.product(DIFFERENCES, (0.0, 0.03)), 120 + 32 * row):
            alike, shared = ((0.3, 0.5), (0.9, 0.9), (0.97, 0.99))[turn % 3]
            tried = (
                synthetic(
                    (shapes[(turn + k) % 6], shapes[(turn + 2 * k + turn // 6) % 6]),
                    (KINDS[(turn * 3 + k) % 8], KINDS[(turn * 5 + k) % 8]),
                    classes, (base, base + difference), alike, shared,
                )
                for k in ATTEMPTS
            )  # fmt: skip
            for found in itertools.islice(filter(None, tried), 1):
                yield Case("development", "difference", classes, -difference, found)
    yield from of_runs("development", STORED, ("finetuned",), ("grafted",), ("grafted", "finetuned"))


def of_runs(grid: str, runs: Sequence[str], *every: tuple[str, ...]) -> Iterator[Case]:
    """Yield the stored predictions of each run in one or two states."""
    for run, states in itertools.product(runs, every):
        quantity = "difference" if len(states) == 2 else "error"
        yield Case(grid, quantity, classes_of(run), math.nan, stored(run, states))


def later() -> Iterator[Case]:
    """Yield the third grid: one model is calibrated, the other's gap alternates from bin to bin, and the outcomes of
    the two are independent."""
    shapes = (("flat", "flat"), ("flat", "high"), ("high", "flat"), ("low", "flat"), ("sharp", "flat"))
    for classes, difference, both in itertools.product((2, 3, 6), (0.045, 0.07, 0.10), shapes):
        found = synthetic(both, ("shifted", "alternating"), classes, (0.0, difference), 0.0, 0.0)
        if found is not None:
            yield Case("later", "difference", classes, -difference, found)


def unseen() -> Iterator[Case]:
    """Yield the second grid; `turn` is as in the first."""
    kinds, shapes = list(UNSEEN_WARPS), UNSEEN_SHAPES
    made = partial(synthetic, warps=UNSEEN_WARPS, sure=_unseen_confidences, seed=50)
    for (row, classes), (place, error) in itertools.product(enumerate((2, 3, 5, 6)), enumerate(UNSEEN_ERRORS)):
        turn = 16 * row + place
        tried = (made([shapes[(turn + k) % 5]], [kinds[(turn * 3 + k) % 8]], classes, [error]) for k in ATTEMPTS)
        for found in itertools.islice(filter(None, tried), 1):
            yield Case("unseen", "error", classes, error, found)
    for (row, classes), (place, difference) in itertools.product(enumerate((2, 3, 6)), enumerate(UNSEEN_DIFFERENCES)):
        turn = 64 + 12 * row + place
        base = (0.0, 0.01, 0.05)[turn % 3]
        alike, shared = ((0.5, 0.4), (0.85, 0.95), (0.99, 0.97))[(turn // 3) % 3]
        tried = (
            made(
                (shapes[(turn + k) % 5], shapes[(turn * 2 + k) % 5]),
                (kinds[(turn * 3 + k) % 8], kinds[(turn * 5 + 1 + k) % 8]),
                classes, (base, base + difference), alike, shared,
            )
            for k in ATTEMPTS
        )  # fmt: skip
        for found in itertools.islice(filter(None, tried), 1):
            yield Case("unseen", "difference", classes, -difference, found)
    there = [run for run in UNSEEN_STORED if populations.stored_runs(run)]
    yield from of_runs("unseen", there, ("finetuned",), ("pretrained",), ("grafted", "finetuned"))


def _steps(heights: np.ndarray) -> Warp:
    """Return a warp with one of these gaps in each interval of the confidence."""
    return lambda c, x, t: c - t * heights[np.minimum((len(heights) * x).astype(int), len(heights) - 1)]


UNSEEN_WARPS: dict[str, Warp] = {
    "random steps": _steps(np.random.default_rng(1).normal(size=9)),
    "other random steps": _steps(np.random.default_rng(2).normal(size=9)),
    "quadratic": lambda c, x, t: c - t * (x**2 - 0.3),
    "label noise": lambda c, x, t: c * (1 - np.minimum(t, 1)) + np.minimum(t, 1) * 0.3,
    "only the most certain": lambda c, x, t: c - t * (x > 0.8),
    "only the least certain": lambda c, x, t: c - t * (x < 0.3),
    "scaled and shifted logits": lambda c, x, t: expit(logit(c) / (1 + 0.5 * t) - 0.4 * t),
    "bent logits": lambda c, x, t: expit(logit(c) * np.exp(-t * x)),
}


def _unseen_confidences(shape: str, classes: int, scores: np.ndarray, seed: int) -> np.ndarray:
    """Return confidences [atom] of one of UNSEEN_SHAPES in the order of the normal scores."""
    random, n = np.random.default_rng(100 + seed), len(scores)
    x = {
        "two humps": lambda: np.where(random.random(n) < 0.4, random.beta(2, 8, n), random.beta(9, 1.5, n)),
        "logit-normal": lambda: expit(random.normal(0.8, 1.6, n)),
        "near certain": lambda: 1 - 0.08 * random.random(n) ** 2,
        "near chance": lambda: 0.35 * random.random(n),
        "stepped": lambda: random.choice(np.linspace(0.05, 0.97, 24), n) + 0.01 * random.random(n),
    }[shape]()
    return between(x, classes, scores)


def drawn() -> Iterator[Case]:
    """Yield the fourth grid: a population of one model and a pair for each number."""
    for models, quantity in ((1, "error"), (2, "difference")):
        for number in range(RANDOM_COUNT):
            classes, population = _random_population(models, number)
            yield Case("random", quantity, classes, round(population.true(), 6), population)


def _random_population(models: int, number: int) -> tuple[int, Population]:
    """The classes and the population of one or two models of this number; redrawn until its errors are possible."""
    for attempt in itertools.count():
        random = np.random.default_rng((2026, models, number, attempt))
        classes = int(random.integers(2, 7))
        errors = np.where(random.random(models) < CALIBRATED, 0.0, random.uniform(*RANDOM_ERRORS, models))
        alike, shared = random.uniform(0, 1, 2)
        sures = [_mixture(classes, score, random) for score in scores_of_two(random, alike)[:models]]
        warps = [_random_warp(random) for _ in range(models)]
        found = warped(f"random {number}", sures, warps, classes, errors.tolist(), float(shared))
        if found is not None:
            return classes, found
    raise AssertionError


def _mixture(classes: int, scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return confidences [atom] in the order of the scores: a mixture of up to three Betas."""
    parts = int(random.integers(1, 4))
    shapes, weights = np.exp(random.uniform(np.log(0.3), np.log(10), (parts, 2))), random.dirichlet(np.ones(parts))
    a, b = shapes[random.choice(parts, len(scores), p=weights)].T
    return between(random.beta(a, b), classes, scores)


def _random_warp(random: np.random.Generator) -> Warp:
    """Return a function for the chance at confidence c, x of the way from 1 / classes to 1, at strength t."""
    kind = random.choice(["steps", "waves", "logits"])
    if kind == "steps":
        return _steps(random.standard_normal(int(random.integers(2, 21))))
    if kind == "waves":
        size, speed, start = random.standard_normal(3), random.uniform(0.5, 8, 3), random.uniform(0, 2 * np.pi, 3)
        return lambda c, x, t: c - t * (size * np.sin(2 * np.pi * speed * x[:, None] + start)).sum(1)
    slope, shift = random.standard_normal(2)
    return lambda c, x, t: expit(logit(np.clip(c, 1e-9, 1 - 1e-9)) * np.exp(slope * t) + shift * t)
