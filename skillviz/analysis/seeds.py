"""Statistics over seeds: one kind of interval for every table, over seeds and examples together.

All means over seeds, and differences of two such means, are computed here. The seeds' part of the interval is their
spread; the examples' part is the spread of the seeds' mean on shared resamples (`core.seeds_interval`). For calibration
errors the intervals of the models are joined, because a resampled error is biased (docs/statistics.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skillviz.analysis.answers import Answers
from skillviz.analysis.observations import TEST, Observation
from skillviz.core.intervals import (
    RESAMPLES,
    Interval,
    SeedsInterval,
    metric_difference,
    metric_interval,
    percentile_interval,
    resampled_values,
    seeds_interval,
    whole_and_resampled,
    wilson,
)
from skillviz.core.metrics import COMPARED, METRICS, Statistic, metric_names, metric_row, statistic
from skillviz.core.seeds_interval import mean_of_intervals, seeds_and_examples

NAN = float("nan")


class SeedsEstimate(NamedTuple):
    """A mean over seeds with its interval over seeds and examples, NaN if there is none.

    `sd` is the standard deviation over seeds (n - 1). The interval of a calibration error is about `debiased`, and
    `value`, the plug-in, may lie outside of it; NaN for other metrics. `gained` and `lost` are as of `Interval`, NaN
    for several models of a side.
    """

    value: float
    low: float
    high: float
    sd: float
    seeds: int
    debiased: float = NAN
    gained: float = NAN
    lost: float = NAN


@dataclass(frozen=True)
class Scored:
    """A metric of one model: its interval over examples, its values on resamples that are shared by all models on
    these examples [resample], and the answers themselves; the last two are missing if predictions are not stored."""

    interval: Interval
    seed: int = 0
    draws: np.ndarray | None = None
    answers: Answers | None = None
    positive: int = 1


Side = Mapping[Any, Sequence[Scored]]
"""The models of a mean by seed: by fine-tuned model if there are several, otherwise by mask seed."""


def is_calibration(metric: str) -> bool:
    """True if the metric's interval is about its debiased value."""
    return metric_row(metric).interval == "calibration"


def mean_over_seeds(side: Side, metric: str) -> SeedsEstimate:
    """The metric's mean over the seeds of a side, each seed counting by the mean of its models.

    Without predictions, and for calibration, the examples' part comes from the models' own intervals; a single model
    keeps its own interval. Models whose metric is not defined are left out; all fields are missing if no model is left.
    """
    known = {seed: [one for one in models if np.isfinite(one.interval.value)] for seed, models in side.items()}
    known = {seed: models for seed, models in known.items() if models}
    if not known:
        return SeedsEstimate(NAN, NAN, NAN, NAN, 0)
    values = np.array([_mean_value(models) for models in known.values()])
    own = np.array([_mean_interval([one.interval for one in models], metric) for models in known.values()])
    resampled = None if is_calibration(metric) or sum(map(len, known.values())) == 1 else _mean_draws(known)
    over = _over(values, own, resampled)
    low, high = cut(metric, over.low, over.high)
    sd = float(values.std(ddof=1)) if len(values) > 1 else NAN
    debiased = float(own[:, 0].mean()) if is_calibration(metric) else NAN
    return SeedsEstimate(float(values.mean()), low, high, sd, len(values), debiased)


def difference_over_seeds(a: Side, b: Side, metric: str) -> SeedsEstimate:
    """The mean of a minus the mean of b, all scored on the same examples.

    Seeds that both sides have are paired. A side of one seed is paired with every seed of the other; if both have
    several and not the same ones, each side's seeds count by their own spread.
    """
    if set(a) == set(b):
        cells = [[(a[seed], b[seed])] for seed in a]
    else:
        cells = [[(one, other) for other in b.values()] for one in a.values()]
    shape = len(cells), len(cells[0])
    values = np.array([[_mean_value(one) - _mean_value(other) for one, other in row] for row in cells])
    own, resampled = np.full((*shape, 3), NAN), None
    if is_calibration(metric):
        own = np.array([[_mean_interval(_paired(one, other, metric), metric) for one, other in row] for row in cells])
    else:
        left, right = _mean_draws(a), _mean_draws(b)
        resampled = None if left is None or right is None else left - right
        pair = [one for side in (a, b) for models in side.values() for one in models]
        if resampled is not None and metric in METRICS and METRICS[metric].kernel and len(pair) == 2:
            less = _paired_models(pair[0], pair[1], metric)
            return SeedsEstimate(less.value, less.low, less.high, NAN, 1, NAN, less.gained, less.lost)
    over = _over(values, own, resampled, _one_more_example(a, metric))
    value = float(np.mean([*map(_mean_value, a.values())]) - np.mean([*map(_mean_value, b.values())]))
    debiased = float(own[..., 0].mean()) if is_calibration(metric) else NAN
    return SeedsEstimate(value, over.low, over.high, over.sd, max(len(a), len(b)), debiased)


