"""Slow twins of the confusion matrix and of a class's precision, recall and F1: example by example."""

from __future__ import annotations

from tests.reference.agreement import largest


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
