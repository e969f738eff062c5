"""What of a study is there: the state of every step, told from files without reading models or data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz.runs.alive import is_alive
from skillviz.runs.folder import OPEN, WORK
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, Unfinished
from skillviz.studies.execute import Known
from skillviz.studies.finetuned_model import FineTunedSpec, folder_of
from skillviz.studies.finetuned_store import finetuned_record
from skillviz.studies.plan import Plan, plan
from skillviz.studies.score import Score, ScoreSpec, read_score, score_path
from skillviz.studies.spec import StudySpec
from skillviz.studies.step import TABLE, Step
from skillviz.studies.store import TABLES_VERSION, StudyFolder, open_study, study_path

FINISHED, MISSING, FAILED, RUNNING = "finished", "missing", "failed", "running"
COLUMNS = {"step": "int64", "kind": "str", "title": "str", "state": "str", "seconds": "float64", "error": "str"}


@dataclass
class Snapshot:
    """A store as it is now, looked at once for all steps of a plan."""

    plan: Plan
    store: Store

    @cached_property
    def runs(self) -> dict[str, Run]:
        """Key to the newest finished run."""
        keys = {spec.key() for spec in self.plan.runs}
        return {run.record.key: run for run in reversed(self.store.list()) if run.record.key in keys}

    @cached_property
    def unfinished(self) -> dict[str, Unfinished]:
        """Key to the newest run that is not finished."""
        keys = {spec.key() for spec in self.plan.runs}
        found = [entry for entry in self.store.unfinished() if entry.record.key in keys]
        return {entry.record.key: entry for entry in reversed(found)}

    @cached_property
    def finetuned(self) -> dict[str, dict[str, Any]]:
        """Key to member.json of the fine-tuned models that are there."""
        found = {spec.key(): finetuned_record(folder_of(spec)) for spec in self.plan.finetuned}
        return {key: record for key, record in found.items() if record is not None and record.get("key") == key}

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Key to the scores that are there."""
        found = {spec: read_score(score_path(self.store.root, spec)) for spec in self.plan.scores}
        return {spec.key(): score for spec, score in found.items() if score is not None and score.spec == spec}

    @cached_property
    def folder(self) -> StudyFolder | None:
        """The study's folder, where it was begun."""
        return open_study(study_path(self.store.root, self.plan.study))

    def is_there(self, step: Step) -> bool:
        """Whether a step is finished; whether what it was made of has changed is looked at when the study is run."""
        if isinstance(step.spec, FineTunedSpec):
            return step.key in self.finetuned
        if isinstance(step.spec, RunSpec):
            return step.key in self.runs
        if isinstance(step.spec, ScoreSpec):
            return step.key in self.scores
        return self.has_tables

    @cached_property
    def has_tables(self) -> bool:
        """Whether the tables are those of the results that are there."""
        folder = self.folder
        if folder is None or not folder.record.files or folder.record.key != self.plan.key:
            return False
        whole = all(_is_whole(folder.path / name, note.size) for name, note in folder.record.files.items())
        return whole and folder.record.made_of == self.digest()

    def digest(self) -> str:
        """What the tables are made from, as one text that changes with it."""
        from hashlib import sha256

        told = [f"{key} {run.id}" for key, run in self.runs.items()]
        told += [f"{key} {score.record.created}" for key, score in self.scores.items()]
        told += [f"{key} {record.get('created')}" for key, record in self.finetuned.items()]
        told += [f"tables {TABLES_VERSION}"] if TABLES_VERSION > 1 else []  # the first were stored without it
        return sha256("\n".join(sorted(told)).encode()).hexdigest()

    def devices(self) -> str | None:
        """The devices that what is finished was made on, in words; None where nothing is, or nothing tells."""
        told = [run.record.device for run in self.runs.values()]
        told += [score.record.device for score in self.scores.values()]
        told += [record.get("device") for record in self.finetuned.values()]
        return ", ".join(sorted({device for device in told if device})) or None

    def seconds(self, step: Step) -> float | None:
        """The seconds that a finished step took."""
        if step.key in self.finetuned:
            return _number(self.finetuned[step.key].get("seconds"))
        if step.key in self.runs:
            return round(sum(self.runs[step.key].record.seconds.values()), 3)
        if step.key in self.scores:
            return self.scores[step.key].record.seconds
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

    def known(self) -> dict[str, Known]:
        """For each run its finished and its interrupted folder, for who makes what is missing."""
        stopped = {key: e.id for key, e in self.unfinished.items() if e.record.status in ("failed", "cancelled")}
        keys = {*self.runs, *stopped}
        return {k: Known(self.runs[k].id if k in self.runs else None, stopped.get(k)) for k in keys}

    def _speaks(self, state: str) -> bool:
        """Whether study.json may be believed: nothing runs where nobody works on the study."""
        if state == RUNNING:
            return self.folder is not None and is_alive(self.folder.path / WORK)
        return state == FAILED


def status(study: StudySpec, store: Store) -> pd.DataFrame:
    """One row a step: its number, kind, title, state (finished, missing, failed, running) and the seconds it took."""
    found = Snapshot(plan(study), store)
    rows = []
    for number, step in enumerate(found.plan.steps, start=1):
        state = found.state(step)
        told = {"step": number, "kind": step.kind, "title": step.title, "state": state}
        rows.append({**told, "seconds": found.seconds(step), "error": found.error(step) if state == FAILED else ""})
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _is_whole(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
