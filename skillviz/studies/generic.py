"""The tables of a study, and which of them are made where no experiment of the paper says."""

from __future__ import annotations

import pandas as pd

from skillviz.runs import aggregate
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec

SCORES, DIFFERENCES = "scores", "differences"


def tables_of(study: StudySpec, results: Results) -> dict[str, pd.DataFrame]:
    """The tables of a study by name: its experiment's, or means over seeds and paired differences of its runs."""
    if study.experiment is None:
        return generic(results)
    from skillviz.studies.tables import make_tables

    return dict(make_tables(study, results))


def generic(results: Results) -> dict[str, pd.DataFrame]:
    """`scores` and `differences` of all runs, as runs.aggregate makes them."""
    runs = results.runs()
    return {SCORES: aggregate.table(runs), DIFFERENCES: aggregate.differences(runs)}
