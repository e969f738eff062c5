"""Student's t distribution for whole degrees of freedom, without SciPy."""

from __future__ import annotations

import math

from skillviz.errors import BadInput


def t_central_mass(t: float, df: int) -> float:
    """Probability that |T| <= t, by the finite sums for whole df (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(df))
    sine, cosine2 = math.sin(angle), math.cos(angle) ** 2
    odd = df % 2
    term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
    for k in range(1, (df - odd) // 2 + 1):
        total += term
        term *= cosine2 * (2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k))
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def t_quantile(p: float, df: int) -> float:
    """The value that T with df degrees of freedom stays below with probability p, for 0.5 <= p < 1."""
    if df < 1 or not 0.5 <= p < 1:
        raise BadInput(f"a t quantile needs df >= 1 and 0.5 <= p < 1; got df {df} and p {p}.")
    low, high = 0.0, 1.0
    while t_central_mass(high, df) < 2 * p - 1:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_central_mass(middle, df) < 2 * p - 1 else (low, middle)
    return (low + high) / 2
