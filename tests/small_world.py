"""The part of the shipped content that tests use: the run that the dashboard opens on."""

from functools import cache

from skillviz.runs.run import Run
from skillviz.runs.store import Store, shipped_root
from skillviz.show.briefs import brief_of, opening_brief


@cache
def opening_run() -> Run:
    """Return the stored run that the dashboard opens on."""
    store = Store(shipped_root())
    return store.open(opening_brief([brief_of(run, is_of_user=False) for run in store.list()]).id)
