"""Run a study on a cluster: one process per step, levels of steps, and the tables after all steps have ended.

The steps of a level need only steps of earlier levels. The submitting process begins the study. Each step notes its
result in study.json. The last process makes the tables and records the study's final status.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from skillviz import json_text
from skillviz.atomic import write_text
from skillviz.locks import lock_at
from skillviz.runs import slurm_queue
from skillviz.runs.artifact import FINETUNE, LOCALIZE, Workshop
from skillviz.runs.folder import CANCEL, CHECKPOINT, WORK, now
from skillviz.runs.liveness import jobs_of
from skillviz.runs.process import Report
from skillviz.runs.record import Failure
from skillviz.runs.store import KILLED, Store, ended_by_cluster
from skillviz.studies.engine import NOT_REACHED, STARTED, Outcome, rerunnable, run_study
from skillviz.studies.finetuned_model import folder_of
from skillviz.studies.journal import Journal, tell
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.status import MISSING, RUNNING, Snapshot
from skillviz.studies.step import FAILED, FINISHED, TABLE, StudyStep, attempt, ensure
from skillviz.studies.store import FILE, StudyRecord, open_study, write_record

LEVELS = "levels.json"
NOTES_LOCK = "notes.lock"
PATIENCE = 120.0  # seconds that a step waits for the lock to write its note: each note takes milliseconds
ENDED = (FINISHED, FAILED, NOT_REACHED)
"""The states of a step that needs no more work."""
STOPPED = KILLED.model_copy(update={"message": "The process of this step has stopped."})
WITHDRAWN = Failure(
    kind="cancelled",
    message="The cluster cancelled this step.",
    hint="Resume the study: it continues with what is not finished.",
)


def levels(at: Snapshot) -> list[list[StudyStep]]:
    """Return the missing steps by level, without the tables; no step needs another of its own or of a later level."""
    numbers: dict[str, int] = {}
    rows: list[list[StudyStep]] = []
    for step in at.plan.steps:
        if step.kind == TABLE or at.is_there(step):
            continue
        number = max((numbers[need] + 1 for need in step.needs if need in numbers), default=0)
        numbers[step.key] = number
        rows += [[]] if number == len(rows) else []
        rows[number].append(step)
    return rows


def begin(study: StudySpec, store: Store, cwd: Path) -> list[int]:
    """Begin the study and mark it as running in its folder; return the number of steps of each level."""
    at = Snapshot(study_plan(study), store)
    command = rerunnable(study.request.command() if study.request else None, study.name)
    journal = Journal(at, 1, command)
    rows = levels(at)
    journal.submit(cwd, slurm_queue.SLURM)
    write_text(journal.path / WORK / LEVELS, json.dumps([[step.key for step in row] for row in rows]))
    return [len(row) for row in rows]


def do_step(path: Path, store: Store, level: int, number: int, report: Report) -> None:
    """Run one step of a level if the steps that it needs are finished, and note the result."""
    from skillviz.runs.session import Session  # imports torch

    plan, step = _step_of(path, level, number)
    at = Snapshot(plan, store)
    if not all(at.is_there(plan.by_key[need]) for need in step.needs):
        _note(path, plan, step, NOT_REACHED, NOT_REACHED)
        return
    _note(path, plan, step, RUNNING, STARTED)
    workshop = Workshop(store, Session(), _record(path).command, report)
    reply = attempt(partial(ensure, step, at.stored().get(step.key), workshop), workshop)
    state = FAILED if reply.failure is not None else FINISHED
    _note(path, plan, step, state, reply.what, reply.seconds or None, reply.failure)


def has_checkpoint_since(path: Path, store: Store, level: int, number: int, begun: float) -> bool:
    """True if the step has written a file to resume from since `begun`, a time in seconds."""
    from skillviz.models.finetune.run import journal_of  # imports torch

    _, step = _step_of(path, level, number)
    files: list[Path] = []
    if step.kind == LOCALIZE:
        files = [e.path / WORK / CHECKPOINT for e in store.unfinished() if e.record.key == step.key]
    if step.kind == FINETUNE:
        files = list(journal_of(folder_of(step.spec)).glob("*"))
    return any(file.is_file() and file.stat().st_mtime >= begun for file in files)


def fail_step(path: Path, level: int, number: int, failure: Failure) -> None:
    """Note the failure because of which a step is not tried again."""
    plan, step = _step_of(path, level, number)
    _note(path, plan, step, FAILED, FAILED, error=failure)


def finish(path: Path, store: Store, report: Report) -> Outcome:
    """Make the tables of a study whose steps have all ended; an unfinished step counts as failed."""
    study = read_study(path / FILE)
    at, record = Snapshot(study_plan(study), store), _record(path)
    keys = [key for row in _levels(path) for key in row]
    jobs = dict(zip(keys, jobs_of(path / WORK), strict=False))
    failures = {
        step.key: record.steps[step.key].error or _end(jobs.get(step.key))
        for step in at.plan.steps
        if step.kind != TABLE and not at.is_there(step) and record.steps[step.key].state != NOT_REACHED
    }
    return run_study(study, store, progress=report, command=record.command, failures=failures)


def cancelled(path: Path) -> None:
    """Mark the study as cancelled in study.json, and its running steps as missing."""
    with _locked(path) as record:
        if record is not None and record.status == "running":
            stopped = {
                key: note.model_copy(update={"state": MISSING}) if note.state == RUNNING else note
                for key, note in record.steps.items()
            }
            write_record(path, record.model_copy(update={"status": "cancelled", "finished": now(), "steps": stopped}))


def is_cancelled(path: Path) -> bool:
    """True if the study's cancellation was requested."""
    return (path / WORK / CANCEL).exists()


