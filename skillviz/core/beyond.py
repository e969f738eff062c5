"""Beyond the null: how much better a searched graft does than the same search on null movements (core/nulls.py)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.intervals import SeedsInterval
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.errors import BadData


def beyond_null(graft: ArrayLike, nulls: ArrayLike) -> SeedsInterval:
    """The mean score of the graft minus that of its nulls, with a 95% interval over draws and examples.

    `graft` [n] and `nulls` [draw, n] are scores of the same examples, higher is better: 1 for a right answer and 0 for
    a wrong one, or minus the loss in nats. One draw has the interval over examples alone, and its sd is NaN. Raises
    BadData for other shapes, fewer than two examples, or scores that are not finite.
    """
    own, drawn = np.asarray(graft, dtype=np.float64), np.asarray(nulls, dtype=np.float64)
    if own.ndim != 1 or drawn.ndim != 2 or drawn.shape[1:] != own.shape or not len(drawn) or len(own) < 2:
        raise BadData(
            f"a graft's scores [n] and its nulls' [draw, n] must be of the same two or more examples; got {own.shape} "
            f"and {drawn.shape}."
        )
    by_example = own - drawn.mean(axis=0)
    return seeds_and_examples(own.mean() - drawn.mean(axis=1), float(by_example.std(ddof=1)) / math.sqrt(len(own)))
