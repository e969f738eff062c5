"""Write the state of a running study into its folder: its process, its progress, and the result of each step."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillviz.atomic import disk_errors, write_text
from skillviz.errors import BadInput, visible
from skillviz.runs import slurm_queue
from skillviz.runs.folder import CANCEL, EVENTS, LOG, WORK, now
from skillviz.runs.liveness import hold, is_alive, is_held_here, jobs_of, unname
from skillviz.runs.process import CLUSTER, launch_of, note_launch
from skillviz.runs.provenance import commit, versions
from skillviz.runs.record import Failure, FileNote
from skillviz.runs.store import written
from skillviz.studies.plan import StudyPlan
from skillviz.studies.status import Snapshot
from skillviz.studies.step import StudyStep
from skillviz.studies.store import FILE, StepNote, StudyRecord, open_study, study_path, write_record

EVERY = 3.0  # seconds between two writings of study.json


class Journal:
    """The record of a study while it runs; every file is written atomically."""

    def __init__(self, at: Snapshot, workers: int, command: str | None) -> None:
        self.path = study_path(at.store.root, at.plan.study)
        self.plan: StudyPlan = at.plan
        self.begun, self.written = time.monotonic(), 0.0
        before = open_study(self.path)
        old = before.record if before is not None and before.record.key == at.plan.key else None
        self.before = old.seconds if old is not None else 0.0
        self.notes = {step.key: self._note(step, at, old) for step in at.plan.steps}
        self.record = self._record(at, old, workers, command)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Lock the study for this process inside the context; raises BadInput if another process runs it."""
        work = self.path / WORK
        with written(self.path.parent.parent):
            work.mkdir(parents=True, exist_ok=True)
        if jobs_of(work) and is_alive(work):
            raise BadInput(
                f"the study '{self.plan.study.name}' is running on a cluster; wait for it, or cancel it with "
                f"`python -m skillviz jobs cancel {self.plan.study.name}`."
            )
        cluster = launch_of(work).get(CLUSTER) if slurm_queue.own_job() else None
        if is_held_here(work) or not hold(work):
            raise BadInput(
                f"the study '{self.plan.study.name}' is running in another process in {self.path.parent.parent}; "
                "wait for it, or cancel it."
            )
        try:
            self._note_begin(work, Path.cwd(), {CLUSTER: cluster} if cluster else {})
            yield
        finally:
            unname(work)

    def submit(self, cwd: Path, cluster: str) -> None:
        """Begin a study whose steps run as processes on a cluster."""
        work = self.path / WORK
        work.mkdir(parents=True, exist_ok=True)
        unname(work)
        (work / CANCEL).unlink(missing_ok=True)
        self._note_begin(work, cwd, {CLUSTER: cluster})

    def _note_begin(self, work: Path, cwd: Path, place: Mapping[str, str]) -> None:
        note_launch(work, cwd, workers=self.record.workers, **place)
        write_text(self.path / FILE, self.plan.study.yaml_text())
        (work / EVENTS).unlink(missing_ok=True)
        self.save()

    def step(self, number: int, step: StudyStep, what: str, left: float | None, **more: Any) -> None:
        """Report a step to the watchers: started, skipped, finished, failed or not reached."""
        tell(self.path, number, len(self.plan.steps), step, what, left, **more)

    def log(self, line: str) -> None:
        """Append a line to the study's log."""
        _log(self.path, line)

    def note(self, step: StudyStep, state: str, seconds: float | None = None, error: Failure | None = None) -> None:
        """Store a step's result; study.json is written at once if it began or failed, else within EVERY seconds."""
        known = self.notes[step.key]
        update = {"state": state, "error": error, "seconds": known.seconds if seconds is None else round(seconds, 3)}
        self.notes[step.key] = known.model_copy(update=update)
        if error is not None or state == "running" or time.monotonic() - self.written > EVERY:
            self.save()

    def save(self, **fields: Any) -> None:
        """Write study.json, with these fields changed."""
        self.written = time.monotonic()
        seconds = round(self.before + self.written - self.begun, 3)
        self.record = self.record.model_copy(update={"steps": dict(self.notes), "seconds": seconds, **fields})
        write_record(self.path, self.record)

    def finish(self, status: str, **fields: Any) -> None:
        """Write the last record, with the study's final status."""
        self.save(status=status, finished=now(), **fields)

    def tables(self, files: Mapping[str, FileNote], made_of: str) -> None:
        """Record the tables, and delete tables of an earlier study of this name that are not among them."""
        old = set(self.record.files) | {path.name for path in self.path.glob("*.parquet")}
        self.save(files=dict(files), made_of=made_of)
        for name in old - set(files):
            (self.path / Path(name).name).unlink(missing_ok=True)

    def _note(self, step: StudyStep, at: Snapshot, old: StudyRecord | None) -> StepNote:
        state = "finished" if at.is_there(step) else "missing"
        return StepNote(kind=step.kind, title=step.title, state=state, seconds=at.seconds(step))

    def _record(self, at: Snapshot, old: StudyRecord | None, workers: int, command: str | None) -> StudyRecord:
        study = at.plan.study
        return StudyRecord(
            name=study.name, title=study.title, experiment=study.experiment, scale=study.scale,
            command=command, key=at.plan.key, started=old.started if old is not None else now(),
            workers=workers, versions=versions(), commit=commit(),
            files=old.files if old is not None else {}, made_of=old.made_of if old is not None else "",
        )  # fmt: skip


def tell(path: Path, number: int, total: int, step: StudyStep, what: str, left: float | None, **more: Any) -> None:
    """Append a step of a study to the events and to the log in the study's folder."""
    columns = {"step": number, "of": total, "key": step.key, "kind": step.kind, "title": step.title}
    line = {"time": round(time.time(), 3), **columns, "what": what, "left": left, **more}
    with disk_errors(path / WORK / EVENTS), (path / WORK / EVENTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    _log(path, f"{number} of {total} {what}: {step.title}")


def _log(path: Path, line: str) -> None:
    with disk_errors(path / WORK / LOG), (path / WORK / LOG).open("a", encoding="utf-8") as file:
        file.write(f"{now()} {visible(line)}\n")
