"""Determine the state of a study's steps from files alone, without reading models or data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import pandas as pd

from skillviz.regular_file import has_size
from skillviz.runs.artifact import LOCALIZE, Finished, Stored
from skillviz.runs.folder import OPEN, WORK
from skillviz.runs.liveness import is_alive
from skillviz.runs.store import Store, Unfinished
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.step import ARTIFACTS, TABLE, StudyStep
from skillviz.studies.store import TABLES_VERSION, StudyFolder, open_study, study_path


def cores() -> int:
    """The number of processors that this process may run on, or the machine's number if the system has no affinity."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


FINISHED, MISSING, FAILED, RUNNING = "finished", "missing", "failed", "running"
COLUMNS = {"step": "int64", "kind": "str", "title": "str", "state": "str", "seconds": "float64", "error": "str"}


@dataclass
class Snapshot:
    """The current state of a store, read once for all steps of a plan."""

    plan: StudyPlan
    store: Store

    @cached_property
    def finished(self) -> dict[str, Finished]:
        """The finished artifacts by key."""
        artifacts = [step.artifact for step in self.plan.steps if step.kind != TABLE]
        groups = [(each, [a for a in artifacts if a.kind == kind]) for kind, each in ARTIFACTS.items()]
        return {key: one for each, group in groups for key, one in each.all_finished(group, self.store).items()}

    def of(self, kind: str) -> dict[str, Any]:
        """Return the finished artifacts of one kind by key: fine-tuned models, runs or scores."""
        return {step.key: self.finished[step.key] for step in self.plan.of(kind) if step.key in self.finished}

    @cached_property
    def unfinished(self) -> dict[str, Unfinished]:
        """The newest unfinished run by key."""
        keys = {step.key for step in self.plan.of(LOCALIZE)}
        entries = [entry for entry in self.store.unfinished() if entry.record.key in keys]
        return {entry.record.key: entry for entry in reversed(entries)}

    @cached_property
    def folder(self) -> StudyFolder | None:
        """The study's folder, or None if the study has not begun."""
        return open_study(study_path(self.store.root, self.plan.study))

    def is_there(self, step: StudyStep) -> bool:
        """True if a step is finished; changes of its sources are checked when the study runs."""
        if step.kind != TABLE:
            return step.key in self.finished
        return self.has_tables

    @cached_property
    def has_tables(self) -> bool:
        """True if the tables were made from the results now in the store."""
        folder = self.folder
        if folder is None or not folder.record.files or folder.record.key != self.plan.key:
            return False
        whole = all(has_size(folder.path / name, note.size) for name, note in folder.record.files.items())
        return whole and folder.record.made_of == self.digest()

    def digest(self) -> str:
        """Return a hash of the tables' inputs, which changes with any of them."""
        lines = [f"{key} {finished.stamp}" for key, finished in self.finished.items()]
        lines.append(f"tables {TABLES_VERSION}")
        return sha256("\n".join(sorted(lines)).encode()).hexdigest()

    def devices(self) -> str | None:
        """Return the devices of the finished artifacts in words; None if there are none, or none is recorded."""
        return ", ".join(sorted({one.device for one in self.finished.values() if one.device})) or None

    def seconds(self, step: StudyStep) -> float | None:
        """Return the seconds that a finished step took."""
        if step.key in self.finished:
            return self.finished[step.key].seconds
        note = self.folder.record.steps.get(step.key) if self.folder is not None else None
        return note.seconds if note is not None and step.key == TABLE else None

    def state(self, step: StudyStep) -> str:
        """Return finished, missing, failed or running."""
        if self.is_there(step):
            return FINISHED
        entry = self.unfinished.get(step.key)
        if entry is not None and entry.record.status in OPEN:
            return RUNNING
        note = self.folder.record.steps.get(step.key) if self.folder is not None else None
        if note is None or note.state not in (FAILED, RUNNING):
            return MISSING
        # "running" is valid only if a process works on the study
        is_valid = note.state == FAILED or (self.folder is not None and is_alive(self.folder.path / WORK))
        return note.state if is_valid else MISSING

    def error(self, step: StudyStep) -> str:
        """Return the reason why a step failed; empty if it did not."""
        note = self.folder.record.steps.get(step.key) if self.folder is not None else None
        return f"{note.error.kind}: {note.error.message}" if note is not None and note.error is not None else ""

    def stored(self) -> dict[str, Stored]:
        """Return the folders of finished or interrupted artifacts by key, to make the missing ones."""
        finished = {key: one.path.name for key, one in self.finished.items()}
        interrupted = {key: e.id for key, e in self.unfinished.items() if e.record.status in ("failed", "cancelled")}
        return {key: Stored(finished.get(key), interrupted.get(key)) for key in {*finished, *interrupted}}


def status(study: StudySpec, store: Store) -> pd.DataFrame:
    """Return one row per step: its number, kind, title, state (finished, missing, failed, running) and its seconds."""
    snapshot = Snapshot(study_plan(study), store)
    rows = []
    for number, step in enumerate(snapshot.plan.steps, start=1):
        state = snapshot.state(step)
        columns = {"step": number, "kind": step.kind, "title": step.title, "state": state}
        rows.append(
            {**columns, "seconds": snapshot.seconds(step), "error": snapshot.error(step) if state == FAILED else ""}
        )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
