"""Everything the dashboard keeps in memory. Nothing is computed here; what a live page shows is asked of the worker.

One file a noun: `library` (runs), `studied` (studies), and `models` for what a run can be made of.
"""

from skillviz.ui.cache.library import (
    answer,
    entries,
    note,
    others,
    own_store,
    predictions,
    records,
    region,
    run,
    runs,
    table,
    texts,
)
from skillviz.ui.cache.models import devices, facts, preflight, rows, scored_rows, shelf, tasks_in, vocabulary, world
from skillviz.ui.cache.studied import (
    is_demo_world,
    setting_differences,
    studies,
    study_outlook,
    study_runs,
    study_subject,
    study_table,
)

__all__ = [
    "answer",
    "devices",
    "entries",
    "facts",
    "is_demo_world",
    "note",
    "others",
    "own_store",
    "predictions",
    "preflight",
    "records",
    "region",
    "rows",
    "run",
    "runs",
    "scored_rows",
    "setting_differences",
    "shelf",
    "studies",
    "study_outlook",
    "study_runs",
    "study_subject",
    "study_table",
    "table",
    "tasks_in",
    "texts",
    "vocabulary",
    "world",
]
