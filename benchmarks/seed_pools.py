"""Make pools of seeds, for intervals over seeds and examples: every seed answers every example of a population.

Seeds and examples are drawn from a pool with replacement, so the truth is the mean over the whole pool. A pool has
real searches (`mask_seeds`), or is made from one stored run. In the latter, seeds differ in accuracy and confidence,
and single answers differ by noise, so that two seeds disagree on as many examples as two stored ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from benchmarks import mask_seeds
from benchmarks.populations import stored_logits
from skillviz.core.scores import Integers

SEEDS, ATOMS = 120, 4000
SURENESS = 0.15  # standard deviation over seeds of the log of a factor on all logits


@dataclass(frozen=True, eq=False)
class Pool:
    """Logits [method, seed, example, class] and labels [example]; the same seed of two methods is a pair."""

    name: str
    logits: np.ndarray
    labels: Integers

    def accuracies(self) -> np.ndarray:
        """Return the accuracy of every seed, [method, seed]."""
        return np.asarray((self.logits.argmax(-1) == self.labels).mean(-1))

    def spread(self) -> float:
        """Return the standard deviation over seeds of the first method's accuracy, in points."""
        return float(100 * self.accuracies()[0].std())


@lru_cache
def of_masks(mixed: bool = False) -> Pool:
    """Return the grafts of real searches with different mask seeds: two localizers on one pair.

    In a `mixed` pool both methods have half of the seeds of each localizer, so its seeds also differ in a setting.
    """
    rows = mask_seeds.stored()
    labels = np.frombuffer(rows["labels"].iloc[0], np.uint8).astype(np.int64)
    answers = np.stack([np.frombuffer(row, np.float32).reshape(len(labels), -1) for row in rows["logits"]])
    logits = np.stack([answers[rows["localizer"] == name] for name in mask_seeds.METHODS]).astype(np.float64)
    if mixed:
        logits = np.stack([np.concatenate(half) for half in np.split(logits, 2, axis=1)])
    return Pool("real masks", logits, labels)


Shape = Literal["normal", "skewed", "even"]
"""The distribution of the seeds' abilities: "even" is uniform over a range."""


def _abilities(shape: Shape, random: np.random.Generator) -> np.ndarray:
    """Abilities of two methods' seeds [method, seed], mean 0 and standard deviation 1; skewed ones have bad seeds."""
    if shape == "skewed":
        return (4 - random.gamma(4, size=(2, SEEDS))) / 2
    if shape == "even":
        return random.uniform(-(3**0.5), 3**0.5, (2, SEEDS))
    return random.standard_normal((2, SEEDS))


@lru_cache
def of_spread(run: str, spread: float, shape: Shape = "normal") -> Pool:
    """Two methods of seeds like a stored run's graft, the first with this standard deviation of accuracy, in points.

    The second method is a little worse, on the same fine-tuned models: half of the variance of a seed's ability is
    shared.
    """
    logits, labels = stored_logits(run, "grafted")
    repeats = -(-ATOMS // len(labels))
    logits, labels = np.tile(logits, (repeats, 1)), np.tile(labels, repeats)
    random = np.random.default_rng(0)
    ability, noise = _abilities(shape, random), random.standard_normal((2, SEEDS, *logits.shape))
    ability[1] = (ability[0] + ability[1]) / np.sqrt(2)
    sure = np.exp(SURENESS * random.standard_normal((2, SEEDS)))
    scale = logits.std()
    toward = np.eye(logits.shape[1])[labels] - 1 / logits.shape[1]

    def pool(strength: float, noisy: float) -> Pool:
        good = scale * (strength * ability - np.array([[0.0], [0.1]]))
        answers = logits + good[..., None, None] * toward + noisy * scale * noise
        return Pool(f"like {run.split('-minilm')[0]}", sure[..., None, None] * answers, labels)

    noisy = _solved(lambda value: disagreement(pool(0.0, value)), real_disagreement(run), 1.0)
    return pool(_solved(lambda value: pool(value, noisy).spread(), spread, 2.0), noisy)


def disagreement(pool: Pool) -> float:
    """The share of examples on which just one of two seeds of the first method is right, mean over some pairs."""
    right = pool.logits[0, :20].argmax(-1) == pool.labels
    return float(np.mean([(right[i] != right[i + 1]).mean() for i in range(len(right) - 1)]))


def real_disagreement(run: str) -> float:
    """Return the same for the stored runs that differ from this one in their mask seed."""
    family = run.rsplit("-s", 1)[0]
    seeds = [stored_logits(f"{family}-s{seed}", "grafted") for seed in range(3)]
    right = [logits.argmax(-1) == labels for logits, labels in seeds]
    return float(np.mean([(right[i] != right[j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))]))


def _solved(value: Callable[[float], float], wanted: float, most: float) -> float:
    """Return the argument from 0 to `most` at which a rising function has this value; an end if there is none."""
    low, high = 0.0, most
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if value(middle) < wanted else (low, middle)
    return high if value(low) < wanted else low
