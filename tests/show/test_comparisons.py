"""Tests of many comparisons: the sentence counts the ones that hold, and the mark is explained beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.show.comparisons import MARK, counted_rows, holding, legend
from tests.tables import equal


def rows(*ends: tuple[float, float]) -> pd.DataFrame:
    frame = pd.DataFrame(ends, columns=["low", "high"])
    return frame.assign(value=(frame["low"] + frame["high"]) / 2, debiased=np.nan)


BARE, CLEAR, OPEN = (0.0001, 0.02), (0.05, 0.07), (-0.02, 0.03)


@pytest.mark.parametrize("several", [(BARE, *[OPEN] * 9), (BARE, CLEAR, OPEN), (CLEAR, CLEAR, BARE, *[OPEN] * 20)])
def test_as_many_hold_as_the_sentence_counts(several: tuple) -> None:
    frame = rows(*several)
    held = holding(frame)
    assert f" {held.sum()} hold" in counted_rows(frame) and not held[frame["low"] < 0].any()


MANY = rows(BARE, *[OPEN] * 9)
test_a_bare_verdict_among_many_does_not_hold_and_alone_it_does = equal({
    "among many": (lambda: holding(MANY).any(), False),
    "alone": (lambda: holding(rows(BARE)).tolist(), [True]),
    "beside one without an interval": (lambda: holding(rows(BARE, (np.nan, np.nan))).tolist(), [True, False]),
    "none": (lambda: holding(rows(OPEN)).tolist(), [False]),
    "no rows": (lambda: holding(rows()).empty, True),
    "rows keep their index": (lambda: holding(rows(BARE, CLEAR).set_axis([7, 3])).index.tolist(), [7, 3]),
    "the mark is explained": (lambda: MARK in legend(MANY.assign(holds=holding(MANY))), True),
    "only where it stands": (lambda: legend(rows(CLEAR, OPEN).assign(holds=[True, False])), ""),
})  # fmt: skip
