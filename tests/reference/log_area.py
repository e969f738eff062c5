"""The area under a curve by size from its definition: strip by strip, each under one straight line."""

from __future__ import annotations

import math


def mean_over_log_size(sizes: list[float], values: list[float], smallest: float, largest: float) -> float:
    """Sum of the strips' areas from `smallest` to `largest` on the logarithm of the size, over the range's width."""
    points = sorted(zip(sizes, values, strict=True))
    area = 0.0
    for (left, a), (right, b) in zip(points[:-1], points[1:], strict=True):
        begin, end = max(left, smallest), min(right, largest)
        if begin >= end:
            continue
        heights = []
        for size in (begin, end):
            way = (math.log(size) - math.log(left)) / (math.log(right) - math.log(left))
            heights.append(a + way * (b - a))
        area += (math.log(end) - math.log(begin)) * sum(heights) / 2
    return area / (math.log(largest) - math.log(smallest))
