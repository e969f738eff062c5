"""Slow twins of intervals: Wilson's by search, bootstrap percentiles by scoring every resample."""

from __future__ import annotations

import math

Z = 1.959963984540054  # 97.5% of the normal distribution


def wilson(successes, n):
    """The shares whose z score against the observed one is exactly Z, by bisection on each side."""
    observed = successes / n

    def far(share):
        return abs(observed - share) > Z * math.sqrt(share * (1 - share) / n)

    def edge(inside, outside):
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if far(middle) else (middle, outside)
        return inside

    return edge(observed, 0.0), edge(observed, 1.0)


def tango(only_a, only_b, n):
    """The differences whose score is exactly Z, by bisection; only_b's most likely share is found by search."""
    observed = (only_a - only_b) / n

    def far(difference):
        if abs(difference) >= 1:
            return True
        low, high = max(0.0, -difference), (1 - difference) / 2
        for _ in range(200):  # the likelihood of only_b's share has one maximum; its slope falls
            share = (low + high) / 2
            rest = 1 - difference - 2 * share
            slope = -2 * (n - only_a - only_b) / max(rest, 1e-300)
            slope += (only_a / (share + difference) if only_a else 0) + (only_b / share if only_b else 0)
            low, high = (share, high) if slope > 0 else (low, share)
        variance = (2 * share + difference - difference**2) / n
        return abs(observed - difference) > Z * math.sqrt(max(variance, 0.0))

    def edge(inside, outside):
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if far(middle) else (middle, outside)
        return inside

    return edge(observed, -1.0), edge(observed, 1.0)


def resampled(metric, weights, *columns):
    """The metric of each resample: example i is repeated weights[i] times in every column."""
    values = []
    for row in weights:
        picks = [i for i, times in enumerate(row) for _ in range(int(times))]
        values.append(metric(*[[column[i] for i in picks] for column in columns]))
    return values


def percentile(values, share):
    """The value at a share of the sorted values, linear between neighbors."""
    ordered = sorted(v for v in values if math.isfinite(v))
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def interval(value, values, level=0.95):
    """(value, low, high): percentiles, stretched to hold the value."""
    tail = (1 - level) / 2
    return value, min(value, percentile(values, tail)), max(value, percentile(values, 1 - tail))


def t_central_mass(t, df, steps=20_000):
    """Probability that |T| <= t, by Simpson's rule on the density."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    h = t / steps
    total = 0.0
    for i in range(steps + 1):
        factor = 1 if i in (0, steps) else 4 if i % 2 else 2
        total += factor * scale * (1 + (i * h) ** 2 / df) ** (-(df + 1) / 2)
    return 2 * total * h / 3
