"""Temperature scaling: one number that calibrates a model's confidence, fitted on validation data (Guo 2017)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.scores import Floats, Integers, checked_logits, probabilities
from skillviz.errors import BadInput

COLDEST, HOTTEST = 0.02, 50.0
HALVINGS = 60  # halvings of log 2500: a temperature to its last float64 digit


class Temperature(NamedTuple):
    """A fitted temperature: its value, and whether it hit a bound."""

    value: float
    at_bound: bool


def scaled(logits: ArrayLike, temperature: float) -> Floats:
    """Return logits divided by the temperature, [n, classes]; above 1 the model becomes less confident."""
    z, _ = checked_logits(logits)
    if not (np.isfinite(temperature) and temperature > 0):
        raise BadInput(f"a temperature must be a positive number; got {temperature}.")
    return z / temperature


def temperature_fit(logits: ArrayLike, labels: ArrayLike) -> Temperature:
    """Fit the temperature in 0.02..50 of lowest NLL on these (validation) predictions; `at_bound` if it is a bound.

    The NLL is convex in b = 1/temperature, so its slope changes sign at most once and bisection cannot miss the
    minimum. A validation set without an error has no minimum: the best temperature is then the lowest allowed, and
    `at_bound` is true. Logits that are all equal in each row leave nothing to fit: 1.
    """
    z, y = checked_logits(logits, labels)
    z = z - z.max(axis=1, keepdims=True)
    if not z.any():
        return Temperature(1.0, False)
    low, high = 1.0 / HOTTEST, 1.0 / COLDEST
    if _slope(z, y, low) >= 0 or _slope(z, y, high) <= 0:
        return Temperature(HOTTEST if _slope(z, y, low) >= 0 else COLDEST, True)
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _slope(z, y, middle) < 0 else (low, middle)
    return Temperature(1.0 / math.sqrt(low * high), False)


def _slope(z: Floats, y: Integers, b: float) -> float:
    """The derivative by b of the mean NLL of b * z: expected logit minus the label's."""
    expected = (probabilities(b * z) * z).sum(axis=1)
    return float((expected - z[np.arange(len(y)), y]).mean())
