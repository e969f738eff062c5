"""Slow twins of the scores of predictions, one example at a time, from the formulas of PAPER.md, section 6; and of
agreement, McNemar's test over all falls of the coins, confusion and results by class; AUROC and the variance of
DeLong, DeLong and Clarke-Pearson (1988) by pairs, and risk by coverage over all orders."""

import math
from functools import partial
from itertools import pairwise, permutations, product
from statistics import covariance as covariance_of
from statistics import fmean


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
    return sum(
        (p - (k == label)) ** 2 for row, label in zip(logits, labels, strict=True) for k, p in enumerate(softmax(row))
    ) / len(labels)


def f1(logits, labels, positive=1):
    """Harmonic mean of precision and recall, NaN if there are no positive labels and no positive predictions."""
    pairs = [(largest(row) == positive, label == positive) for row, label in zip(logits, labels, strict=True)]
    said, true = (sum(column) for column in zip(*pairs, strict=True))
    return 2 * pairs.count((True, True)) / (said + true) if said + true else math.nan


STEPS = 1000


def kernel(t, sure, width):
    """The Gaussian density at t, around a confidence and its reflections at 0 and 1."""
    images = [2 * k + side * sure for k in range(-4, 5) for side in (1, -1)]
    return sum(math.exp(-(((t - image) / width) ** 2) / 2) for image in images) / (width * math.sqrt(2 * math.pi))


def error_at(sure, right, width):
    """The integral over t of |mean over examples of (confidence - right) times the kernel|."""
    places, every = ((step + 0.5) / STEPS for step in range(STEPS)), list(zip(sure, right, strict=True))
    return fmean(abs(fmean((s - r) * kernel(t, s, width) for s, r in every)) for t in places)


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
    pairs = [(label, largest(row)) for row, label in zip(logits, labels, strict=True)]
    return [[pairs.count((true, said)) for said in range(classes)] for true in range(classes)]


def results(logits, labels, c):
    """(precision, recall, F1) of class c; None if undefined, and for F1 if all or no examples are of class c."""
    predicted = [i for i, row in enumerate(logits) if largest(row) == c]
    true = [i for i, label in enumerate(labels) if label == c]
    right = [i for i in predicted if i in true]
    return (
        len(right) / len(predicted) if predicted else None,
        len(right) / len(true) if true else None,
        2 * len(right) / (len(predicted) + len(true)) if 0 < len(true) < len(labels) else None,
    )


def wins(x, y):
    """1 if x is larger, 1/2 if both are equal, else 0."""
    return (x > y) + 0.5 * (x == y)


def auroc(inside, outside):
    """The AUROC: the mean of `wins` over all pairs."""
    return fmean(wins(x, y) for x in inside for y in outside)


def covariance(first, second):
    """The covariance of the AUROCs of two models on the same examples, each given as (inside, outside)."""
    parts = [
        ([fmean(wins(x, y) for y in outside) for x in inside], [fmean(wins(x, y) for x in inside) for y in outside])
        for inside, outside in (first, second)
    ]
    return sum(covariance_of(one, other) / len(one) for one, other in zip(*parts, strict=True))


def risks(sure, wrong):
    """The mean share of wrong answers among the k surest examples, k = 1 to n."""
    n = len(sure)
    orders = [order for order in permutations(range(n)) if all(sure[a] >= sure[b] for a, b in pairwise(order))]
    return [fmean(fmean(wrong[i] for i in order[:k]) for order in orders) for k in range(1, n + 1)]
