"""Statistics over seeds: means with t-intervals, and means on resamples of examples and seeds together.

There is one of each here, for every table. `widen` says whether drawn seeds are made to stray as far as the t-interval
over them does (tables of studies), or are left to the plain bootstrap (tables of runs).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skillviz.analysis.observations import TEST, Observation
from skillviz.core.intervals import (
    RESAMPLES,
    Interval,
    SeedsInterval,
    percentile_interval,
    resampled_values,
    seeds_interval,
    wilson,
)
from skillviz.core.metrics import METRICS, Statistic, metric_names, metric_row, statistic

Unit = tuple[str, int]
Draws = Mapping[Unit, np.ndarray]
"""The metric on every resample [resample], by fine-tuned model and mask seed."""


def over_seeds(values: Iterable[float], metric: str = "") -> SeedsInterval:
    """Mean and t-interval of one value a seed, cut to what the metric can be; all missing without values."""
    defined = [value for value in values if np.isfinite(value)]
    if not defined:
        return SeedsInterval(np.nan, np.nan, np.nan, np.nan, 0)
    interval = seeds_interval(defined)
    low, high = cut(metric, interval.low, interval.high)
    return interval._replace(low=low, high=high)


def by_unit(side: Sequence[Observation], metric: str) -> dict[Any, float]:
    """The metric by what the seeds are: by fine-tuned model where there are several, else by mask seed."""
    values = {one.unit: one.values[metric] for one in side if np.isfinite(one.values.get(metric, np.nan))}
    if len({model for model, _ in values}) < 2:
        return {seed: value for (_, seed), value in values.items()}
    grouped = itertools.groupby(sorted(values), key=lambda unit: unit[0])
    return {model: float(np.mean([values[unit] for unit in units])) for model, units in grouped}


def cut(metric: str, low: float, high: float) -> tuple[float, float]:
    """The ends of an interval, neither beyond what the metric can be; a missing one stays missing."""
    row = metric_row(metric)
    ends = np.clip([low, high], row.lowest, row.highest)
    return float(ends[0]), float(ends[1])


def mean_of(values: Iterable[float]) -> float:
    """The mean; exactly the value where all are equal."""
    every = list(values)
    return every[0] if len(set(every)) == 1 else float(np.mean(every))


def halves(side: Sequence[Observation], metric: str) -> tuple[float, float]:
    """How far the stored intervals over examples reach below and above their values, mean over the side."""
    rows = [(one.values.get(metric, np.nan), *one.ends.get(metric, (np.nan, np.nan))) for one in side]
    return mean_of(value - low for value, low, _ in rows), mean_of(high - value for value, _, high in rows)


class Resampled:
    """The draws of all observations with answers; those on the same examples share their resamples."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._draws: dict[tuple[int, str], np.ndarray] = {}
        blocks: dict[str, list[Observation]] = {}
        for one in observations:
            if one.answers is not None and len(one.answers.labels):
                blocks.setdefault(one.answers.examples, []).append(one)
        for block in blocks.values():
            self._draw(block)

    def of(self, side: Sequence[Observation], metric: str) -> Draws | None:
        """The draws of one side; None where one of its observations has no answers, or not on the same examples."""
        examples = {one.answers.examples if one.answers is not None else "" for one in side}
        if len(examples) != 1 or any((id(one), metric) not in self._draws for one in side):
            return None
        return {one.unit: self._draws[id(one), metric] for one in side}

    def _draw(self, block: Sequence[Observation]) -> None:
        keys: list[tuple[int, str]] = []
        statistics: list[Statistic] = []
        for one in block:
            for metric, of in _statistics(one).items():
                keys.append((id(one), metric))
                statistics.append(of)
        n = len(block[0].answers.labels) if block[0].answers else 0
        self._draws |= dict(zip(keys, resampled_values(statistics, n, RESAMPLES, 0), strict=True))


def _statistics(one: Observation) -> dict[str, Statistic]:
    """The metrics of one observation as functions of weights."""
    answers = one.answers
    if answers is None:
        return {}
    names = metric_names(one.note.metric)
    statistics = {name: statistic(name, answers.logits, answers.labels, one.positive) for name in names}
    same = answers.agrees
    return statistics if same is None else {**statistics, "agreement": lambda weights: weights @ same / len(same)}


def resampled_tests(observations: Sequence[Observation]) -> Resampled:
    """The draws of what was observed on test sets, for all tables of a study."""
    return Resampled([one for one in observations if one.split == TEST])


def pooled_ends(side: Sequence[Observation], metric: str, drawn: Resampled) -> tuple[float, float]:
    """The ends of the interval over examples and seeds; of a single observation those that it was stored with.

    Without draws the mean reach of the stored intervals and that over seeds, added as squares.
    """
    if len(side) == 1:
        return side[0].ends.get(metric, (np.nan, np.nan))
    draws = drawn.of(side, metric)
    values = [one.values.get(metric, np.nan) for one in side]
    over = over_seeds(by_unit(side, metric).values())
    if draws is not None and np.isfinite(values).all():
        ends = percentile_interval(over.value, mean_draws(draws))
        return ends.low, ends.high
    low, high = halves(side, metric)
    half = over.high - over.value if np.isfinite(over.high) else 0.0
    return over.value - float(np.hypot(half, low)), over.value + float(np.hypot(half, high))


