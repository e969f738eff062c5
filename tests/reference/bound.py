"""The slow twin of the variance term: numbers of values, regions and errors are counted in whole numbers of Python."""

import math
from fractions import Fraction


def variance(size, d, examples, bits, is_fixed, delta):
    """2 sqrt(log(q^s Theta 2 / delta) / n), with q^s Theta multiplied out one entry at a time."""
    models = 1
    for _ in range(size):
        models *= 2**bits
        models *= 1 if is_fixed or size == d else d
    return 2 * math.sqrt((math.log(models) + math.log(float(2 / Fraction(delta)))) / examples)


def examples_needed(size, d, bits, is_fixed, delta):
    """The first number of examples with which the term is below 1, one after the other."""
    n = 1
    while variance(size, d, n, bits, is_fixed, delta) >= 1:
        n += 1
    return n


def largest_size(d, examples, bits, is_fixed, delta):
    """The last size below d before the term reaches 1."""
    size = 0
    while size + 1 < d and variance(size + 1, d, examples, bits, is_fixed, delta) < 1:
        size += 1
    return size
