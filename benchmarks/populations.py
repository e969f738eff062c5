"""Populations with known calibration error: stored predictions, and synthetic ones scaled to a wanted error.

A population is a table of atoms, drawn with replacement: the confidence of each of one or two models, and the chance
that each is right. Confidences are Beta between 1 / classes and 1, or from stored predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtri

from benchmarks.frame import ROOT
from skillviz.core.calibration_error import BINS, Binned, bin_numbers, equal_width_edges
from skillviz.core.scores import confidence, correct, probabilities
from skillviz.runs.run import Run
from skillviz.runs.store import Store

ATOMS = 4000
CELLS = 400_000  # examples drawn at a time
EDGES = equal_width_edges(BINS)
UNTIL = "2026-11-23"
"""Runs stored from this day on are in no population, so that new ones do not change earlier measurements."""


class Side(NamedTuple):
    """One model on every atom: its confidence and the chance that it is right, [atom]."""

    sure: np.ndarray
    chance: np.ndarray


@dataclass(frozen=True)
class Population:
    """Atoms of one model, or of two; `shared` is the correlation of the two outcomes' normal scores."""

    name: str
    sides: tuple[Side, ...]
    shared: float = 1.0

    def errors(self) -> list[float]:
        """Return the true binned calibration error of each model, a share."""
        return [_error(side.sure, side.chance) for side in self.sides]

    def true(self) -> float:
        """Return the true error of one model, or the first's less the second's."""
        errors = self.errors()
        return errors[0] - errors[1] if len(errors) == 2 else errors[0]

    def samples(self, n: int, repetitions: int, seed: int) -> Iterator[tuple[list[Binned], np.ndarray]]:
        """Yield blocks of samples of n: each model's sums by bin [sample, bin], products of two [sample, bin, bin]."""
        random, block = np.random.default_rng(seed), max(1, CELLS // n)
        scores = [ndtri(np.clip(side.chance, 0.0, 1.0)) for side in self.sides]
        for start in range(0, repetitions, block):
            rows = min(block, repetitions - start)
            drawn = random.integers(0, len(self.sides[0].sure), (rows, n))
            luck = random.standard_normal((rows, n))
            sure = [side.sure[drawn] for side in self.sides]
            right = [luck <= scores[0][drawn]]
            if len(self.sides) == 2:
                own = random.standard_normal((rows, n)) if self.shared < 1 else 0.0
                right.append(self.shared * luck + np.sqrt(1 - self.shared**2) * own <= scores[1][drawn])
            numbers = [_bin(one.ravel()).reshape(one.shape) for one in sure]
            binned = [_sums(*one) for one in zip(numbers, sure, right, strict=True)]
            products = np.zeros((rows, 0, 0))
            if len(self.sides) == 2:
                cell = numbers[0] * BINS + numbers[1] + np.arange(rows)[:, None] * BINS**2
                gaps = (sure[0] - right[0]) * (sure[1] - right[1])
                products = np.bincount(cell.ravel(), weights=gaps.ravel(), minlength=rows * BINS**2)
                products = products.reshape(rows, BINS, BINS)
            yield binned, products


def _sums(number: np.ndarray, sure: np.ndarray, right: np.ndarray) -> Binned:
    rows = len(number)
    cell = (number + np.arange(rows)[:, None] * BINS).ravel()
    every = np.ones_like(sure), sure, right, sure**2, (sure - right) ** 2
    return Binned(*(np.bincount(cell, one.ravel(), rows * BINS).reshape(rows, BINS) for one in every))


def _error(sure: np.ndarray, chance: np.ndarray) -> float:
    return float(np.abs(np.bincount(_bin(sure), weights=sure - chance, minlength=BINS) / len(sure)).sum())


SHAPES = {"flat": (1, 1), "low": (1.2, 3), "high": (3, 0.7), "sharp": (12, 0.25), "middle": (4, 4)}
"""Beta parameters of the confidence between 1 / classes and 1; `sharp` has most of its mass above 0.99."""

Warp = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def _bin(sure: np.ndarray) -> np.ndarray:
    return bin_numbers(sure, EDGES)


WARPS: dict[str, Warp] = {
    "overconfident": lambda c, x, t: c - t * x**0.3 * np.minimum(1, 4 * x + 0.2),
    "underconfident": lambda c, x, t: c + (1 - c) * (1 - np.exp(-3 * t)),
    "shifted": lambda c, x, t: c - t,
    "mixed sign": lambda c, x, t: c - t * np.where(x > np.median(x), 1, -1),
    "alternating": lambda c, x, t: c - t * np.where(_bin(c) % 2 == 0, 1, -1),
    "one bad bin": lambda c, x, t: c - t * (_bin(c) == np.argmax(np.bincount(_bin(c)))),
    "temperature": lambda c, x, t: expit(logit(c) / (1 + t)),
    "wave": lambda c, x, t: c - t * np.sin(9 * x),
}
"""The chance of being right at confidence c, x of the way from 1 / classes to 1, at strength t."""


def confidences(shape: str, classes: int, scores: np.ndarray, seed: int) -> np.ndarray:
    """Return confidences [atom] of this shape in the order of the normal scores: Beta, or of a stored run."""
    random = np.random.default_rng(seed)
    if shape in SHAPES:
        return between(random.beta(*SHAPES[shape], len(scores)), classes, scores)
    sure = random.choice(np.clip(stored_side(shape, "finetuned").sure, 1 / classes, 1 - 1e-6), len(scores))
    return _in_order_of(scores, sure)


def between(x: np.ndarray, classes: int, scores: np.ndarray) -> np.ndarray:
    """Return confidences [atom] x of the way from 1 / classes to 1, in the order of the scores."""
    return _in_order_of(scores, np.clip(1 / classes + (1 - 1 / classes) * x, 1 / classes, 1 - 1e-6))


def _in_order_of(scores: np.ndarray, sure: np.ndarray) -> np.ndarray:
    return np.asarray(np.sort(sure)[np.argsort(np.argsort(scores))])


def scores_of_two(random: np.random.Generator, alike: float) -> tuple[np.ndarray, np.ndarray]:
    """Return normal scores [atom] of two models with this correlation."""
    first = random.standard_normal(ATOMS)
    return first, alike * first + np.sqrt(1 - alike**2) * random.standard_normal(ATOMS)


def scaled(sure: np.ndarray, warp: Warp, classes: int, error: float) -> np.ndarray | None:
    """Return the chances [atom] at the strength with this error; None if there is no such strength."""
    x = (sure - 1 / classes) / (1 - 1 / classes)

    def chance(strength: float) -> np.ndarray:
        return np.clip(warp(sure, np.clip(x, 0, 1), strength), 0.0, 1.0)

    if error == 0:
        return sure
    low, high = 0.0, 8.0
    if _error(sure, chance(high)) < error:
        return None
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if _error(sure, chance(middle)) < error else (low, middle)
    return chance(high) if abs(_error(sure, chance(high)) - error) < 1e-4 else None


def warped(
    name: str, sures: Sequence[np.ndarray], warps: Sequence[Warp], classes: int, errors: Sequence[float],
    shared: float = 1.0,
) -> Population | None:  # fmt: skip
    """Return a population with these confidences [atom] and errors; None if a warp cannot reach its error."""
    chances = [scaled(s, w, classes, e) for s, w, e in zip(sures, warps, errors, strict=True)]
    sides = tuple(Side(s, c) for s, c in zip(sures, chances, strict=True) if c is not None)
    return Population(name, sides, shared) if len(sides) == len(sures) else None


Confidences = Callable[[str, int, np.ndarray, int], np.ndarray]


def synthetic(
    shapes: Sequence[str], kinds: Sequence[str], classes: int, errors: Sequence[float],
    alike: float = 1.0, shared: float = 1.0, *,
    warps: Mapping[str, Warp] = WARPS, sure: Confidences = confidences, seed: int = 0,
) -> Population | None:  # fmt: skip
    """Return one model, or two, of these errors; None if a warp cannot reach its error.

    `alike` correlates the confidences of two models, `shared` their outcomes.
    """
    scores = [np.arange(ATOMS)] if len(shapes) == 1 else scores_of_two(np.random.default_rng(seed), alike)
    sures = [sure(shape, classes, score, i) for i, (shape, score) in enumerate(zip(shapes, scores, strict=True))]
    parts = [f"{s}, {k if e else 'calibrated'}" for s, k, e in zip(shapes, kinds, errors, strict=True)]
    name = "; ".join([*parts, *([f"alike {alike}"] if len(shapes) == 2 else [])])
    return warped(name, sures, [warps[kind] for kind in kinds], classes, errors, shared)


def stored_runs(name: str) -> list[Run]:
    """Return the stored runs from before UNTIL whose ids begin with this name, by id."""
    return [run for run in _all_stored() if run.id.startswith(name) and run.record.created < UNTIL]


@lru_cache
def _all_stored() -> list[Run]:
    return sorted(Store(ROOT / "cached_runs").list(), key=lambda run: run.id)


@lru_cache
def _stored(run: str) -> pd.DataFrame:
    return stored_runs(run)[0].predictions()


def stored_logits(run: str, state: str, split: str = "test") -> tuple[np.ndarray, np.ndarray]:
    """Logits [example, class] and labels [example] of a stored run in one state, in the order of the examples."""
    table = _stored(run)
    rows = table[(table["state"] == state) & (table["split"] == split)].sort_values("example_id")
    logits = rows[[name for name in rows.columns if name.startswith("logit_")]].to_numpy(np.float64)
    return logits[:, ~np.isnan(logits).all(axis=0)], rows["label"].to_numpy()


def stored_side(run: str, state: str) -> Side:
    """Return the test predictions of a stored run in one state as a population, in which each chance is 0 or 1."""
    logits, labels = stored_logits(run, state)
    return Side(confidence(probabilities(logits)), correct(logits, labels).astype(np.float64))


def two_class_logits(sure: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Two-class logits of these confidences, whose prediction is class 0 if it is right: the label is always 0."""
    margin = np.log(sure) - np.log1p(-np.minimum(sure, 1 - 1e-12))
    return np.stack([np.where(right, margin, 0.0), np.where(right, 0.0, margin)], axis=1)


def stored(run: str, states: tuple[str, ...]) -> Population:
    """Return the stored predictions of a run in one or two states, as a population."""
    return Population(f"{run}, {' less '.join(states)}", tuple(stored_side(run, state) for state in states))


def classes_of(run: str) -> int:
    """Return the number of classes of a stored run."""
    return stored_logits(run, "finetuned")[0].shape[1]
