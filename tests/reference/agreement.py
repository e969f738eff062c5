"""Slow twins of agreement, McNemar's test, confusion and results by class: by example, over all falls of the coins."""

from __future__ import annotations

from itertools import product


def largest(row):
    """Index of the largest value, the first one if tied."""
    return max(range(len(row)), key=lambda i: (row[i], -i))


def agreement(a, b):
    """Share of examples with the same largest logit."""
    return sum(largest(row_a) == largest(row_b) for row_a, row_b in zip(a, b, strict=True)) / len(a)


def discordant(a, b, labels):
    """(only b right, only a right)."""
    rights = [(largest(row_a) == y, largest(row_b) == y) for row_a, row_b, y in zip(a, b, labels, strict=True)]
    return rights.count((False, True)), rights.count((True, False))


def exact_p(n01, n10):
    """Share of all 2^n outcomes of n coins that are at least as uneven as the observed one."""
    n, seen = n01 + n10, abs(n01 - n10)
    return sum(abs(2 * sum(fall) - n) >= seen for fall in product((0, 1), repeat=n)) / 2**n


def confusion(logits, labels, classes):
    """Counts [true class][predicted class]."""
    counts = [[0] * classes for _ in range(classes)]
    for row, label in zip(logits, labels, strict=True):
        counts[label][largest(row)] += 1
    return counts


def results(logits, labels, c):
    """(precision, recall, F1) of class c; None if undefined, and for F1 if all or no examples are of class c."""
    predicted = [i for i, row in enumerate(logits) if largest(row) == c]
    true = [i for i, label in enumerate(labels) if label == c]
    right = [i for i in predicted if i in true]
    precision = len(right) / len(predicted) if predicted else None
    recall = len(right) / len(true) if true else None
    f1 = 2 * len(right) / (len(predicted) + len(true)) if 0 < len(true) < len(labels) else None
    return precision, recall, f1
