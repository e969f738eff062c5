"""Slow twins of overlap, also with a planted region: sets of (name, index), and chance from every possible region."""

import math
from itertools import chain, combinations, product


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
    fixed, others = set(range(size_a)), [set(other) for other in combinations(range(d), size_b)]
    return math.fsum(len(fixed & b) / len(fixed | b) if fixed | b else math.nan for b in others) / len(others)


def alike(b):
    """Every region, as a set, with b's number of entries in each tensor."""
    parts = (
        combinations([(name, i) for i in range(math.prod(shape))], len(b.indices.get(name, ())))
        for name, shape in b.shapes.items()
    )
    return [set(chain(*chosen)) for chosen in product(*parts)]


def matched_means(a, b):
    """Mean overlap and IoU of a with every region that has b's number of entries in each tensor."""
    first, others = entries(a), alike(b)
    shares = [len(first & other) / len(other) if other else math.nan for other in others]
    ious = [len(first & other) / len(first | other) if first | other else math.nan for other in others]
    return math.fsum(shares) / len(shares), math.fsum(ious) / len(ious)


def recovery(region, true, shapes, movement):
    """(precision, chance, recall, rank of the true tensor); regions are sets of (name, flat index)."""
    places = [(name, flat) for name, shape in shapes.items() for flat in range(math.prod(shape))]
    square = {place: float(moved) ** 2 for place, moved in zip(places, movement, strict=True)}
    moved = {place for place in places if square[place] > 0}
    of_true = {name: sum(square[place] for place in true if place[0] == name) for name in shapes}
    density = {name: sum(n == name for n, _ in region) / math.prod(shape) for name, shape in shapes.items()}
    right, ordered = density[max(of_true, key=lambda name: of_true[name])], sorted(density.values(), reverse=True)
    ranks = [number for number, value in enumerate(ordered, start=1) if value == right]
    return (
        len(moved & true & region) / len(moved & region) if moved & region else math.nan,
        len(moved & true) / len(moved),
        sum(square[place] for place in true & region) / sum(square[place] for place in true),
        sum(ranks) / len(ranks),
    )
