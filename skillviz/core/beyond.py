"""The margin of a searched graft over the same search on null movements (core/nulls.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core.intervals import SeedsInterval
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.errors import BadData


def beyond_null(graft: ArrayLike, nulls: ArrayLike) -> SeedsInterval:
    """Return the mean score of the graft minus its nulls' mean, with a 95% interval over draws and examples.

    `graft` [n] and `nulls` [draw, n] are scores of the same examples, higher is better: 1 for a right answer and 0 for
    a wrong one, or minus the loss in nats. With one draw the interval is over examples alone, and its sd is NaN. Raises
    BadData for other shapes, fewer than two examples, or scores that are not finite.
    """
    by_draw = _by_draw(graft, nulls)
    return seeds_and_examples(by_draw.mean(axis=1), _examples_sd(by_draw.mean(axis=0)))


def _by_draw(graft: ArrayLike, nulls: ArrayLike) -> NDArray[np.float64]:
    """Return the graft's score minus each draw's on each example [draw, n]."""
    own, drawn = np.asarray(graft, dtype=np.float64), np.asarray(nulls, dtype=np.float64)
    if own.ndim != 1 or drawn.ndim != 2 or drawn.shape[1:] != own.shape or not len(drawn) or len(own) < 2:
        raise BadData(
            f"a graft's scores [n] and its nulls' [draw, n] must be of the same two or more examples; got {own.shape} "
            f"and {drawn.shape}."
        )
    return own - drawn


def _examples_sd(by_example: NDArray[np.float64]) -> float:
    return float(by_example.std(ddof=1)) / math.sqrt(len(by_example))


def beyond_of_models(grafts: Sequence[ArrayLike], nulls: Sequence[ArrayLike]) -> SeedsInterval:
    """Return the mean of `beyond_null` over fine-tuned models, with a 95% interval over models, draws and examples.

    `grafts` [model][n] and `nulls` [model][draw, n] are scores of the same examples. The spread of the models includes
    the variance from their draws, so their number of draws may differ. One model has the interval of `beyond_null`.
    """
    if len(grafts) != len(nulls) or not len(grafts):
        raise BadData(f"every fine-tuned model needs its nulls; got {len(grafts)} grafts and nulls of {len(nulls)}.")
    if len(grafts) == 1:
        return beyond_null(grafts[0], nulls[0])
    models = [_by_draw(graft, drawn).mean(axis=0) for graft, drawn in zip(grafts, nulls, strict=True)]
    if len({len(by_example) for by_example in models}) > 1:
        raise BadData("the models must be scored on the same examples.")
    return seeds_and_examples(np.mean(models, axis=1), _examples_sd(np.mean(models, axis=0)))