def difference_of_differences(one: tuple[Side, Side], other: tuple[Side, Side], metric: str) -> SeedsEstimate:
    """a - b of the first pair of sides minus a - b of the second, paired by seed and example; not for calibration
    errors.

    It has no interval if pairing is not possible: predictions are missing or on other examples, or sides with several
    seeds do not have the same ones.
    """
    signed = list(zip((1, -1, -1, 1), (*one, *other), strict=True))
    total = sum(sign * float(np.mean([*map(_mean_value, side.values())])) for sign, side in signed)
    seeds = {frozenset(side) for _, side in signed if len(side) > 1}
    models = [model for _, side in signed for of_seed in side.values() for model in of_seed]
    examples = {model.answers.examples for model in models if model.answers is not None}
    drawn = [_mean_draws(side) for _, side in signed]
    resampled = [sign * draws for (sign, _), draws in zip(signed, drawn, strict=True) if draws is not None]
    longest = max((side for _, side in signed), key=len)
    if len(seeds) > 1 or len(examples) > 1 or len(resampled) < len(signed) or not np.isfinite(total):
        return SeedsEstimate(total, NAN, NAN, NAN, len(longest))
    values = [
        sum(sign * _mean_value(side[seed] if len(side) > 1 else next(iter(side.values()))) for sign, side in signed)
        for seed in longest
    ]
    spread = _spread(np.sum(resampled, axis=0), math.sqrt(2) * _one_more_example(one[0], metric))
    over = seeds_and_examples(values, spread)
    return SeedsEstimate(over.value, over.low, over.high, over.sd, over.n)


def apart(a: SeedsEstimate, b: SeedsEstimate) -> SeedsEstimate:
    """The difference a - b of two unpaired means, with an interval joined from theirs (Zou and Donner 2008); no
    interval if one of them has none."""
    calibrated = np.isfinite(a.debiased) and np.isfinite(b.debiased)
    one, other = (a.debiased, b.debiased) if calibrated else (a.value, b.value)
    low = one - other - float(np.hypot(one - a.low, b.high - other))
    high = one - other + float(np.hypot(a.high - one, other - b.low))
    debiased = one - other if calibrated else NAN
    return SeedsEstimate(a.value - b.value, low, high, NAN, max(a.seeds, b.seeds), debiased)


def _over(values: np.ndarray, own: np.ndarray, resampled: np.ndarray | None, least: float = 0.0) -> SeedsInterval:
    """The interval of the mean of `values` [seed, seed of the other side if there is one].

    It is computed from the mean on resamples [resample], or, without resamples, from the cells' own estimates with both
    ends [..., 3]. A single cell has the percentiles of its resamples. `least` is passed to `_spread`.
    """
    if resampled is not None and values.size == 1:
        one = percentile_interval(float(values.item()), resampled)
        return SeedsInterval(one.value, one.low, one.high, NAN, 1)
    if resampled is not None:
        spread = _spread(resampled, least)
        if np.isfinite(values).all() and (spread > 0 or not np.isfinite(own).all()):
            return seeds_and_examples(values, spread)
    if np.isfinite(own).all():
        return mean_of_intervals(own[..., 0], own[..., 1], own[..., 2])
    return SeedsInterval(NAN, NAN, NAN, NAN, 0)


def _spread(resampled: np.ndarray, least: float) -> float:
    """The standard deviation over resamples, with `least` added in quadrature; 0 if fewer than two are defined."""
    defined = resampled[np.isfinite(resampled)]
    return math.hypot(float(defined.std(ddof=1)), least) if len(defined) > 1 else 0.0


def _one_more_example(side: Side, metric: str) -> float:
    """The spread added by one more example on either side of a difference of shares (Bonett and Price 2012), which
    resamples of nearly equal models do not show; 0 for other metrics."""
    answers = next(iter(side.values()))[0].answers
    if answers is None or metric_row(metric).interval != "wilson":
        return 0.0
    return math.sqrt(2) / (len(answers.labels) + 2)


def _mean_value(models: Sequence[Scored]) -> float:
    return float(np.mean([one.interval.value for one in models]))


def _mean_draws(side: Side) -> np.ndarray | None:
    """The mean over seeds on every resample [resample]; None if a model has no draws."""
    models = [one for of_seed in side.values() for one in of_seed]
    if any(one.draws is None for one in models) or len({one.answers.examples for one in models if one.answers}) > 1:
        return None
    drawn = [[one.draws for one in of_seed if one.draws is not None] for of_seed in side.values()]
    means: np.ndarray = np.mean([np.mean(of_seed, axis=0) for of_seed in drawn], axis=0)
    return means


def _mean_interval(intervals: Sequence[Interval], metric: str) -> tuple[float, float, float]:
    """Mean estimate and mean ends for models of one seed; the estimate is the one that the ends are about."""
    centers = [one.debiased if is_calibration(metric) else one.value for one in intervals]
    low, high = ([one.low for one in intervals], [one.high for one in intervals])
    return float(np.mean(centers)), float(np.mean(low)), float(np.mean(high))


