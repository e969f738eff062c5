"""Slow twin of the interval of a calibration error: one bin at a time, `math.erf`, and a long bisection."""

import math

Z, NORMAL = 2.1, 1.96


def wilson(hits, count):
    """Wilson's score interval of a share, 95%."""
    share, z2 = hits / count, NORMAL**2
    center = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = NORMAL * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return center - half, center + half


def bins_of(confidences, rights, edges):
    """The examples of every bin (lower, upper] that is not empty, as lists of (confidence, right)."""
    rows = [(sum(c > edge for edge in edges[1:-1]), c, r) for c, r in zip(confidences, rights, strict=True)]
    return [[(c, r) for number, c, r in rows if number == wanted] for wanted in sorted({row[0] for row in rows})]


class Bin:
    """One bin: its share of the sample, mean confidence, gap times share, and Wilson's variances of that gap."""

    def __init__(self, examples, n):
        self.count, self.n, self.share = len(examples), n, len(examples) / n
        sure, hits = math.fsum(c for c, _ in examples), sum(r for _, r in examples)
        self.sure, signed = sure / self.count, (sure - hits) / n
        self.spread = max(math.fsum(c * c for c, _ in examples) / self.count - self.sure**2, 0.0)
        self.gap, self.sign = abs(signed), 1.0 if signed >= 0 else -1.0
        low, high = wilson(hits, self.count)
        least, most = (self.sure - high) * self.share, (self.sure - low) * self.share
        towards = signed - least if signed >= 0 else most - signed
        away = max(abs(least), abs(most)) - self.gap
        extra = (self.gap**2 / self.share + self.spread * self.share) / n
        self.down, self.up = (towards / NORMAL) ** 2 + extra, (away / NORMAL) ** 2 + extra
        self.middle, self.up_sign = (self.down + self.up) / 2, 1.0 if abs(most) >= abs(least) else -1.0

    def moments(self, gap, sign):
        """Mean and variance of |gap + noise|."""
        accuracy = min(max(self.sure - sign * gap / self.share, 0.0), 1.0)
        noise = max(accuracy * (1 - accuracy), self.spread) * self.share / self.n
        expected, fold = self.count * (1 - self.sure), 0.0
        if expected < 3:
            wrong = min(1 - accuracy, 1 - 1e-12)
            chances = [math.comb(self.count, k) * wrong**k * (1 - wrong) ** (self.count - k) for k in range(3)]
            beyond_zero = sum(max(expected - k, 0.0) * chance / self.n for k, chance in enumerate(chances))
            fold = max(beyond_zero - (0.0 if sign > 0 else gap), 0.0)
        elif noise > 0:
            x = gap / math.sqrt(noise)
            beyond = math.erfc(x / math.sqrt(2)) / 2  # the probability that a standard normal exceeds x
            fold = math.sqrt(noise) * (math.exp(-x * x / 2) / math.sqrt(2 * math.pi) - x * beyond)
        mean = gap + 2 * fold
        return mean, max(gap**2 + noise - mean**2, 0.0)


def deviation(bins, gaps, signs, value):
    """The number of standard deviations by which the plug-in exceeds its mean under these gaps."""
    means, variances = zip(*(b.moments(gap, sign) for b, gap, sign in zip(bins, gaps, signs, strict=True)), strict=True)
    between = math.fsum(g * g / b.share for g, b in zip(gaps, bins, strict=True)) - math.fsum(gaps) ** 2
    variance = math.fsum(variances) + max(between, 0.0) / bins[0].n
    return (value - math.fsum(means)) / math.sqrt(max(variance, 1e-300))


def candidate(bins, variances, signs, target):
    """The error at which the plug-in lies `target` standard deviations above its mean; 0 where none is so small."""
    value, total = math.fsum(one.gap for one in bins), math.sqrt(math.fsum(variances))
    pairs = [(one.gap, v) for one, v in zip(bins, variances, strict=True)]

    def gaps(step):
        if step >= 0:
            return [gap + step * v / total for gap, v in pairs]
        return [max(gap - step * step * v / gap, 0.0) if gap else 0.0 for gap, v in pairs]

    if deviation(bins, [0.0] * len(bins), signs, value) <= target:
        return 0.0
    below, above = -max(gap / math.sqrt(v) for gap, v in pairs) - 1e-9, 6.0
    for _ in range(80):
        middle = (below + above) / 2
        is_below = deviation(bins, gaps(middle), signs, value) > target
        below, above = (middle, above) if is_below else (below, middle)
    return math.fsum(gaps(below))


def interval(confidences, rights, edges):
    """(debiased, low, high) of the error."""
    bins = [Bin(examples, len(confidences)) for examples in bins_of(confidences, rights, edges)]
    sign, down, up = ([getattr(one, name) for one in bins] for name in ("sign", "down", "up"))
    low, high = candidate(bins, down, sign, Z), candidate(bins, up, [one.up_sign for one in bins], -Z)
    debiased = candidate(bins, [one.middle for one in bins], sign, 0.0)
    overall = abs(math.fsum(one.sign * one.gap for one in bins))
    sd_down, sd_up = math.sqrt(math.fsum(down)), math.sqrt(math.fsum(up))
    debiased = max(debiased, overall) if overall > 2 * sd_down else debiased
    low, high = max(low, overall - 2.3 * sd_down), max(high, overall + 1.9 * sd_up)
    return debiased, min(low, debiased), min(max(high, debiased), 1.0)
