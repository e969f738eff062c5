"""The area under a curve by region size, over the logarithm of the size, like the axis of the figures of sizes."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import ArrayLike

from skillviz.errors import BadInput


def mean_over_log_size(
    sizes: ArrayLike, values: ArrayLike, smallest: float | None = None, largest: float | None = None
) -> float:
    """Return the area under a curve from `smallest` to `largest` over the range's width: the curve's mean height.

    The curve is linear in the logarithm of the size between the scored sizes (counts or shares, above 0); by default
    the range is all of them. Raises BadInput for fewer than two sizes, and for a range beyond them.
    """
    given = np.asarray(sizes, dtype=float)
    order = np.argsort(given)
    at, heights = np.log(given[order]), np.asarray(values, dtype=float)[order]
    if len(np.unique(at)) < 2:
        raise BadInput(
            f"an area under a curve needs at least 2 sizes, and this curve has {len(np.unique(at))}; start a run with "
            "several sizes."
        )
    first, last = at[0] if smallest is None else log(smallest), at[-1] if largest is None else log(largest)
    if not at[0] <= first < last <= at[-1]:
        raise BadInput(
            f"the area from {smallest} to {largest} is not within the sizes scored, {given.min()} to {given.max()}; "
            "choose a range within them."
        )
    knots = np.concatenate([[first], at[(at > first) & (at < last)], [last]])
    return float(np.trapezoid(np.interp(knots, at, heights), knots) / (last - first))
