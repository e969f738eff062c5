"""Confidence bins: half-open (lower, upper], as in the implementation the paper used (PAPER.md, section 6)."""

from __future__ import annotations

import numpy as np

from skillviz.core.scores import Floats, Integers
from skillviz.errors import BadInput

BINS = 15  # from the implementation the paper used; the paper itself gives none
MOST_BINS = 1000


def checked_bins(bins: int) -> int:
    """Return the number of bins; raises BadInput outside 1..1000."""
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or not 1 <= bins <= MOST_BINS:
        raise BadInput(f"the number of bins must be a whole number from 1 to {MOST_BINS}; got {bins!r}.")
    return int(bins)


def equal_width_edges(bins: int, lowest: float = 0.0) -> Floats:
    """Edges of bins of equal width from `lowest` to 1, [bins + 1]; each k/bins is the nearest float to it."""
    shares = np.arange(checked_bins(bins) + 1) / bins
    return shares if lowest == 0.0 else lowest + (1.0 - lowest) * shares


def equal_mass_edges(confidences: Floats, bins: int) -> Floats:
    """Return edges that put about n / bins examples in each bin, [bins + 1], from 0 to the largest confidence.

    An edge is the confidence of the example of rank ceil(k n / bins). Equal confidences are never split, so the bins do
    not depend on the order of the examples; with many ties some are empty and others larger.
    """
    ranks = -(-np.arange(1, checked_bins(bins) + 1, dtype=np.int64) * len(confidences) // bins)
    return np.concatenate([[0.0], np.sort(confidences)[ranks - 1]])


def bin_numbers(confidences: Floats, edges: Floats) -> Integers:
    """Return the number of each confidence's bin, [n], 0..bins-1; a confidence on an edge counts in the lower bin.

    The lowest edge itself, and anything below it, counts in bin 0.
    """
    inside = np.searchsorted(edges, confidences, side="left") - 1
    return np.clip(inside, 0, len(edges) - 2).astype(np.int64)