def _end(job: str | None) -> Failure:
    """Return the reason why a step of an ended job is not finished."""
    state = slurm_queue.state_of(job) if job is not None else None
    if state == slurm_queue.CANCELLED:
        return WITHDRAWN
    kind = slurm_queue.FAILURES.get(state or "")
    return ended_by_cluster(kind) if kind else STOPPED


def _step_of(path: Path, level: int, number: int) -> tuple[StudyPlan, StudyStep]:
    """Return the plan of a study, and its step with this number in a level."""
    plan = study_plan(read_study(path / FILE))
    return plan, plan.by_key[_levels(path)[level][number]]


def _levels(path: Path) -> list[list[str]]:
    rows: list[list[str]] = json_text.read(path / WORK / LEVELS)
    return rows


def _record(path: Path) -> StudyRecord:
    folder = open_study(path)
    assert folder is not None, f"{path} was begun by whoever submitted it"
    return folder.record


def _note(
    path: Path,
    plan: StudyPlan,
    step: StudyStep,
    state: str,
    what: str,
    seconds: float | None = None,
    error: Failure | None = None,
) -> None:
    """Store a step's result in study.json, and report it; steps on several nodes take turns by a lock."""
    number = next(number for number, one in enumerate(plan.steps, start=1) if one.key == step.key)
    with _locked(path) as record:
        if record is not None and record.status == "running":
            known = record.steps[step.key]
            fields: Mapping[str, Any] = {"state": state, "error": error, "seconds": seconds or known.seconds}
            steps = {**record.steps, step.key: known.model_copy(update=fields)}
            write_record(path, record.model_copy(update={"steps": steps}))
        more = {} if error is None else {"error": f"{error.kind}: {error.message}"}
        tell(path, number, len(plan.steps), step, what, None, **more)


@contextmanager
def _locked(path: Path) -> Iterator[StudyRecord | None]:
    with lock_at(path / WORK / NOTES_LOCK, timeout=PATIENCE):
        folder = open_study(path)
        yield folder.record if folder is not None else None
