"""The area under a curve by size from its definition: strip by strip, each under one straight line."""

import math
from itertools import pairwise


def mean_over_log_size(sizes: list[float], values: list[float], smallest: float, largest: float) -> float:
    """Sum of the strips' areas from `smallest` to `largest` on the logarithm of the size, over the range's width."""
    area = 0.0
    for (left, a), (right, b) in pairwise(sorted(zip(sizes, values, strict=True))):
        begin, end = max(left, smallest), min(right, largest)
        heights = [a + math.log(size / left) / math.log(right / left) * (b - a) for size in (begin, end)]
        area += max(math.log(end / begin), 0) * sum(heights) / 2
    return area / math.log(largest / smallest)
