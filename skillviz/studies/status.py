"""What of a study is there: the state of every step, told from files without reading models or data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import pandas as pd

from skillviz.regular_file import has_size
from skillviz.runs.artifact import LOCALIZE, Finished, Stored
from skillviz.runs.folder import OPEN, WORK
from skillviz.runs.process import is_alive
from skillviz.runs.store import Store, Unfinished
from skillviz.studies.plan import Plan, plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.step import ARTIFACTS, TABLE, Step
from skillviz.studies.store import TABLES_VERSION, StudyFolder, open_study, study_path

FINISHED, MISSING, FAILED, RUNNING = "finished", "missing", "failed", "running"
COLUMNS = {"step": "int64", "kind": "str", "title": "str", "state": "str", "seconds": "float64", "error": "str"}


@dataclass
class Snapshot:
    """A store as it is now, looked at once for all steps of a plan."""

    plan: Plan
    store: Store

    @cached_property
    def finished(self) -> dict[str, Finished]:
        """Key to what is finished."""
        artifacts = [step.artifact for step in self.plan.steps if step.kind != TABLE]
        groups = [(each, [a for a in artifacts if a.kind == kind]) for kind, each in ARTIFACTS.items()]
        return {key: one for each, group in groups for key, one in each.all_finished(group, self.store).items()}

    def of(self, kind: str) -> dict[str, Any]:
        """Key to what is finished of one kind: fine-tuned models, runs or scores."""
        return {step.key: self.finished[step.key] for step in self.plan.of(kind) if step.key in self.finished}

    @cached_property
    def unfinished(self) -> dict[str, Unfinished]:
        """Key to the newest run that is not finished."""
        keys = {step.key for step in self.plan.of(LOCALIZE)}
        entries = [entry for entry in self.store.unfinished() if entry.record.key in keys]
        return {entry.record.key: entry for entry in reversed(entries)}

    @cached_property
    def folder(self) -> StudyFolder | None:
        """The study's folder, where it was begun."""
        return open_study(study_path(self.store.root, self.plan.study))

    def is_there(self, step: Step) -> bool:
        """Whether a step is finished; whether what it was made of has changed is looked at when the study is run."""
        if step.kind != TABLE:
            return step.key in self.finished
        return self.has_tables

    @cached_property
    def has_tables(self) -> bool:
        """Whether the tables are those of the results that are there."""
        folder = self.folder
        if folder is None or not folder.record.files or folder.record.key != self.plan.key:
            return False
        whole = all(has_size(folder.path / name, note.size) for name, note in folder.record.files.items())
        return whole and folder.record.made_of == self.digest()

    def digest(self) -> str:
        """What the tables are made from, as one text that changes with it."""
        lines = [f"{key} {finished.stamp}" for key, finished in self.finished.items()]
        lines += [f"tables {TABLES_VERSION}"] if TABLES_VERSION > 1 else []  # the first were stored without it
        return sha256("\n".join(sorted(lines)).encode()).hexdigest()

    def devices(self) -> str | None:
        """The devices that what is finished was made on, in words; None where nothing is, or nothing tells."""
        return ", ".join(sorted({one.device for one in self.finished.values() if one.device})) or None

    def seconds(self, step: Step) -> float | None:
        """The seconds that a finished step took."""
        if step.key in self.finished:
            return self.finished[step.key].seconds
        note = self.folder.record.steps.get(step.key) if self.folder is not None else None
        return note.seconds if note is not None and step.key == TABLE else None

    def state(self, step: Step) -> str:
        """finished, missing, failed or running."""
        if self.is_there(step):
            return FINISHED
        entry = self.unfinished.get(step.key)
        if entry is not None and entry.record.status in OPEN:
            return RUNNING
        note = self.folder.record.steps.get(step.key) if self.folder is not None else None
        return note.state if note is not None and self._speaks(note.state) else MISSING

    def error(self, step: Step) -> str:
        """Why a step failed; empty where it did not."""
        note = self.folder.record.steps.get(step.key) if self.folder is not None else None
        return f"{note.error.kind}: {note.error.message}" if note is not None and note.error is not None else ""

    def stored(self) -> dict[str, Stored]:
        """Key to the folders of what is finished or interrupted, for whoever makes what is missing."""
        finished = {key: one.path.name for key, one in self.finished.items()}
        interrupted = {key: e.id for key, e in self.unfinished.items() if e.record.status in ("failed", "cancelled")}
        return {key: Stored(finished.get(key), interrupted.get(key)) for key in {*finished, *interrupted}}

    def _speaks(self, state: str) -> bool:
        """Whether study.json may be believed: nothing runs where nobody works on the study."""
        if state == RUNNING:
            return self.folder is not None and is_alive(self.folder.path / WORK)
        return state == FAILED


def status(study: StudySpec, store: Store) -> pd.DataFrame:
    """One row a step: its number, kind, title, state (finished, missing, failed, running) and the seconds it took."""
    snapshot = Snapshot(plan(study), store)
    rows = []
    for number, step in enumerate(snapshot.plan.steps, start=1):
        state = snapshot.state(step)
        columns = {"step": number, "kind": step.kind, "title": step.title, "state": state}
        rows.append(
            {**columns, "seconds": snapshot.seconds(step), "error": snapshot.error(step) if state == FAILED else ""}
        )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
