"""The two kinds of job: one run, which waits for its device, and one study, which takes the devices it needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from skillviz.atomic import write_text
from skillviz.errors import UNKNOWN, NoCluster, SkillvizError, StoreError
from skillviz.jobs.backend import Backend
from skillviz.jobs.job import Event, Job, JobProgress, JobStatus, Kind, seconds_left
from skillviz.jobs.slots import give_up_ticket, position, slot_in, slot_of, take_ticket
from skillviz.jobs.slurm import SlurmBackend, backend_named
from skillviz.runs import slurm_queue
from skillviz.runs.folder import CANCEL, EVENTS, LOG, OPEN, WORK, RunFolder
from skillviz.runs.liveness import ALIVE, is_alive, jobs_of, life, unname
from skillviz.runs.process import CLUSTER, launch_of, note_launch
from skillviz.runs.record import Failure, RunRecord
from skillviz.runs.record_failure import failure_of
from skillviz.runs.slurm_queue import SLURM
from skillviz.runs.store import UNSEEN, Store, is_awaited, written
from skillviz.studies.array import ENDED, begin, cancelled
from skillviz.studies.check import check
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.status import Snapshot
from skillviz.studies.store import FILE, StudyRecord, open_study

TAIL = 1 << 16  # number of bytes at the end of a file that are searched for the latest events or lines
INTERRUPTED = "Interrupted."  # the last line that a command prints when it is interrupted


@dataclass(frozen=True)
class RunJob(Job):
    """One run: `record` is its run.json."""

    kind: ClassVar[Kind] = "run"
    record: RunRecord

    @classmethod
    def of(cls, root: Path, path: Path, record: RunRecord) -> RunJob:
        """The run in a folder, with its place in the queue."""
        slot, place = slot_in(path, record.spec.device), None
        if record.status in OPEN and (jobs := jobs_of(path / WORK)):
            slot, place = _place_on_cluster(jobs)
        elif record.status in OPEN and is_awaited(path):
            place = position(root, slot, record.run_id)
        return cls(record.run_id, path, record.status, record, slot=slot, position=place)

    @staticmethod
    def launch(root: Path, folder: RunFolder, cwd: Path, backend: Backend) -> None:
        """Takes a place in the queue, then starts the process that waits for its turn. A cluster has its own queue."""
        is_local = not isinstance(backend, SlurmBackend)
        slot = slot_of(folder.record.spec.device) if is_local else SLURM
        with written(root):
            note_launch(folder.work, cwd, slot=slot, **({} if is_local else {CLUSTER: SLURM}))
            if is_local:
                take_ticket(root, slot, folder.id)
            folder.log(f"queued for {slot}")
        backend.start(folder.path, ["work", str(folder.path.resolve())], cwd)
        if not folder.is_open:  # the run may have ended already
            unname(folder.work)

    @property
    def title(self) -> str:
        """The job in a sentence."""
        return f"run {self.name}"

    @property
    def run(self) -> RunRecord:
        """The run.json."""
        return self.record

    @property
    def error(self) -> Failure | None:
        """The run's failure, with a hint on how to continue; None if it did not fail."""
        return self.record.error

    def progress(self, events: Sequence[Event]) -> JobProgress:
        """The progress from the last phase, and from the last search step of the current attempt."""
        phases = [event for event in events if event.get("phase") not in (None, "resume")]
        if not phases:
            return JobProgress("check")
        last, left = phases[-1], seconds_left(phases[-1])
        scored = last["step"] / last["total"] if last["phase"] == "evaluate" and last.get("total") else None
        attempt = max((number for number, event in enumerate(phases) if event["phase"] == "load"), default=0)
        steps = [event for event in phases[attempt:] if event["phase"] == "search" and "step" in event]
        if not steps:
            return JobProgress(last["phase"], seconds_left=left, scored=scored)
        step = steps[-1]
        done, total = step["step"], step.get("total")
        if total is not None:  # over all searches of the run, which have the same number of steps
            done, total = (step["search"] - 1) * total + done, step["searches"] * total
        latest: dict[str, Any] = {name: step.get(name) for name in ("loss", "size", "added", "removed")}
        return JobProgress(last["phase"], done, total, **latest, seconds_left=left, scored=scored)

    def check_resume(self, root: Path) -> None:
        """Checks nothing: the job's own process checks its models and task."""

    def resume(self, root: Path, backend: Backend) -> None:
        """Resumes from the last checkpoint."""
        folder = RunFolder(self.path)
        with written(root):
            folder.reopen()
        try:
            self.launch(root, folder, launch_of(folder.work)["cwd"], backend)
        except NoCluster as error:  # Slurm refused the job
            folder.give_up(failure_of(error))
            raise

    def announce_cancel(self, root: Path) -> None:
        """Creates the cancel file in the job's folder."""
        with written(root):
            (self.path / WORK / CANCEL).touch()

    def close(self, root: Path) -> None:
        """Marks the run as cancelled unless it ended by itself, and frees its place in the queue."""
        folder = RunFolder(self.path)
        if folder.record.status in OPEN:
            folder.cancel()
        give_up_ticket(root, self.name)


