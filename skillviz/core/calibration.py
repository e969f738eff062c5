"""The match of confidence and accuracy, bin by bin: the reliability table and the histogram of confidence.

The confidence of an example is the probability of its predicted class. The paper gives no number of bins and uses an
implementation with 15 bins of equal width, half-open (lower, upper]; so do we (PAPER.md, section 6).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skillviz.core.bins import BINS, bin_numbers, equal_mass_edges, equal_width_edges
from skillviz.core.intervals import wilson
from skillviz.core.scores import Floats, checked_logits, confidence, correct, probabilities


def reliability(logits: ArrayLike, labels: ArrayLike, bins: int = BINS, equal_mass: bool = False) -> pd.DataFrame:
    """Return one row per bin: bin, lower, upper, count, confidence (mean), accuracy, and its 95% Wilson low, high.

    An empty bin has count 0 and NaN for the last four. `equal_mass` puts about as many examples in each bin.
    """
    z, y = checked_logits(logits, labels)
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


def confidence_histogram(logits: ArrayLike, labels: ArrayLike, bins: int = 20) -> pd.DataFrame:
    """One row per bin from 1/classes to 1: bin, lower, upper, count, share (of all examples), correct (count)."""
    z, y = checked_logits(logits, labels)
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
