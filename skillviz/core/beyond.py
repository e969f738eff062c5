"""Beyond the null: how much better a searched graft does than the same search on null movements (core/nulls.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def beyond_of_models(grafts: Sequence[ArrayLike], nulls: Sequence[ArrayLike]) -> SeedsInterval:
    """The mean of `beyond_null` over fine-tuned models, with a 95% interval over models, their draws and examples.

    `grafts` [model][n] and `nulls` [model][draw, n] are scores of the same examples. What the draws of a model add is
    in the spread of the models, so their number may differ. One model has the interval of `beyond_null`.
    """
    if len(grafts) != len(nulls) or not len(grafts):
        raise BadData(f"every fine-tuned model needs its nulls; got {len(grafts)} grafts and nulls of {len(nulls)}.")
    models = [beyond_null(graft, drawn) for graft, drawn in zip(grafts, nulls, strict=True)]
    if len(models) == 1:
        return models[0]
    of_example = [
        np.asarray(graft, dtype=np.float64) - np.asarray(drawn, dtype=np.float64).mean(axis=0)
        for graft, drawn in zip(grafts, nulls, strict=True)
    ]
    if len({len(one) for one in of_example}) > 1:
        raise BadData("the models must be scored on the same examples.")
    by_example = np.mean(of_example, axis=0)
    examples_sd = float(by_example.std(ddof=1)) / math.sqrt(len(by_example))
    return seeds_and_examples([one.value for one in models], examples_sd)
