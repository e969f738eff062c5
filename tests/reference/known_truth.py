"""Slow twin of recovery: every entry of every tensor, one after the other."""

from __future__ import annotations

import math


def recovery(region, true, shapes, movement):
    """(precision, chance, recall, rank of the true tensor); regions are sets of (name, flat index)."""
    places = [(name, flat) for name, shape in shapes.items() for flat in range(math.prod(shape))]
    square = {place: float(moved) ** 2 for place, moved in zip(places, movement, strict=True)}
    moved = {place for place in places if square[place] > 0}
    of_true = {name: sum(square[place] for place in true if place[0] == name) for name in shapes}
    density = {name: sum(n == name for n, _ in region) / math.prod(shape) for name, shape in shapes.items()}
    right, ordered = density[max(of_true, key=lambda name: of_true[name])], sorted(density.values(), reverse=True)
    ranks = [number for number, value in enumerate(ordered, start=1) if value == right]
    precision = len(moved & true & region) / len(moved & region) if moved & region else math.nan
    recall = sum(square[place] for place in true & region) / sum(square[place] for place in true)
    return precision, len(moved & true) / len(moved), recall, sum(ranks) / len(ranks)
