"""Slow twins of intervals: Wilson's by search, bootstrap percentiles by scoring every resample."""

import math

Z = 1.959963984540054  # 97.5% of the normal distribution


def edge(far, inside, outside, steps=200):
    """The last value from inside to outside that is not far, by bisection."""
    for _ in range(steps):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if far(middle) else (middle, outside)
    return inside


def wilson(successes, n):
    """The shares whose z score against the observed one is exactly Z, by bisection on each side."""
    observed = successes / n

    def far(share):
        return abs(observed - share) > Z * math.sqrt(share * (1 - share) / n)

    return edge(far, observed, 0.0), edge(far, observed, 1.0)


def tango(only_a, only_b, n):
    """The differences whose score is exactly Z, by bisection; only_b's most likely share is found by search."""
    observed = (only_a - only_b) / n

    def far(difference):
        if abs(difference) >= 1:
            return True

        def falls(share):  # the likelihood of only_b's share has one maximum; its slope falls
            slope = -2 * (n - only_a - only_b) / max(1 - difference - 2 * share, 1e-300)
            slope += (only_a / (share + difference) if only_a else 0) + (only_b / share if only_b else 0)
            return slope <= 0

        share = edge(falls, max(0.0, -difference), (1 - difference) / 2)
        variance = (2 * share + difference - difference**2) / n
        return abs(observed - difference) > Z * math.sqrt(max(variance, 0.0))

    return edge(far, observed, -1.0, 60), edge(far, observed, 1.0, 60)


def resampled(metric, weights, *columns):
    """The metric of each resample: example i is repeated weights[i] times in every column."""
    return [
        metric(
            *[
                [value for value, times in zip(column, row, strict=True) for _ in range(int(times))]
                for column in columns
            ]
        )
        for row in weights
    ]


def percentile(values, share):
    """The value at a share of the sorted values, linear between neighbors."""
    ordered = sorted(v for v in values if math.isfinite(v))
    part, below = math.modf(share * (len(ordered) - 1))
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + part * (high - low)


def interval(value, values, level=0.95):
    """(value, low, high): percentiles, stretched to hold the value."""
    tail = (1 - level) / 2
    return value, min(value, percentile(values, tail)), max(value, percentile(values, 1 - tail))
