"""What tests take from what ships: the run that the dashboard opens on, and its rivals."""

from __future__ import annotations

from functools import cache

from skillviz.runs.run import Run
from skillviz.runs.store import Store, shipped_root
from skillviz.show.entries import entry_of, opening_entry


@cache
def opening_run() -> Run:
    """The stored run that the dashboard opens on."""
    store = Store(shipped_root())
    return store.open(opening_entry([entry_of(run, is_of_user=False) for run in store.list()]).id)


def rival_of(run: Run, localizer: str = "movement") -> Run:
    """The stored run of the same pair by another localizer, with a region of the same size."""
    return next(
        other
        for other in Store(shipped_root()).list()
        if other.spec.localizer == localizer
        and (other.spec.finetuned, other.record.size) == (run.spec.finetuned, run.record.size)
    )
