"""Risk and coverage: the share of wrong answers if the model answers only the examples of which it is surest.

Coverage is the share of examples that are answered, risk the share of wrong ones among them (El-Yaniv and Wiener 2010;
Geifman and El-Yaniv 2017). AURC is the mean risk over all coverages 1/n to 1 (Geifman, Uziel and El-Yaniv 2019).
Examples of equal confidence have no order, so a risk is the expected one over all their orders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skillviz.core.intervals import (
    RESAMPLES,
    Interval,
    percentile_interval,
    resampled_values,
    spread_interval,
    wilson,
)
from skillviz.core.metrics import Statistic
from skillviz.core.scores import Floats, Integers, checked_logits, confidence, correct, probabilities

POINTS = 100
"""The most coverages at which a curve is computed."""

NOMINAL = 0.97
"""The level at which a percentile interval of AURC holds 95%: few errors make it narrow (measured)."""


@dataclass(frozen=True)
class RiskCoverage:
    """A model's curve, its AURC, and the AURC of resamples [resample], which are the same for all models of n examples.

    `curve` has coverage, risk, low and high, all 0..1. The ends are pointwise 95%: the wider of Wilson's interval,
    which has a width without errors too, and the bootstrap's, in which the answered examples vary.
    """

    curve: pd.DataFrame
    aurc: Interval
    draws: Floats


def risk_coverage(logits: ArrayLike, labels: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> RiskCoverage:
    """Return the curve and the AURC of logits [n, label], with 95% intervals over examples."""
    n = len(np.asarray(labels))
    answered = np.unique(np.ceil(np.arange(1, POINTS + 1) * n / POINTS).astype(int))
    of = _risks(logits, labels, answered)
    whole, (drawn,) = of(np.ones((1, n)))[0], resampled_values([of], n, resamples, seed)
    resampled = np.quantile(drawn[:, 1:], [0.025, 0.975], axis=0)
    binomial = wilson(np.minimum(whole[1:] * answered, answered), answered)
    low, high = np.minimum(resampled[0], binomial[0]), np.maximum(resampled[1], binomial[1])
    curve = pd.DataFrame({"coverage": answered / n, "risk": whole[1:], "low": low, "high": high})
    return RiskCoverage(curve, spread_interval(float(whole[0]), drawn[:, 0], NOMINAL), drawn[:, 0])


def aurc_difference(a: RiskCoverage, b: RiskCoverage) -> Interval:
    """Return the AURC of a minus b's on the same examples, with its paired bootstrap interval: below 0, a is better."""
    return percentile_interval(a.aurc.value - b.aurc.value, a.draws - b.draws, NOMINAL)


def _risks(logits: ArrayLike, labels: ArrayLike, answered: Integers) -> Statistic:
    """The AURC and the expected risks [resample, 1 + coverage] among the surest `answered` examples, by weights.

    Errors grow linearly over examples of equal confidence, which a resample's copies of one example are too.
    """
    z, y = checked_logits(logits, labels)
    order = np.argsort(-(sure := confidence(probabilities(z))), kind="stable")
    wrong, numbers = ~correct(z, y)[order], np.arange(1, len(y) + 1)
    last = np.flatnonzero(np.diff(sure[order], append=-1.0))

    def of(weights: Floats) -> Floats:
        drawn = weights[:, order]
        sums = (np.pad(np.cumsum(part, axis=1)[:, last], ((0, 0), (1, 0))) for part in (drawn, drawn * wrong))
        risks = np.stack([np.interp(numbers, *row) for row in zip(*sums, strict=True)]) / numbers
        return np.column_stack([risks.mean(axis=1), risks[:, answered - 1]])

    return of
