"""Intervals over the examples and seeds of several runs, by resampling their stored predictions together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skillviz.core.intervals import Interval, percentile_interval, resampled_values
from skillviz.core.metrics import statistic
from skillviz.errors import BadInput
from skillviz.runs.evaluate import positive
from skillviz.runs.run import Run

RESAMPLES = 1000


class Pooled(NamedTuple):
    """Each side's samples, and the number of examples that all runs share."""

    sides: dict[str, Sampled]
    n: int


@dataclass(frozen=True)
class Sampled:
    """A metric of several runs: one value a run [run], and the same on shared resamples [run, resample].

    `number` tells the sides of one comparison apart, so that each draws runs of its own.
    """

    values: np.ndarray
    draws: np.ndarray
    number: int = 0

    def mean_draws(self) -> np.ndarray:
        """The mean over runs on each resample, [resample]; runs are drawn with replacement too."""
        runs = len(self.values)
        chosen = np.random.default_rng(self.number).integers(runs, size=self.draws.shape)
        return np.take_along_axis(self.draws, chosen, axis=0).mean(axis=0)

    def interval(self) -> Interval:
        """The mean over runs with its percentile interval over examples and seeds."""
        return percentile_interval(float(self.values.mean()), self.mean_draws())


def compare(a: Sequence[Run], b: Sequence[Run], metric: str = "accuracy", split: str = "test") -> Interval:
    """The paired difference a - b of any two groups of runs on the same examples, with its interval.

    For example a localizer at 0.1 % against another at 1 %.
    """
    sides = sampled({"a": a, "b": b}, metric, split).sides
    return difference(sides["a"], sides["b"])


def difference(a: Sampled, b: Sampled) -> Interval:
    """Mean of a less mean of b with the percentile interval of the same on shared resamples."""
    return percentile_interval(float(a.values.mean() - b.values.mean()), a.mean_draws() - b.mean_draws())


def sampled(sides: Mapping[str, Sequence[Run]], metric: str, split: str = "test", resamples: int = RESAMPLES) -> Pooled:
    """Each side's metric of the graft at its main size, every run on the same resampled examples.

    Raises BadInput where the runs were not scored on the same examples.
    """
    everyone = [run for side in sides.values() for run in side]
    predictions, labels = joined(everyone, split)
    one = positive(everyone[0].record.task) if everyone[0].record.task else 1
    of = [statistic(metric, logits.astype(np.float64), labels, one) for logits in predictions]
    n = len(labels)
    values = np.array([f(np.ones((1, n)))[0] for f in of])
    draws = np.stack(resampled_values(of, n, resamples, 0))
    found, start = {}, 0
    for number, (name, side) in enumerate(sides.items()):
        end = start + len(side)
        found[name] = Sampled(values[start:end], draws[start:end], number)
        start = end
    return Pooled(found, n)


def joined(runs: Sequence[Run], split: str) -> tuple[list[np.ndarray], np.ndarray]:
    """The grafted logits [n, label] of each run in one order of the examples, and their labels [n]."""
    columns = [run.logits("grafted", split) for run in runs]
    order = [np.argsort(ids.astype(str), kind="stable") for ids, _, _ in columns]
    ids, labels = columns[0][0][order[0]], columns[0][1][order[0]]
    for run, (own, y, _), rows in zip(runs, columns, order, strict=True):
        if not np.array_equal(own[rows], ids) or not np.array_equal(y[rows], labels):
            raise BadInput(
                f"{runs[0].id} and {run.id} were not scored on the same {split} examples, so they cannot be compared."
            )
    return [logits[rows] for (_, _, logits), rows in zip(columns, order, strict=True)], labels
