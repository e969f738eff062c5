"""Tests of the comparison of runs in words: differences are points with their interval, not percentages."""

from __future__ import annotations

import pandas as pd

from skillviz.plots.compare import run_styles
from skillviz.show.compare import differences


def test_a_difference_is_read_out_in_points_with_its_interval() -> None:
    table = pd.DataFrame(
        [("B", "accuracy", -0.021, -0.04, -0.001), ("C", "accuracy", 0.01, float("nan"), float("nan"))],
        columns=["run", "metric", "value", "low", "high"],
    )
    shown = differences(table, run_styles([("B", "movement"), ("C", "random")]), "A", "accuracy", "light")
    assert shown.alt == (
        "Difference from A. B accuracy −2.1 points (95%: −4.0 to −0.1); C accuracy +1.0 points (no interval)."
    )