def _paired(one: Sequence[Scored], other: Sequence[Scored], metric: str) -> list[Interval]:
    """The paired differences of models of two seeds: by mask seed if both have the same, otherwise each with each."""
    a, b = ({model.seed: model for model in models} for models in (one, other))
    same = set(a) == set(b) and len(a) == len(one) == len(other)
    pairs = [(a[seed], b[seed]) for seed in a] if same else itertools.product(one, other)
    return [_paired_models(x, y, metric) for x, y in pairs]


def _paired_models(x: Scored, y: Scored, metric: str) -> Interval:
    if x.answers is None or y.answers is None:
        return Interval(NAN, NAN, NAN)
    return metric_difference(x.answers.logits, y.answers.logits, x.answers.labels, metric, positive=x.positive)


def over_seeds(values: Iterable[float], metric: str = "") -> SeedsInterval:
    """Mean and Student's t-interval of one value per seed that does not depend on examples, such as a share of a
    region's entries, cut to the metric's range; all fields are missing without values."""
    defined = [value for value in values if np.isfinite(value)]
    if not defined:
        return SeedsInterval(NAN, NAN, NAN, NAN, 0)
    interval = seeds_interval(defined)
    low, high = cut(metric, interval.low, interval.high)
    return interval._replace(low=low, high=high)


def cut(metric: str, low: float, high: float) -> tuple[float, float]:
    """The ends of an interval, cut to the metric's range; a missing end stays missing."""
    row = metric_row(metric)
    ends = np.clip([low, high], row.lowest, row.highest)
    return float(ends[0]), float(ends[1])


def mean_of(values: Iterable[float]) -> float:
    """The mean; exactly the value if all are equal."""
    every = list(values)
    return float(every[0]) if len(set(every)) == 1 else float(np.mean(every))


class Resampled:
    """Sides of observations; observations with answers on the same examples share their resamples."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._draws: dict[tuple[int, str], np.ndarray] = {}
        blocks: dict[str, list[Observation]] = {}
        for one in observations:
            if one.answers is not None and len(one.answers.labels):
                blocks.setdefault(one.answers.examples, []).append(one)
        for block in blocks.values():
            keyed = [(id(one), metric, of) for one in block for metric, of in _statistics(one)]
            assert block[0].answers is not None
            n = len(block[0].answers.labels)
            drawn = resampled_values([of for _, _, of in keyed], n, RESAMPLES, 0)
            self._draws |= {(one, metric): draws for (one, metric, _), draws in zip(keyed, drawn, strict=True)}

    def side(self, observations: Sequence[Observation], metric: str) -> Side:
        """The models of observations that differ only in their seeds."""
        by_unit = {one.unit: one for one in observations}
        several = len({model for model, _ in by_unit}) > 1
        side: dict[Hashable, list[Scored]] = {}
        for one in [by_unit[unit] for unit in sorted(by_unit)] if several else by_unit.values():
            draws = self._draws.get((id(one), metric))
            scored = Scored(one.interval(metric), one.seed, draws, one.answers, one.positive)
            side.setdefault(one.model if several else one.seed, []).append(scored)
        return side


def _statistics(one: Observation) -> Iterator[tuple[str, Statistic]]:
    """The metrics of one observation as functions of weights; without calibration, which is not resampled."""
    answers = one.answers
    if answers is None:
        return
    for name in metric_names(one.note.metric, COMPARED):
        if not is_calibration(name):
            yield name, statistic(name, answers.logits, answers.labels, one.positive)
    if answers.agrees is not None:
        same = answers.agrees
        yield "agreement", lambda weights: weights @ same / len(same)


def resampled_tests(observations: Sequence[Observation]) -> Resampled:
    """The resamples of observations on test sets, for all tables of a study."""
    return Resampled([one for one in observations if one.split == TEST])


def scored_in(row: Mapping[Any, Any], metric: str) -> Scored:
    """A metric of one model from a row of a stored table: value, low, high, and debiased if there is one.

    A calibration error without its debiased value was stored with another kind of interval, and gets none here.
    """
    numbers = (row.get(name) for name in ("value", "low", "high", "debiased"))
    value, low, high, debiased = (NAN if number is None else float(number) for number in numbers)
    if is_calibration(metric) and np.isnan(debiased):
        return Scored(Interval(value, NAN, NAN))
    return Scored(Interval(value, low, high, debiased))


def scored_on(answers: Sequence[Answers], metric: str, positive: int = 1) -> list[Scored]:
    """The metric of models that answered the same examples in the same order, one model per seed."""
    n = len(answers[0].labels)
    if is_calibration(metric):
        intervals = [metric_interval(one.logits, one.labels, metric, positive=positive) for one in answers]
        return [Scored(i, seed, None, a, positive) for seed, (i, a) in enumerate(zip(intervals, answers, strict=True))]
    of = [statistic(metric, one.logits, one.labels, positive) for one in answers]
    scored = []
    for seed, (one, (value, draws)) in enumerate(zip(answers, whole_and_resampled(of, n), strict=True)):
        is_share = METRICS[metric].interval == "wilson"
        interval = Interval(value, *wilson(round(value * n), n)) if is_share else percentile_interval(value, draws)
        scored.append(Scored(interval, seed, draws, one, positive))
    return scored
