"""Tables of a study's runs alone, which can be had at any moment; the study's own are made by `tables.make_tables`."""

from __future__ import annotations

import pandas as pd

from skillviz.runs import aggregate
from skillviz.studies.results import Results

SCORES, DIFFERENCES = "scores", "differences"


def generic(results: Results) -> dict[str, pd.DataFrame]:
    """`scores` and `differences` of all runs, pair by pair, as runs.aggregate makes them; nothing need be stored."""
    runs = results.runs()
    return {SCORES: aggregate.table(runs), DIFFERENCES: aggregate.differences(runs)}
