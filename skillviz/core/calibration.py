"""How well confidence matches accuracy: reliability, calibration error, and one table of all scores.

The confidence of an example is the probability of its predicted class. The paper gives no number of bins and
uses an implementation with 15 of equal width, half-open (lower, upper]; so do we (PAPER.md, section 6).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skillviz.core.bins import BINS, bin_numbers, checked_bins, equal_mass_edges, equal_width_edges
from skillviz.core.intervals import METRICS, wilson
from skillviz.core.scores import (
    Floats,
    accuracy,
    brier,
    checked,
    confidence,
    correct,
    f1,
    log_probabilities,
    nll,
    predictions,
    probabilities,
)
from skillviz.core.temperature import fit_temperature, scaled, temperature_fit
from skillviz.errors import BadInput

__all__ = [
    "BINS",
    "METRICS",
    "accuracy",
    "brier",
    "confidence",
    "confidence_histogram",
    "correct",
    "ece",
    "f1",
    "fit_temperature",
    "log_probabilities",
    "nll",
    "predictions",
    "probabilities",
    "reliability",
    "scaled",
    "score",
    "temperature_fit",
]


def reliability(logits: ArrayLike, labels: ArrayLike, bins: int = BINS, equal_mass: bool = False) -> pd.DataFrame:
    """One row a bin: bin, lower, upper, count, confidence (mean), accuracy, and its 95 % Wilson low, high.

    An empty bin has count 0 and NaN for the last four. `equal_mass` puts about as many examples in each bin.
    """
    z, y = checked(logits, labels)
    sure, right = confidence(probabilities(z)), correct(z, y)
    edges = equal_mass_edges(sure, bins) if equal_mass else equal_width_edges(bins)
    number = bin_numbers(sure, edges)
    count = np.bincount(number, minlength=bins)
    hits = np.bincount(number, weights=right, minlength=bins)
    low, high = wilson(hits, count)
    return pd.DataFrame(
        {
            "bin": np.arange(bins),
            "lower": edges[:-1],
            "upper": edges[1:],
            "count": count,
            "confidence": _per_count(np.bincount(number, weights=sure, minlength=bins), count),
            "accuracy": _per_count(hits, count),
            "low": low,
            "high": high,
        }
    )


def _per_count(totals: np.ndarray, count: np.ndarray) -> Floats:
    return np.divide(totals, count, out=np.full(len(count), np.nan), where=count > 0)


def ece(logits: ArrayLike, labels: ArrayLike, bins: int = BINS, equal_mass: bool = False) -> float:
    """Expected calibration error (Eq. 6): mean over examples of |confidence - accuracy| of their bin; 0 to 1."""
    z, y = checked(logits, labels)
    sure = confidence(probabilities(z))
    edges = equal_mass_edges(sure, bins) if equal_mass else equal_width_edges(bins)
    gaps = np.bincount(bin_numbers(sure, edges), weights=sure - correct(z, y), minlength=checked_bins(bins))
    return float(np.abs(gaps).sum() / len(y))


def confidence_histogram(logits: ArrayLike, labels: ArrayLike, bins: int = 20) -> pd.DataFrame:
    """One row a bin from 1/classes to 1: bin, lower, upper, count, share (of all examples), correct (count)."""
    z, y = checked(logits, labels)
    sure = confidence(probabilities(z))
    edges = equal_width_edges(bins, lowest=1.0 / z.shape[1] if z.shape[1] > 1 else 0.0)
    number = bin_numbers(sure, edges)
    count = np.bincount(number, minlength=bins)
    return pd.DataFrame(
        {
            "bin": np.arange(bins),
            "lower": edges[:-1],
            "upper": edges[1:],
            "count": count,
            "share": count / len(y),
            "correct": np.bincount(number[correct(z, y)], minlength=bins),
        }
    )


def score(logits: ArrayLike, labels: ArrayLike, metric: str = "accuracy", positive: int = 1) -> dict[str, float]:
    """Scores by name: accuracy, f1 (two classes only), ece, ece_equal_mass, brier, nll, mean confidence.

    `metric` is the task's own; it must be one of METRICS, and f1 needs two classes.
    """
    z, y = checked(logits, labels)
    if metric not in METRICS:
        raise BadInput(f"'{metric}' is not a metric; known: {', '.join(METRICS)}.")
    if metric == "f1" and z.shape[1] != 2:
        raise BadInput(f"f1 needs two classes; these predictions have {z.shape[1]}. Choose accuracy.")
    return {
        "accuracy": accuracy(z, y),
        **({"f1": f1(z, y, positive)} if z.shape[1] == 2 else {}),
        "ece": ece(z, y),
        "ece_equal_mass": ece(z, y, equal_mass=True),
        "brier": brier(z, y),
        "nll": nll(z, y),
        "confidence": float(confidence(probabilities(z)).mean()),
    }
