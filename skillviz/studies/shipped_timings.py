"""How long the steps of the studies that ship took: the first measure of a machine that has none of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from skillviz.runs.store import Store, shipped_root
from skillviz.studies.status import FINISHED
from skillviz.studies.step import TABLE
from skillviz.studies.store import list_studies


@dataclass(frozen=True)
class Recorded:
    """Seconds of steps by key, and of all tables of a study by the key of its plan."""

    steps: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, float] = field(default_factory=dict)


@cache
def shipped(device: str, root: str) -> Recorded:
    """Of the studies in `root` that were made on this kind of device (cpu or cuda): the least that each step took."""
    steps, tables = dict[str, float](), dict[str, float]()
    for study in list_studies(Store(root)):
        record = study.record
        if (record.device or "").partition(" ")[0] != device:
            continue
        for key, note in record.steps.items():
            if note.state == FINISHED and note.seconds:
                found, name = (tables, record.key) if key == TABLE else (steps, key)
                found[name] = min(note.seconds, found.get(name, note.seconds))
    return Recorded(steps, tables)


def recorded(device: str) -> Recorded:
    """Of the shipped studies that were made on this kind of device."""
    return shipped(device, str(shipped_root().resolve()))
