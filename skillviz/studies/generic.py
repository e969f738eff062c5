"""The tables of a study: stored ones, and those of its runs alone, which can be had at any moment."""

from __future__ import annotations

import pandas as pd

from skillviz.runs import aggregate
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec

SCORES, DIFFERENCES = "scores", "differences"


def tables_of(study: StudySpec, results: Results) -> dict[str, pd.DataFrame]:
    """The tables of a study by name: its experiment's, or those that any study has."""
    from skillviz.studies.tables import make_tables

    return dict(make_tables(study, results))


def generic(results: Results) -> dict[str, pd.DataFrame]:
    """`scores` and `differences` of all runs, pair by pair, as runs.aggregate makes them; nothing need be stored."""
    runs = results.runs()
    return {SCORES: aggregate.table(runs), DIFFERENCES: aggregate.differences(runs)}
