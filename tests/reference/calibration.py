"""Slow twins of the scores of predictions, one example at a time, from the formulas of PAPER.md, section 6."""

from __future__ import annotations

import math


def softmax(row):
    """Probabilities of one example."""
    top = max(row)
    weights = [math.exp(float(value) - float(top)) for value in row]
    return [w / math.fsum(weights) for w in weights]


def first_largest(row):
    """Index of the largest value, the first one if tied."""
    best = 0
    for i, value in enumerate(row):
        if value > row[best]:
            best = i
    return best


def sure_and_right(logits, labels):
    """(confidence, True if the prediction is the label) of each example."""
    return [(max(softmax(row)), first_largest(row) == label) for row, label in zip(logits, labels, strict=True)]


def ece(logits, labels, bins):
    """Eq. 6 with bins (m/M, (m+1)/M]."""
    examples = sure_and_right(logits, labels)
    total = 0.0
    for m in range(bins):
        inside = [(c, r) for c, r in examples if m / bins < c <= (m + 1) / bins]
        total += _gap(inside) * len(inside) / len(examples)
    return total


def ece_equal_mass(logits, labels, bins):
    """The ECE with edges at the confidences of rank ceil(k n / M), with ties kept together."""
    examples = sorted(sure_and_right(logits, labels))
    n = len(examples)
    edges = [0.0] + [examples[math.ceil(k * n / bins) - 1][0] for k in range(1, bins + 1)]
    total = 0.0
    for lower, upper in zip(edges, edges[1:], strict=False):
        inside = [(c, r) for c, r in examples if lower < c <= upper]
        total += _gap(inside) * len(inside) / n
    return total


def _gap(inside):
    if not inside:
        return 0.0
    mean_confidence = math.fsum(c for c, _ in inside) / len(inside)
    return abs(mean_confidence - sum(r for _, r in inside) / len(inside))


def mean_confidence(logits, labels):
    """Mean probability of the predicted class."""
    return math.fsum(sure for sure, _ in sure_and_right(logits, labels)) / len(labels)


def accuracy(logits, labels):
    """Share of examples that are right."""
    return sum(right for _, right in sure_and_right(logits, labels)) / len(labels)


def nll(logits, labels):
    """Mean of -log p(label)."""
    return math.fsum(_loss(row, label) for row, label in zip(logits, labels, strict=True)) / len(labels)


def _loss(row, label):
    top = max(float(v) for v in row)
    return top + math.log(math.fsum(math.exp(float(v) - top) for v in row)) - float(row[label])


def brier(logits, labels):
    """Mean over examples of the squared errors of all classes."""
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        for k, p in enumerate(softmax(row)):
            total += (p - (1.0 if k == label else 0.0)) ** 2
    return total / len(labels)


def f1(logits, labels, positive=1):
    """Harmonic mean of precision and recall, NaN if there are no positive labels and no positive predictions."""
    said = [first_largest(row) == positive for row in logits]
    true = [label == positive for label in labels]
    both = sum(s and t for s, t in zip(said, true, strict=True))
    if sum(said) + sum(true) == 0:
        return math.nan
    if both == 0:
        return 0.0
    precision, recall = both / sum(said), both / sum(true)
    return 2 * precision * recall / (precision + recall)


def best_temperature(logits, labels, coldest, hottest):
    """The temperature with the lowest NLL, by golden-section search over its logarithm."""
    low, high, golden = math.log(coldest), math.log(hottest), (math.sqrt(5) - 1) / 2

    def loss(log_t):
        return nll([[v / math.exp(log_t) for v in row] for row in logits], labels)

    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return math.exp((low + high) / 2)
