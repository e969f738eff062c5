"""Slow twins of the scores of predictions, one example at a time, from the formulas of PAPER.md, section 6."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

from tests.reference.agreement import largest


def softmax(row):
    """Probabilities of one example."""
    top = max(row)
    weights = [math.exp(float(value) - float(top)) for value in row]
    return [w / math.fsum(weights) for w in weights]


def sure_and_right(logits, labels):
    """(confidence, True if the prediction is the label) of each example."""
    return [(max(softmax(row)), largest(row) == label) for row, label in zip(logits, labels, strict=True)]


def ece(logits, labels, bins):
    """Eq. 6 with bins (m/M, (m+1)/M]."""
    return _error(sure_and_right(logits, labels), [m / bins for m in range(bins + 1)])


def ece_equal_mass(logits, labels, bins):
    """The ECE with edges at the confidences of rank ceil(k n / M), with ties kept together."""
    examples = sorted(sure_and_right(logits, labels))
    ranks = [math.ceil(k * len(examples) / bins) for k in range(1, bins + 1)]
    return _error(examples, [0.0, *(examples[rank - 1][0] for rank in ranks)])


def _error(examples, edges):
    """Sum over the bins (lower, upper] of |sum of confidences - number right| / n."""
    gaps = [[c - r for c, r in examples if lower < c <= upper] for lower, upper in pairwise(edges)]
    return math.fsum(abs(math.fsum(gap)) for gap in gaps) / len(examples)


def mean_confidence(logits, labels):
    """Mean probability of the predicted class."""
    return math.fsum(sure for sure, _ in sure_and_right(logits, labels)) / len(labels)


def accuracy(logits, labels):
    """Share of examples that are right."""
    return sum(right for _, right in sure_and_right(logits, labels)) / len(labels)


def nll(logits, labels):
    """Mean of -log p(label)."""
    losses = []
    for row, label in zip(logits, labels, strict=True):
        top = max(float(v) for v in row)
        losses.append(top + math.log(math.fsum(math.exp(float(v) - top) for v in row)) - float(row[label]))
    return math.fsum(losses) / len(labels)


def brier(logits, labels):
    """Mean over examples of the squared errors of all classes."""
    rows = zip(map(softmax, logits), labels, strict=True)
    return sum((p - (k == label)) ** 2 for row, label in rows for k, p in enumerate(row)) / len(labels)


def f1(logits, labels, positive=1):
    """Harmonic mean of precision and recall, NaN if there are no positive labels and no positive predictions."""
    pairs = [(largest(row) == positive, label == positive) for row, label in zip(logits, labels, strict=True)]
    said, true = (sum(column) for column in zip(*pairs, strict=True))
    return 2 * pairs.count((True, True)) / (said + true) if said + true else math.nan


def best_temperature(logits, labels, coldest, hottest):
    """The temperature with the lowest NLL, by golden-section search over its logarithm."""
    low, high, golden = math.log(coldest), math.log(hottest), (math.sqrt(5) - 1) / 2

    def loss(log_t):
        return nll([[v / math.exp(log_t) for v in row] for row in logits], labels)

    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return math.exp((low + high) / 2)


TWINS = {
    "accuracy": accuracy,
    "f1": f1,
    "ece": partial(ece, bins=15),
    "ece_equal_mass": partial(ece_equal_mass, bins=15),
    "nll": nll,
    "brier": brier,
    "confidence": mean_confidence,
}
"""The twin of each metric of classes, by its name in `core.metrics`."""
