"""Metrics of many observations on the same resampled examples, and their means over fine-tuned models and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skillviz.core.intervals import resampled_values
from skillviz.core.metrics import Statistic, statistic, with_own
from skillviz.studies.observations import Observed

RESAMPLES = 1000
TEST = "test"

Unit = tuple[str, int]
Draws = Mapping[Unit, np.ndarray]
"""The metric on every resample [resample], by fine-tuned model and mask seed."""


class Resampled:
    """The draws of all observations with answers; those on the same examples share their resamples."""

    def __init__(self, found: Sequence[Observed]) -> None:
        self._draws: dict[tuple[int, str], np.ndarray] = {}
        blocks: dict[str, list[Observed]] = {}
        for one in found:
            if one.answers is not None and len(one.answers.labels):
                blocks.setdefault(one.answers.examples, []).append(one)
        for block in blocks.values():
            self._draw(block)

    def of(self, side: Sequence[Observed], metric: str) -> Draws | None:
        """The draws of one side; None where one of its observations has no answers, or not on the same examples."""
        examples = {one.answers.examples if one.answers is not None else "" for one in side}
        if len(examples) != 1 or any((id(one), metric) not in self._draws for one in side):
            return None
        return {one.unit: self._draws[id(one), metric] for one in side}

    def _draw(self, block: Sequence[Observed]) -> None:
        asked: list[tuple[int, str]] = []
        statistics: list[Statistic] = []
        for one in block:
            for metric, own in _statistics(one).items():
                asked.append((id(one), metric))
                statistics.append(own)
        n = len(block[0].answers.labels) if block[0].answers else 0
        self._draws |= dict(zip(asked, resampled_values(statistics, n, RESAMPLES, 0), strict=True))


def _statistics(one: Observed) -> dict[str, Statistic]:
    """The metrics of one observation as functions of weights."""
    answers = one.answers
    if answers is None:
        return {}
    names = with_own(one.note.metric)
    found = {name: statistic(name, answers.logits, answers.labels, one.positive) for name in names}
    same = answers.agrees
    return found if same is None else {**found, "agreement": lambda weights: weights @ same / len(same)}


def of_test(found: Sequence[Observed]) -> Resampled:
    """The draws of what was observed on test sets, for all tables of a study."""
    return Resampled([one for one in found if one.split == TEST])


def mean_draws(draws: Draws, number: int = 0) -> np.ndarray:
    """The mean on each resample [resample]: fine-tuned models are drawn again, and of each its mask seeds.

    `number` tells the two sides of a comparison apart, so that each draws seeds of its own.
    """
    chosen = _picks(sorted({member for member, _ in draws}), len(next(iter(draws.values()))), 0)
    return _mean(draws, chosen, number)


def difference_draws(a: Draws, b: Draws) -> np.ndarray:
    """Mean of a less mean of b on each resample; fine-tuned models that both sides have are drawn together."""
    members_a, members_b = ({member for member, _ in side} for side in (a, b))
    resamples = len(next(iter(a.values())))
    if members_a == members_b:
        chosen = _picks(sorted(members_a), resamples, 0)
        return _mean(a, chosen, 1) - _mean(b, chosen, 2)
    return _mean(a, _picks(sorted(members_a), resamples, 3), 1) - _mean(b, _picks(sorted(members_b), resamples, 4), 2)


def _picks(members: Sequence[str], resamples: int, number: int) -> list[list[str]]:
    """For each place among the members, which one stands there on every resample."""
    rng = np.random.default_rng([5, number])
    return [[members[i] for i in rng.integers(len(members), size=resamples)] for _ in members]


def _mean(draws: Draws, chosen: Sequence[Sequence[str]], number: int) -> np.ndarray:
    rng = np.random.default_rng([7, number])
    by_member: dict[str, np.ndarray] = {}
    for member in dict.fromkeys(member for member, _ in draws):
        by_member[member] = np.stack([draws[unit] for unit in sorted(draws) if unit[0] == member])
    center = np.mean([values.mean(axis=0) for values in by_member.values()], axis=0)
    total = np.zeros(len(chosen[0]))
    for place in chosen:
        # each place draws mask seeds of its own, also where the same model stands in two places
        own = {m: seeds_drawn(values, rng) for m, values in by_member.items()}
        picked = np.array(place)
        for member, values in own.items():
            total += np.where(picked == member, values, 0.0)
    return center + widening(len(chosen)) * (total / len(chosen) - center)


def widening(n: int) -> float:
    """By how much the mean of n drawn seeds must stray further than a bootstrap lets it, 1 for a single one.

    A bootstrap over n values has sqrt((n - 1) / n) of their mean's standard error and normal tails; with this factor
    its 95 % percentile interval is as wide as the t-interval over the n.
    """
    from scipy.special import ndtri, stdtrit  # a fifth of a second, which a single seed need not wait for

    return float(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975) / ndtri(0.975)) if n > 1 else 1.0


def seeds_drawn(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The mean over mask seeds drawn again, on each resample [resample], widened; `values` are [seed, resample]."""
    picks = rng.integers(len(values), size=values.shape)
    drawn, center = np.take_along_axis(values, picks, axis=0).mean(axis=0), values.mean(axis=0)
    mean: np.ndarray = center + widening(len(values)) * (drawn - center)
    return mean
