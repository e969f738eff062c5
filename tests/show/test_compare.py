"""Tests of comparisons: differences are points with their interval, many are counted, and regions are paired once."""

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.compare import run_styles
from skillviz.show import overlap
from skillviz.show.compare import differences
from skillviz.show.comparisons import MARK, counted_rows, holding, legend
from tests.tables import equal, plain, says


def rows(*ends: tuple[float, float]) -> pd.DataFrame:
    frame = pd.DataFrame(ends, columns=["low", "high"])
    return frame.assign(value=(frame["low"] + frame["high"]) / 2, debiased=np.nan)


BARE, CLEAR, OPEN = (0.0001, 0.02), (0.05, 0.07), (-0.02, 0.03)


@pytest.mark.parametrize(
    "several", [(BARE, *[OPEN] * 9), (BARE, CLEAR, *[OPEN] * 4), (CLEAR, CLEAR, BARE, *[OPEN] * 20)]
)
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


ROWS = pd.DataFrame(
    [("a", "a", 1.0), ("a", "b", 0.25), ("b", "a", 0.5), ("b", "b", 1.0)], columns=["row", "column", "value"]
)


DIFFERENCES = pd.DataFrame(
    [("B", "accuracy", -0.021, -0.04, -0.001), ("C", "accuracy", 0.01, np.nan, np.nan)],
    columns=["run", "metric", "value", "low", "high"],
)
COLUMNS = {"row": "row_task", "column": "column_task"}
test_what_is_read_out = says({
    "a difference in points with its interval": (
        lambda: differences(
            DIFFERENCES, run_styles([("B", "movement"), ("C", "random")]), "A", "accuracy", "light"
        ).alt,
        ("^Difference from A. B accuracy −2.1 points (95%: −4.0 to −0.1); C accuracy +1.0 points (no interval).$",),
    ),
    "overlap both ways": (lambda: overlap.alt(ROWS, "overlap"), (". of b in a 25.0%; of a in b 50.0%.$",)),
    "IoU once": (lambda: overlap.alt(ROWS, "iou"), (". a and b 25.0%.$",)),
    "other columns": (
        lambda: overlap.alt(ROWS.rename(columns=COLUMNS), "iou", *COLUMNS.values()),
        (f"^{plain(overlap.alt(ROWS, 'iou'))}$",),
    ),
})  # fmt: skip
