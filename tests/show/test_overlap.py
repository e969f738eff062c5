"""Tests of pairs of regions as rows: IoU once per pair, overlap in both directions, no region with itself."""

from __future__ import annotations

import pandas as pd

from skillviz.core.formats import SPACE
from skillviz.show import overlap

ROWS = pd.DataFrame(
    [("a", "a", 1.0), ("a", "b", 0.25), ("b", "a", 0.5), ("b", "b", 1.0)], columns=["row", "column", "value"]
)


def test_overlap_is_told_both_ways_and_iou_once() -> None:
    assert overlap.alt(ROWS, "overlap").replace(SPACE, " ").endswith(". of b in a 25.0%; of a in b 50.0%.")
    assert overlap.alt(ROWS, "iou").replace(SPACE, " ").endswith(". a and b 25.0%.")
    columns = {"row": "row_task", "column": "column_task"}
    assert overlap.alt(ROWS.rename(columns=columns), "iou", *columns.values()) == overlap.alt(ROWS, "iou")
