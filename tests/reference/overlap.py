"""Slow twins of overlap: sets of (name, index), and chance from every possible region."""

from __future__ import annotations

import math
from itertools import combinations, product


def entries(region):
    """The region as a set of (name, index)."""
    return {(name, int(i)) for name, indices in region.indices.items() for i in indices}


def overlap(a, b):
    """|a and b| / |b|."""
    a, b = entries(a), entries(b)
    return len(a & b) / len(b) if b else math.nan


def iou(a, b):
    """|a and b| / |a or b|."""
    a, b = entries(a), entries(b)
    return len(a & b) / len(a | b) if a | b else math.nan


def mean_iou(size_a, size_b, d):
    """Mean IoU of a fixed region with every region of the other size."""
    fixed = set(range(size_a))
    values = []
    for other in combinations(range(d), size_b):
        either = fixed | set(other)
        values.append(len(fixed & set(other)) / len(either) if either else math.nan)
    return math.fsum(values) / len(values)


def matched_means(a, b):
    """Mean overlap and IoU of a with every region that has b's number of entries in each tensor."""
    parts = []
    for name, shape in b.shapes.items():
        everywhere = [(name, i) for i in range(math.prod(shape))]
        parts.append(list(combinations(everywhere, len(b.indices.get(name, ())))))
    first, shares, ious = entries(a), [], []
    for chosen in product(*parts):
        other = {entry for part in chosen for entry in part}
        shares.append(len(first & other) / len(other) if other else math.nan)
        ious.append(len(first & other) / len(first | other) if first | other else math.nan)
    return math.fsum(shares) / len(shares), math.fsum(ious) / len(ious)


def matched_counts(a, b):
    """The numbers of entries that a shares with every region that has b's number of entries in each tensor."""
    parts = []
    for name, shape in b.shapes.items():
        everywhere = [(name, i) for i in range(math.prod(shape))]
        parts.append(list(combinations(everywhere, len(b.indices.get(name, ())))))
    first = entries(a)
    return [len(first & {entry for part in chosen for entry in part}) for chosen in product(*parts)]
