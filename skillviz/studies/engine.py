"""Run a study: do each step that is not finished and current, in this process or in several workers.

Finished steps are kept in any case: an interrupted study resumes where it stopped.

A worker process has its own session, and ends when its parent process ends.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from skillviz.errors import DiskFull
from skillviz.runs.artifact import CURRENT, Change, Stored, Workshop
from skillviz.runs.process import Report, gently, silent
from skillviz.runs.record import Failure
from skillviz.runs.store import Store
from skillviz.studies.check import check
from skillviz.studies.journal import Journal
from skillviz.studies.make_tables import make_tables
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot, cores
from skillviz.studies.step import FAILED, FINISHED, SKIPPED, TABLE, Reply, StudyStep, attempt, ensure
from skillviz.studies.store import write_tables
from skillviz.studies.time_left import measured
from skillviz.tasks.project import FINETUNED_VARIABLE, anchored, finetuned_root, project_root

if TYPE_CHECKING:
    from skillviz.runs.session import Session


STARTED, NOT_REACHED = "started", "not reached"

# step number (from 1), number of steps, the step, and "skipped", "started", "finished", "failed" or "not reached"
OnStep = Callable[[int, int, StudyStep, str], None]


@dataclass
class Outcome:
    """The result of a study: its steps by outcome, the failed ones with their reason, and its folder.

    `again` holds the steps that were made again, each with the change of its sources; `unchecked` the skipped steps
    that could not be compared with their sources, each with the reason.
    """

    path: Path
    finished: list[StudyStep] = field(default_factory=list)
    skipped: list[StudyStep] = field(default_factory=list)
    failed: list[tuple[StudyStep, Failure]] = field(default_factory=list)
    not_reached: list[StudyStep] = field(default_factory=list)
    again: list[tuple[StudyStep, str]] = field(default_factory=list)
    unchecked: list[tuple[StudyStep, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """True if every step is finished."""
        return not self.failed and not self.not_reached


def run_study(
    study: StudySpec,
    store: Store,
    *,
    workers: int = 1,
    progress: Report | None = None,
    on_step: OnStep | None = None,
    command: str | None = None,
    session: Session | None = None,
    partial: bool = False,
    failures: Mapping[str, Failure] | None = None,
    budget: float | None = None,
) -> Outcome:
    """Run the steps that are not finished and current in the store; a study that is started again resumes.

    Steps in `failures`, by their keys, are not tried. With a `budget` no step starts once the steps made here took that
    many seconds, summed over the workers.

    If a step fails, only the steps that need it are dropped (with `partial`, the tables are made from the finished
    steps); a full disk and Ctrl-C end the study. Raises BadInput if another process runs the study, and the first
    problem that `check` finds, before anything is computed.
    """
    at = Snapshot(study_plan(study), store)
    check(at)
    command = rerunnable(study.request.command() if study.request else command, study.name)
    journal = Journal(at, workers, command)
    with journal.open():
        course = _Course(at, journal, on_step or (lambda *_: None), partial, failures or {}, budget)
        try:
            if workers > 1 and sum(not at.is_there(step) for step in at.plan.steps) > 2:
                _side_by_side(course, workers, command)
            if session is None:
                from skillviz.runs.session import Session  # imports torch

                session = Session()
            course.in_turn(Workshop(store, session, command, progress or silent))
        except BaseException as error:
            journal.finish("cancelled" if isinstance(error, KeyboardInterrupt) else FAILED)
            raise
        unfinished = FAILED if course.outcome.failed else "cancelled"
        status = "finished" if course.outcome.is_whole else unfinished
        journal.finish(status, device=Snapshot(at.plan, store).devices())
    course.outcome.seconds = journal.record.seconds
    return course.outcome


@dataclass
class _Course:
    """The progress of a study: waiting steps, finished steps, and steps lost because one that they need failed."""

    at: Snapshot
    journal: Journal
    on_step: OnStep
    partial: bool = False
    failures: Mapping[str, Failure] = field(default_factory=dict)
    budget: float | None = None
    spent: float = 0.0
    """The seconds that the steps made here took."""
    done: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    waiting: list[StudyStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan: StudyPlan = self.at.plan
        self.pace = measured(self.at)
        self.stored: Mapping[str, Stored] = self.at.stored()
        self.waiting = list(self.plan.steps)
        self.outcome = Outcome(self.journal.path)
        self.numbers = {step.key: number for number, step in enumerate(self.plan.steps, start=1)}

    def in_turn(self, workshop: Workshop) -> None:
        """Run all waiting steps, one after the other."""
        while self.waiting:
            step = self.waiting[0]
            if self.is_lost(step):
                self.drop(step)
                continue
            self.start(step)
            if (known := self.failures.get(step.key)) is not None:
                self.end(step, Reply(FAILED, failure=known))
                continue
            make = partial(ensure, step, self.stored.get(step.key), workshop)
            self.end(step, attempt(partial(self._tables, workshop) if step.kind == TABLE else make, workshop))

    def _tables(self, workshop: Workshop) -> tuple[str, Change]:
        """Make the tables, unless they are current for the results in the store."""
        now = Snapshot(self.plan, self.at.store)
        if now.has_tables:
            return SKIPPED, CURRENT
        made = make_tables(self.plan.study, Results(self.plan, self.at.store, workshop.session))
        self.journal.tables(write_tables(self.journal.path, made), now.digest())
        return FINISHED, CURRENT

    def ready(self) -> list[StudyStep]:
        """Return the steps, other than the tables, that can start now; drop the lost ones."""
        for step in [step for step in self.waiting if self.is_lost(step) and step.kind != TABLE]:
            self.drop(step)
        return [s for s in self.waiting if s.kind != TABLE and all(need in self.done for need in s.needs)]

    def is_lost(self, step: StudyStep) -> bool:
        """True if a step that it needs has failed, or if the budget is spent."""
        if self.budget is not None and self.spent >= self.budget and step.kind != TABLE and not self.at.is_there(step):
            return True
        return not self.lost.isdisjoint(step.needs) and not (step.kind == TABLE and self.partial and self.done)

    def drop(self, step: StudyStep) -> None:
        """Note that the step cannot be reached."""
        self.waiting.remove(step)
        self.lost.add(step.key)
        self.outcome.not_reached.append(step)
        self.journal.note(step, NOT_REACHED)
        self.tell(step, NOT_REACHED)

    def start(self, step: StudyStep) -> None:
        """Note that the step has started."""
        self.waiting.remove(step)
        if not self.at.is_there(step):
            self.journal.note(step, "running")
        self.tell(step, STARTED)

    def end(self, step: StudyStep, reply: Reply) -> None:
        """Record the result of a step; raises DiskFull if a full disk stopped it."""
        if reply.trace:
            self.journal.log(reply.trace)
        if reply.is_disk_full:
            assert reply.failure is not None
            raise DiskFull(reply.failure.message)
        if reply.failure is not None:
            self.lost.add(step.key)
            self.outcome.failed.append((step, reply.failure))
            self.journal.note(step, FAILED, reply.seconds, reply.failure)
        else:
            self.done.add(step.key)
            (self.outcome.finished if reply.what == FINISHED else self.outcome.skipped).append(step)
            self.journal.note(step, "finished", reply.seconds if reply.what == FINISHED else None)
        if reply.change.why and reply.what == FINISHED:
            self.outcome.again.append((step, reply.change.why))
            self.journal.log(f"{step.title} was made again: {reply.change.why}")
        if reply.change.why and reply.what == SKIPPED:
            self.outcome.unchecked.append((step, reply.change.why))
            self.journal.log(f"{step.title} was kept, but not compared with its sources: {reply.change.why}")
        self.spent += reply.seconds
        if reply.what == FINISHED:
            self.pace.add(step, reply.seconds)
        self.tell(step, reply.what, reply.failure)

    def tell(self, step: StudyStep, what: str, failure: Failure | None = None) -> None:
        """Report a step to the journal and to the `on_step` callback."""
        more = {} if failure is None else {"error": f"{failure.kind}: {failure.message}"}
        self.journal.step(self.numbers[step.key], step, what, self.left(), **more)
        self.on_step(self.numbers[step.key], len(self.plan.steps), step, what)

    def left(self) -> float | None:
        """The seconds until the study is finished, at the pace of the finished steps; None if it is not measured."""
        gone = self.done | self.lost
        missing = [s for s in self.plan.steps if s.key not in gone and not self.at.is_there(s)]
        left = self.pace.left(missing, self.journal.record.workers)
        return None if left is None else round(left, 1)


def _side_by_side(course: _Course, count: int, command: str | None) -> None:
    """Run all steps but the tables in several processes; steps of one pair share a process if that costs no time."""
    threads = max(1, cores() // count)
    environment = {FINETUNED_VARIABLE: str(finetuned_root())}
    setup = Setup(course.plan.study.model_dump(), str(course.at.store.root), threads, command, environment)
    pool = Pool(setup, count)
    try:
        while True:
            ready = course.ready()
            while ready and (idle := pool.idle()):
                chosen = _chosen(ready, idle, pool.workers)
                if chosen is None:
                    break
                worker, step = chosen
                ready.remove(step)
                course.start(step)
                pool.give(worker, step, course.stored.get(step.key))
            if not any(worker.step for worker in pool.workers):
                break
            for step, reply in pool.replies():
                course.end(step, reply)
    finally:
        pool.stop()


def _chosen(ready: list[StudyStep], idle: list[Worker], workers: list[Worker]) -> tuple[Worker, StudyStep] | None:
    """Return the next worker and its step: a step of the worker's loaded pair, else of a pair that no worker has
    loaded, else of a pair that has two or more waiting steps or no busy worker."""
    for worker in idle:
        same = next((step for step in ready if step.pair is not None and step.pair == worker.pair), None)
        if same is not None:
            return worker, same
    loaded = {worker.pair for worker in workers}
    free = next((step for step in ready if step.pair is None or step.pair not in loaded), None)
    if free is not None:
        return idle[0], free
    busy = {worker.pair for worker in workers if worker.step is not None}
    waiting = [step.pair for step in ready]
    other = next((step for step in ready if waiting.count(step.pair) > 1 or step.pair not in busy), None)
    return None if other is None else (idle[0], other)


PATIENCE = 5.0  # seconds that a worker has to write a checkpoint
NO_PROCESS = Failure(
    kind="killed",
    message="The process of this step has stopped.",
    hint="It was killed or ran out of memory; start the study again with fewer workers.",
)


class Setup(NamedTuple):
    """The settings of a worker process."""

    study: dict[str, Any]
    root: str
    threads: int
    command: str | None
    environment: dict[str, str]


@dataclass
class Worker:
    """A worker process, its current step, and the pair whose models it has loaded."""

    process: Any
    connection: Connection
    step: StudyStep | None = None
    pair: Any = None


@dataclass
class Pool:
    """Up to `count` workers, started as they are needed."""

    setup: Setup
    count: int
    workers: list[Worker] = field(default_factory=list)

    def idle(self) -> list[Worker]:
        """Return the workers without a step; if there are none, one is started unless `count` are running."""
        idle = [worker for worker in self.workers if worker.step is None]
        return idle or ([self._started()] if len(self.workers) < self.count else [])

    def give(self, worker: Worker, step: StudyStep, stored: Stored | None) -> None:
        """Send a step to the worker."""
        worker.step, worker.pair = step, step.pair or worker.pair
        with contextlib.suppress(OSError):  # if the process is gone, `replies` reports it
            worker.connection.send((step.key, stored))

    def replies(self) -> Iterator[tuple[StudyStep, Reply]]:
        """The steps that ended, at least one; if a worker's process is gone, it is removed and its step has failed."""
        busy = {worker.connection: worker for worker in self.workers if worker.step is not None}
        for ready in wait(list(busy)):
            worker = busy[ready]  # type: ignore[index]
            step, reply = worker.step, Reply(FAILED, failure=NO_PROCESS)
            try:
                reply, worker.step = worker.connection.recv(), None
            except (EOFError, OSError):
                self.workers.remove(worker)
            assert step is not None
            yield step, reply

    def stop(self) -> None:
        """End all workers; those at work write a checkpoint first."""
        for worker in self.workers:
            worker.connection.close()
            if worker.step is not None:
                worker.process.terminate()
        ends = time.monotonic() + PATIENCE
        for worker in self.workers:
            worker.process.join(max(0.0, ends - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self.workers.clear()

    def _started(self) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=main, args=(theirs, self.setup), daemon=True)
        with _no_main():
            process.start()
        theirs.close()
        self.workers.append(Worker(process, ours))
        return self.workers[-1]


@contextlib.contextmanager
def _no_main() -> Iterator[None]:
    """Hide this process's main module: a spawned process would import it again, which is unnecessary and may fail."""
    own, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = own


def main(connection: Connection, setup: Setup) -> None:
    """Run a worker's process: do steps as they arrive, until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which then ends this process
    os.environ.update(setup.environment)
    os.environ["OMP_NUM_THREADS"] = str(setup.threads)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    import torch  # heavy: not before it is needed

    from skillviz.runs.session import Session  # imports torch

    torch.set_num_threads(setup.threads)
    steps = study_plan(StudySpec(**setup.study)).by_key
    workshop = Workshop(Store(setup.root), Session(), setup.command)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            key, stored = connection.recv()
            with gently(silent) as workshop.report:
                reply = attempt(partial(ensure, steps[key], stored, workshop), workshop)
            connection.send(reply)
    gc.freeze()  # the process ends, and another pass of the collector over all of torch's objects takes two seconds


def _die_with_parent() -> None:
    """End this process with SIGTERM when its parent process is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


LOCAL_OPTIONS = {"--runs-dir": 1, "--workers": 1, "--json": 0, "--partial": 0, "--dry-run": 0, "--write-only": 0}
"""Options that do not change the results, each with its number of values."""


def rerunnable(command: str | None, name: str) -> str | None:
    """Return the command without local options if it means the same from any folder; otherwise return the command that
    runs the stored study of this name again."""
    if command is None:
        return None
    try:
        words = _without_local_options(shlex.split(command))
    except ValueError:
        words = []
    if words and not any(_is_elsewhere(part) for word in words for part in _values(word)):
        return shlex.join(map(_plain, words))
    return shlex.join(["python", "-m", "skillviz", "study", "run", name])


def _without_local_options(words: list[str]) -> list[str]:
    kept, skipped = [], 0
    for word in words:
        name, equals, _ = word.partition("=")
        if skipped:
            skipped -= 1
        elif name in LOCAL_OPTIONS:
            skipped = 0 if equals else LOCAL_OPTIONS[name]
        else:
            kept.append(word)
    return kept


def _values(word: str) -> list[str]:
    """Return the parts of a word that may be paths: the word or the value after `--option=`, split at commas."""
    return (word.partition("=")[2] if word.startswith("--") else word).split(",")


def _is_elsewhere(text: str) -> bool:
    """True if the path is outside the project, so that it exists on this machine only."""
    path = Path(text).expanduser()
    if path.is_absolute() or ".." in path.parts:
        return not path.resolve().is_relative_to(project_root().resolve())
    return anchored(text, Path.cwd()) != text


def _plain(word: str) -> str:
    """Return the word with its paths shortened; they may be separated by commas or follow `--option=`."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + ",".join(_short(part) for part in value.split(","))


def _short(text: str) -> str:
    if not text.startswith(("/", "~/")) and ".." not in Path(text).parts:
        return text
    path = Path(text).expanduser().resolve()  # variables are not expanded, because the path is shown
    for root in (project_root().resolve(), Path.cwd()):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return path.name