@dataclass(frozen=True)
class StudyJob(Job):
    """One study: `record` is its study.json, or None before it has begun."""

    kind: ClassVar[Kind] = "study"
    record: StudyRecord | None = None

    @classmethod
    def of(cls, path: Path) -> StudyJob:
        """The study in a folder."""
        folder, jobs = open_study(path), jobs_of(path / WORK)
        status = _status(path, folder.record if folder is not None else None)
        slot, place = _place_on_cluster(jobs) if jobs and status == "running" else ("", None)
        if place is not None and not (path / WORK / EVENTS).exists():
            status = "queued"
        if folder is not None:
            return cls(folder.name, path, status, folder.record, slot=slot, position=place)
        try:
            name = read_study(path / FILE).name
        except SkillvizError:
            name = path.name
        return cls(name, path, status)

    @staticmethod
    def launch(root: Path, path: Path, study: StudySpec, file: Path, cwd: Path, workers: int, backend: Backend) -> None:
        """Starts `workers` processes that make the study of a file, or submits its steps; raises StoreError if the
        study is already running."""
        if is_alive(path / WORK):
            raise StoreError(f"the study '{study.name}' is running; wait for it, or cancel it.")
        if isinstance(backend, SlurmBackend):
            with written(root):
                levels = begin(study, Store(root), cwd)
            command = ["work-study", str(path.resolve())]
            backend.start_steps(path, levels, [*command, "--level"], command, cwd)
            return
        with written(root):
            (path / WORK).mkdir(parents=True, exist_ok=True)
            if not (path / FILE).exists():
                write_text(path / FILE, study.yaml_text())
            note_launch(path / WORK, cwd, workers=workers)
            (path / WORK / EVENTS).unlink(missing_ok=True)
            words = ["study", "run", str(file), "--runs-dir", str(root.absolute()), "--workers", str(workers)]
            backend.start(path, words, cwd)

    @property
    def title(self) -> str:
        """The job in a sentence."""
        return f"the study '{self.name}'"

    @property
    def error(self) -> Failure | None:
        """The reason why the study's status is unknown; failures are those of its steps."""
        return UNSEEN if self.status == UNKNOWN else None

    @property
    def failed_steps(self) -> Mapping[str, str]:
        """Title of each failed step to the reason."""
        notes = self.record.steps.values() if self.record else ()
        return {note.title: f"{note.error.kind}: {note.error.message}" for note in notes if note.error is not None}

    @property
    def finished_steps(self) -> int:
        """The number of finished steps."""
        return sum(note.state == "finished" for note in self.record.steps.values()) if self.record else 0

    def progress(self, events: Sequence[Event]) -> JobProgress:
        """The progress from the current step; without one, the study is checking models and data, or waits for its
        device."""
        last = next((event for event in reversed(events) if "step" in event), None)
        if last is None:
            return JobProgress("check")
        if self.record is not None and jobs_of(self.path / WORK):  # steps run in parallel and end in any order
            done = sum(note.state in ENDED for note in self.record.steps.values())
            return JobProgress("steps", min(done, last["of"] - 1), last["of"], title=last["title"])
        left = seconds_left(last)
        return JobProgress("steps", last["step"] - 1, last["of"], seconds_left=left, title=last["title"])

    def check_resume(self, root: Path) -> None:
        """Checks models and tasks, if relative names still mean the same as at the start."""
        if launch_of(self.path / WORK)["cwd"] == Path.cwd():  # in another directory, the job's own process checks them
            check(Snapshot(study_plan(read_study(self.path / FILE)), Store(root)))

    def resume(self, root: Path, backend: Backend) -> None:
        """Resumes with the unfinished steps and the same number of processes as before."""
        file, launch = self.path / FILE, launch_of(self.path / WORK)
        study = read_study(file)
        workers = launch.get("workers") or (self.record.workers if self.record else 1)
        self.launch(root, self.path, study, file, launch["cwd"], workers, backend)

    def announce_cancel(self, root: Path) -> None:
        """Creates the cancel file in the job's folder, for steps on a cluster. A local study begins together with
        its process, so none of its processes is still starting."""
        with written(root):
            (self.path / WORK / CANCEL).touch()

    def close(self, root: Path) -> None:
        """Removes the process id from the folder, and stops waiting for a job on a cluster."""
        if jobs_of(self.path / WORK):
            cancelled(self.path)
        if not is_alive(self.path / WORK):
            unname(self.path / WORK)
            (self.path / WORK / CANCEL).unlink(missing_ok=True)


def backend_of(job: Job) -> Backend:
    """The backend on which the job was started."""
    return backend_named(launch_of(job.path / WORK).get(CLUSTER))


def _place_on_cluster(jobs: Sequence[str]) -> tuple[str, int | None]:
    """The queue of a cluster job and the number of jobs ahead of the first waiting one; None if it is running."""
    waiting = slurm_queue.standing(jobs[0])
    return (f"{SLURM} {waiting.partition}", slurm_queue.ahead(jobs[0])) if waiting is not None else (SLURM, None)


def _status(path: Path, record: StudyRecord | None) -> JobStatus:
    state = life(path / WORK)
    if state == ALIVE:
        return "running"
    if state == UNKNOWN and (record is None or record.status == "running"):
        return "unknown"
    if record is None:  # the study could not begin, unless it was never run or was ended before
        log = path / WORK / LOG
        last = end_of(log).rstrip() if log.is_file() else ""  # empty: the process ended before it printed anything
        return "failed" if last and not last.endswith(INTERRUPTED) else "stopped"
    ended: dict[str, JobStatus] = {"finished": "finished", "failed": "failed", "cancelled": "cancelled"}
    return ended.get(record.status, "stopped")


def end_of(path: Path) -> str:
    """The last TAIL bytes of a log."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
        return file.read().decode("utf-8", errors="replace")
