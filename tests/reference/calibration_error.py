"""Slow twin of the interval of a calibration error: one bin at a time, `math.erf`, and a long bisection."""

from __future__ import annotations

import math

Z, NORMAL = 2.1, 1.96


def phi(x):
    """Density of the standard normal."""
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def beyond(x):
    """Probability that a standard normal exceeds x."""
    return 0.5 * math.erfc(x / math.sqrt(2))


def wilson(hits, count):
    """Wilson's score interval of a share, 95%."""
    share, z2 = hits / count, NORMAL**2
    center = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = NORMAL * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return center - half, center + half


def bins_of(confidences, rights, edges):
    """The examples of every bin (lower, upper] that is not empty, as lists of (confidence, right)."""
    found = [[] for _ in edges[1:]]
    for confidence, right in zip(confidences, rights, strict=True):
        number = 0
        while number < len(found) - 1 and confidence > edges[number + 1]:
            number += 1
        found[number].append((confidence, right))
    return [examples for examples in found if examples]


class Bin:
    """One bin: its share of the sample, mean confidence, gap times share, and Wilson's variances of that gap."""

    def __init__(self, examples, n):
        self.count, self.n = len(examples), n
        self.share = self.count / n
        self.sure = math.fsum(c for c, _ in examples) / self.count
        hits = sum(r for _, r in examples)
        signed = (math.fsum(c for c, _ in examples) - hits) / n
        self.spread = max(math.fsum(c * c for c, _ in examples) / self.count - self.sure**2, 0.0)
        self.gap, self.sign = abs(signed), 1.0 if signed >= 0 else -1.0
        low, high = wilson(hits, self.count)
        least, most = (self.sure - high) * self.share, (self.sure - low) * self.share
        towards = signed - least if signed >= 0 else most - signed
        away = max(abs(least), abs(most)) - self.gap
        extra = (self.gap**2 / self.share + self.spread * self.share) / n
        self.down, self.up = (towards / NORMAL) ** 2 + extra, (away / NORMAL) ** 2 + extra
        self.up_sign = 1.0 if abs(most) >= abs(least) else -1.0

    def moments(self, gap, sign):
        """Mean and variance of |gap + noise|."""
        accuracy = min(max(self.sure - sign * gap / self.share, 0.0), 1.0)
        noise = max(accuracy * (1 - accuracy), self.spread) * self.share / self.n
        expected = self.count * (1 - self.sure)
        if expected < 3:
            wrong, beyond_zero = min(1 - accuracy, 1 - 1e-12), 0.0
            for errors in range(3):
                chance = math.comb(self.count, errors) * wrong**errors * (1 - wrong) ** (self.count - errors)
                beyond_zero += max(expected - errors, 0.0) * chance / self.n
            fold = max(beyond_zero - (0.0 if sign > 0 else gap), 0.0)
        elif noise > 0:
            x = gap / math.sqrt(noise)
            fold = math.sqrt(noise) * (phi(x) - x * beyond(x))
        else:
            fold = 0.0
        mean = gap + 2 * fold
        return mean, max(gap**2 + noise - mean**2, 0.0)


def deviation(bins, gaps, signs, value):
    """The number of standard deviations by which the plug-in exceeds its mean under these gaps."""
    parts = [one.moments(gap, sign) for one, gap, sign in zip(bins, gaps, signs, strict=True)]
    between = math.fsum(g * g / b.share for g, b in zip(gaps, bins, strict=True)) - math.fsum(gaps) ** 2
    variance = math.fsum(v for _, v in parts) + max(between, 0.0) / bins[0].n
    return (value - math.fsum(m for m, _ in parts)) / math.sqrt(max(variance, 1e-300))


def candidate(bins, variances, signs, target):
    """The error at which the plug-in lies `target` standard deviations above its mean; 0 where none is so small."""
    value = math.fsum(one.gap for one in bins)
    total = math.sqrt(math.fsum(variances))

    def gaps(step):
        if step >= 0:
            return [one.gap + step * v / total for one, v in zip(bins, variances, strict=True)]
        pairs = zip(bins, variances, strict=True)
        return [max(one.gap - step * step * v / one.gap, 0.0) if one.gap else 0.0 for one, v in pairs]

    if deviation(bins, [0.0] * len(bins), signs, value) <= target:
        return 0.0
    below, above = -max(one.gap / math.sqrt(v) for one, v in zip(bins, variances, strict=True)) - 1e-9, 6.0
    for _ in range(80):
        middle = (below + above) / 2
        if deviation(bins, gaps(middle), signs, value) > target:
            below = middle
        else:
            above = middle
    return math.fsum(gaps(below))


def interval(confidences, rights, edges):
    """(debiased, low, high) of the error."""
    bins = bins_of(confidences, rights, edges)
    bins = [Bin(examples, len(confidences)) for examples in bins]
    sign, up_sign = [one.sign for one in bins], [one.up_sign for one in bins]
    down, up = [one.down for one in bins], [one.up for one in bins]
    low = candidate(bins, down, sign, Z)
    debiased = candidate(bins, [(a + b) / 2 for a, b in zip(down, up, strict=True)], sign, 0.0)
    high = candidate(bins, up, up_sign, -Z)
    overall = abs(math.fsum(one.sign * one.gap for one in bins))
    sd_down, sd_up = math.sqrt(math.fsum(down)), math.sqrt(math.fsum(up))
    if overall > 2 * sd_down:
        debiased = max(debiased, overall)
    low, high = max(low, overall - 2.3 * sd_down), max(high, overall + 1.9 * sd_up)
    return debiased, min(low, debiased), min(max(high, debiased), 1.0)
