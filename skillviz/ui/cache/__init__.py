"""Everything the dashboard keeps in memory. Nothing is computed here; what a live page shows is asked of the worker.

One file a noun: `library` (runs), `studied` (studies), and `models` for what a run can be made of.
"""

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
