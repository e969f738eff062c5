"""Confusion matrices, and precision, recall and F1 of every class."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from skillviz.core.intervals import RESAMPLES, resampled_values, spread_interval, wilson
from skillviz.core.metrics import statistic
from skillviz.core.scores import Floats, Integers, checked_logits, f1_of

COLUMNS = ("state", "class", "n", "predicted", "right", "metric", "value", "low", "high")


def confusion(logits: ArrayLike, labels: ArrayLike) -> Integers:
    """Counts [true class, predicted class]; the diagonal is correct, and they add up to the number of examples."""
    z, y = checked_logits(logits, labels)
    classes = z.shape[1]
    return np.bincount(y * classes + z.argmax(axis=1), minlength=classes**2).reshape(classes, classes)


def class_results(
    states: Mapping[str, ArrayLike], labels: ArrayLike, resamples: int = RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """Return one row per state, class and metric (precision, recall, f1): value, and its 95% interval's low and high.

    `n` is the examples of the class, `predicted` the examples that the model assigns to it, `right` those in both.
    Precision and recall have Wilson's interval; F1, which is not a share, has the bootstrap's, all on the same
    resamples. NaN for a share of zero examples, for F1 of a class that has no example or every one, and for F1's ends
    if no resample differs, because the spread is then unknown.
    """
    y = np.asarray(labels)
    logits = {state: checked_logits(z, y)[0] for state, z in states.items()}
    keys = [(state, c) for state, z in logits.items() for c in range(z.shape[1])]
    draws = resampled_values([statistic("f1", logits[s], y, positive=c) for s, c in keys], len(y), resamples, seed)
    counts = {state: confusion(z, y) for state, z in logits.items()}
    rows: list[dict[str, object]] = []
    for (state, c), drawn in zip(keys, draws, strict=True):
        rows += _rows(state, c, counts[state], drawn)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(state: str, c: int, counts: Integers, drawn: Floats) -> list[dict[str, object]]:
    """Return the three rows of one state and class."""
    right, n, predicted = (int(x) for x in (counts[c, c], counts[c].sum(), counts[:, c].sum()))
    common = {"state": state, "class": c, "n": n, "predicted": predicted, "right": right}
    f1 = float(f1_of(np.array([right, predicted - right, n - right], dtype=np.float64)))
    f1 = f1 if 0 < n < counts.sum() else float("nan")
    shares = [
        {"metric": name, "value": right / of if of else float("nan"), **_ends(*wilson(right, of))}
        for name, of in (("precision", predicted), ("recall", n))
    ]
    ends = spread_interval(f1, drawn)
    return [{**common, **row} for row in (*shares, {"metric": "f1", "value": f1, **_ends(ends.low, ends.high)})]


def _ends(low: float, high: float) -> dict[str, float]:
    return {"low": low, "high": high}
