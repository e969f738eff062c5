"""Agreement of two models' predictions, and McNemar's test of their accuracies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core.intervals import LEVEL, Interval, wilson
from skillviz.core.scores import correct, predictions
from skillviz.errors import BadInput


class McNemar(NamedTuple):
    """The two-sided exact p, and the examples that only one model gets right: n01 only b, n10 only a."""

    p: float
    n01: int
    n10: int


def agreement(logits_a: ArrayLike, logits_b: ArrayLike) -> float:
    """Return the share of examples for which both models predict the same class."""
    return float(_same(logits_a, logits_b).mean())


def agreement_interval(logits_a: ArrayLike, logits_b: ArrayLike, level: float = LEVEL) -> Interval:
    """Return the agreement with its Wilson interval."""
    same = _same(logits_a, logits_b)
    low, high = wilson(float(same.sum()), float(len(same)), level)
    return Interval(float(same.mean()), low, high)


def _same(logits_a: ArrayLike, logits_b: ArrayLike) -> NDArray[np.bool_]:
    if np.shape(logits_a) != np.shape(logits_b):
        raise BadInput(
            "two models can be compared on the same examples and classes only; "
            f"their logits have the shapes {np.shape(logits_a)} and {np.shape(logits_b)}."
        )
    return predictions(logits_a) == predictions(logits_b)


def mcnemar(logits_a: ArrayLike, logits_b: ArrayLike, labels: ArrayLike) -> McNemar:
    """Return McNemar's exact test of the hypothesis that both models are right equally often on the same examples."""
    right_a, right_b = correct(logits_a, labels), correct(logits_b, labels)
    n01, n10 = int((~right_a & right_b).sum()), int((right_a & ~right_b).sum())
    return McNemar(_binomial_two_sided(min(n01, n10), n01 + n10), n01, n10)


def _binomial_two_sided(k: int, n: int) -> float:
    """Twice the probability of at most k heads in n fair coin flips, capped at 1; integers until the last division."""
    term, total = 1, 0
    for i in range(k + 1):
        total += term
        term = term * (n - i) // (i + 1)
    return min(1.0, 2 * total / 2**n) if n else 1.0