@dataclass(frozen=True)
class SeedDraws:
    """A metric of several seeds on the same examples: one value a seed [seed], and the same on shared resamples of the
    examples [seed, resample].

    `number` tells the sides of one comparison apart, so that each draws seeds of its own.
    """

    values: np.ndarray
    draws: np.ndarray
    number: int = 0
    widen: bool = True

    def mean_draws(self) -> np.ndarray:
        """The mean over seeds on each resample [resample]; seeds are drawn with replacement too."""
        return seeds_drawn(self.draws, np.random.default_rng(self.number), self.widen)

    def interval(self) -> Interval:
        """The mean over seeds with its percentile interval over examples and seeds."""
        return percentile_interval(float(self.values.mean()), self.mean_draws())

    def less(self, other: SeedDraws) -> Interval:
        """The mean less the other's, with the percentile interval of the same on the resamples that both share."""
        difference = float(self.values.mean() - other.values.mean())
        return percentile_interval(difference, self.mean_draws() - other.mean_draws())


def seed_draws(seeds: Sequence[tuple[float, np.ndarray]], number: int = 0, widen: bool = True) -> SeedDraws:
    """The draws of seeds that each have a value and its resamples, as `core.intervals.whole_and_resampled` gives."""
    return SeedDraws(np.array([one for one, _ in seeds]), np.stack([draws for _, draws in seeds]), number, widen)


class SeedsOnExamples(NamedTuple):
    """One metric of several seeds on the same examples: over seeds, and the ends over examples and seeds."""

    over: SeedsInterval
    low: float
    high: float


def on_examples(metric: str, seeds: SeedDraws, n: int) -> SeedsOnExamples:
    """The metric's mean over seeds with intervals; the draws are of the same n examples.

    A single seed has the metric's own interval over examples, such as Wilson's of accuracy.
    """
    if METRICS[metric].interval == "wilson" and len(seeds.values) == 1:
        ends = wilson(round(float(seeds.values[0]) * n), n)
    else:
        pooled = seeds.interval()
        ends = pooled.low, pooled.high
    return SeedsOnExamples(over_seeds(seeds.values, metric), *cut(metric, *ends))


def mean_draws(draws: Draws, number: int = 0) -> np.ndarray:
    """The mean on each resample [resample]: fine-tuned models are drawn again, and of each its mask seeds.

    `number` tells the two sides of a comparison apart, so that each draws seeds of its own.
    """
    chosen = _picks(sorted({model for model, _ in draws}), len(next(iter(draws.values()))), 0)
    return _mean(draws, chosen, number)


def difference_draws(a: Draws, b: Draws) -> np.ndarray:
    """Mean of a less mean of b on each resample; fine-tuned models that both sides have are drawn together."""
    models_a, models_b = ({model for model, _ in side} for side in (a, b))
    resamples = len(next(iter(a.values())))
    if models_a == models_b:
        chosen = _picks(sorted(models_a), resamples, 0)
        return _mean(a, chosen, 1) - _mean(b, chosen, 2)
    return _mean(a, _picks(sorted(models_a), resamples, 3), 1) - _mean(b, _picks(sorted(models_b), resamples, 4), 2)


def _picks(models: Sequence[str], resamples: int, number: int) -> list[list[str]]:
    """For each place among the models, which one stands there on every resample."""
    rng = np.random.default_rng([5, number])
    return [[models[i] for i in rng.integers(len(models), size=resamples)] for _ in models]


def _mean(draws: Draws, chosen: Sequence[Sequence[str]], number: int) -> np.ndarray:
    rng = np.random.default_rng([7, number])
    by_model: dict[str, np.ndarray] = {}
    for model in dict.fromkeys(model for model, _ in draws):
        by_model[model] = np.stack([draws[unit] for unit in sorted(draws) if unit[0] == model])
    center = np.mean([values.mean(axis=0) for values in by_model.values()], axis=0)
    total = np.zeros(len(chosen[0]))
    for place in chosen:
        # each place draws mask seeds of its own, also where the same model stands in two places
        drawn = {model: seeds_drawn(values, rng) for model, values in by_model.items()}
        picked = np.array(place)
        for model, values in drawn.items():
            total += np.where(picked == model, values, 0.0)
    return center + widening(len(chosen)) * (total / len(chosen) - center)


def widening(n: int) -> float:
    """By how much the mean of n drawn seeds must stray further than a bootstrap lets it, 1 for a single one.

    A bootstrap over n values has sqrt((n - 1) / n) of their mean's standard error and normal tails; with this factor
    its 95 % percentile interval is as wide as the t-interval over the n.
    """
    from scipy.special import ndtri, stdtrit  # a fifth of a second, which a single seed need not wait for

    return float(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975) / ndtri(0.975)) if n > 1 else 1.0


def seeds_drawn(values: np.ndarray, rng: np.random.Generator, widen: bool = True) -> np.ndarray:
    """The mean over seeds drawn again, on each resample [resample]; `values` are [seed, resample]."""
    picks = rng.integers(len(values), size=values.shape)
    drawn: np.ndarray = np.take_along_axis(values, picks, axis=0).mean(axis=0)
    if not widen:
        return drawn
    center = values.mean(axis=0)
    mean: np.ndarray = center + widening(len(values)) * (drawn - center)
    return mean
