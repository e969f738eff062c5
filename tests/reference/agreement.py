"""Slow twins of agreement and McNemar's test: example by example, and over all outcomes of the coins."""

from __future__ import annotations

from itertools import product


def largest(row):
    """Index of the largest value, the first one if tied."""
    return max(range(len(row)), key=lambda i: (row[i], -i))


def agreement(a, b):
    """Share of examples with the same largest logit."""
    return sum(largest(row_a) == largest(row_b) for row_a, row_b in zip(a, b, strict=True)) / len(a)


def discordant(a, b, labels):
    """(only b right, only a right)."""
    rights = [(largest(row_a) == y, largest(row_b) == y) for row_a, row_b, y in zip(a, b, labels, strict=True)]
    return rights.count((False, True)), rights.count((True, False))


def exact_p(n01, n10):
    """Share of all 2^n outcomes of n coins that are at least as uneven as the observed one."""
    n, seen = n01 + n10, abs(n01 - n10)
    as_uneven = sum(abs(2 * sum(fall) - n) >= seen for fall in product((0, 1), repeat=n))
    return as_uneven / 2**n
