"""Studies run by processes of their own, which outlive whoever asked for them: start, watch, cancel."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from skillviz.atomic import write_text
from skillviz.errors import RunNotFound, SkillvizError, StoreError
from skillviz.jobs.backend import LOCAL
from skillviz.runs.alive import is_alive
from skillviz.runs.child import environment
from skillviz.runs.folder import EVENTS, LOG, PROCESS, WORK
from skillviz.runs.store import Store, written
from skillviz.studies.check import check
from skillviz.studies.cores import cores, workers_for
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.status import Snapshot
from skillviz.studies.store import FILE, FOLDER, StudyRecord, open_study, study_path

TAIL = 1 << 16  # bytes from the end of a file in which the latest is looked for
INTERRUPTED = "Interrupted."  # the last line of a process that was asked to end
RUNNING, FINISHED, FAILED, STOPPED = "running", "finished", "failed", "stopped"
_CHILDREN: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class StudyJob:
    """A study as a watcher sees it. `state` is running, finished, failed (steps failed, or it could not begin) or
    stopped (ended early: started again it goes on). Of a running one `step` of `steps` is under way, called `title`,
    and `left` seconds are thought to be left; None before it has begun, as while it waits for its device."""

    name: str
    path: Path
    state: str
    record: StudyRecord | None = None
    step: int | None = None
    steps: int | None = None
    title: str = ""
    left: float | None = None

    @property
    def failed(self) -> dict[str, str]:
        """Title of each failed step to the reason."""
        notes = self.record.steps.values() if self.record is not None else ()
        return {n.title: f"{n.error.kind}: {n.error.message}" for n in notes if n.error is not None}

    @property
    def finished_steps(self) -> int:
        """How many steps are finished."""
        return sum(note.state == FINISHED for note in self.record.steps.values()) if self.record is not None else 0


def start_study(file: Path | str, store: Store, workers: int = 1) -> StudyJob:
    """The study of a file, begun as a process of its own; returns at once.

    What files and headers tell is checked first: raises a SkillvizError where it cannot be made, StoreError where it
    runs already. Relative names in it are looked for from this process's folder.
    """
    file = Path(file).absolute()
    study = read_study(file)
    check(Snapshot(plan(study), store))
    path = study_path(store.root, study)
    if is_alive(path / WORK):
        raise StoreError(f"the study '{study.name}' is running; wait for it, or cancel it.")
    with written(store.root):
        (path / WORK).mkdir(parents=True, exist_ok=True)
        if not (path / FILE).exists():
            write_text(path / FILE, study.yaml_text())
        (path / WORK / EVENTS).unlink(missing_ok=True)
        _spawn(path, file, store, workers)
    return study_job(store, path.name)


def study_jobs(store: Store) -> Sequence[StudyJob]:
    """All studies of a store, by name."""
    folders = [path.parent for path in sorted((store.root / FOLDER).glob(f"*/{FILE}"))]
    return [_job(path) for path in folders]


def study_job(store: Store, name: str) -> StudyJob:
    """The study of this name, or name of its folder, as it is now; raises RunNotFound."""
    found = next((job for job in study_jobs(store) if name in (job.name, job.path.name)), None)
    if found is None:
        raise RunNotFound(f"there is no study '{name}' in {store.root}; `study run FILE` makes one.")
    return found


def cancel_study(store: Store, name: str) -> StudyJob:
    """The study after its end, within a few seconds; raises StoreError where it does not run."""
    job = study_job(store, name)
    if job.state != RUNNING:
        raise StoreError(f"the study '{job.name}' is {job.state}: only a running one can be cancelled.")
    LOCAL.cancel(job.path)
    with contextlib.suppress(OSError):
        if not is_alive(job.path / WORK):
            (job.path / WORK / PROCESS).unlink(missing_ok=True)
    return study_job(store, job.path.name)


def resume_study(store: Store, name: str) -> StudyJob:
    """The study, begun again: it goes on with what is not finished, by as many processes as before.

    Raises StoreError where it runs or is finished.
    """
    job = study_job(store, name)
    if job.state == FINISHED:
        raise StoreError(f"the study '{job.name}' is finished: only a failed or stopped one can be resumed.")
    usual = workers_for(read_study(job.path / FILE), cores())
    return start_study(job.path / FILE, store, job.record.workers if job.record is not None else usual)


def study_log(store: Store, name: str, lines: int = 50) -> str:
    """The last lines of what a study said."""
    text = _tail(study_job(store, name).path / WORK / LOG)
    return "\n".join(text.splitlines()[-lines:])


def _spawn(path: Path, file: Path, store: Store, workers: int) -> None:
    """Starts `study run` as a session of its own, and names its process at once."""
    _CHILDREN[:] = [child for child in _CHILDREN if child.poll() is None]
    words = [sys.executable, "-m", "skillviz", "study", "run", str(file), "--runs-dir", str(store.root.absolute())]
    with (path / WORK / LOG).open("ab") as log:
        child = subprocess.Popen(
            [*words, "--workers", str(workers)], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env=environment(), start_new_session=True,
        )  # fmt: skip
    _CHILDREN.append(child)
    with contextlib.suppress(psutil.Error):
        own = {"pid": child.pid, "started": psutil.Process(child.pid).create_time(), "host": os.uname().nodename}
        write_text(path / WORK / PROCESS, json.dumps(own))


def _job(path: Path) -> StudyJob:
    _CHILDREN[:] = [child for child in _CHILDREN if child.poll() is None]
    found = open_study(path)
    record = found.record if found is not None else None
    name = record.name if record is not None else _name(path)
    if not is_alive(path / WORK):
        ended = {None: FAILED, "finished": FINISHED, "failed": FAILED}
        state = ended.get(record.status if record is not None else None, STOPPED)
        log = path / WORK / LOG
        if record is None and (not log.exists() or _tail(log).rstrip().endswith(INTERRUPTED)):
            state = STOPPED  # a file that was written and never run, or ended by somebody before it began
        return StudyJob(name, path, state, record)
    last = _last(path / WORK / EVENTS)
    if last is None:
        return StudyJob(name, path, RUNNING, record)
    left = last.get("left")
    if isinstance(left, int | float):
        left = max(0.0, round(left - (time.time() - last["time"]), 1))
    return StudyJob(name, path, RUNNING, record, last["step"], last["of"], last["title"], left)


def _name(path: Path) -> str:
    try:
        study: StudySpec = read_study(path / FILE)
    except SkillvizError:
        return path.name
    return study.name


def _last(path: Path) -> dict[str, Any] | None:
    """The latest event; a half-written line does not count."""
    for line in reversed(_tail(path).splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "step" in found:
                return found
    return None


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read().decode("utf-8", errors="replace")


__all__ = [
    "FAILED", "FINISHED", "RUNNING", "STOPPED", "StudyJob", "cancel_study", "resume_study", "start_study",
    "study_job", "study_jobs", "study_log",
]  # fmt: skip
