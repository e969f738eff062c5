"""Slow twin of recovery: every entry of every tensor, one after the other."""

from __future__ import annotations

import math


def recovery(region, true, shapes, movement):
    """(precision, chance, recall, rank of the true tensor); regions are sets of (name, flat index)."""
    moved_true = moved_region = moved_both = moved = 0
    weight = held = 0.0
    density, of_true, place = {}, {}, 0
    for name, shape in shapes.items():
        size, chosen = math.prod(shape), 0
        of_true[name] = 0.0
        for flat in range(size):
            square = float(movement[place]) ** 2
            place += 1
            is_true, is_chosen = (name, flat) in true, (name, flat) in region
            chosen += is_chosen
            if is_true:
                weight += square
                of_true[name] += square
                held += square if is_chosen else 0.0
            if square > 0:
                moved += 1
                moved_true += is_true
                moved_region += is_chosen
                moved_both += is_true and is_chosen
        density[name] = chosen / size
    right = max(of_true, key=lambda name: of_true[name])
    ranks = [
        number
        for number, value in enumerate(sorted(density.values(), reverse=True), start=1)
        if value == density[right]
    ]
    precision = moved_both / moved_region if moved_region else float("nan")
    return precision, moved_true / moved, held / weight, sum(ranks) / len(ranks)
