"""Run a study: do each step that is not finished and current, in this process or in several workers.

Finished steps are kept in any case: an interrupted study resumes where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skillviz.errors import DiskFull
from skillviz.runs.artifact import CURRENT, Change, Stored, Workshop
from skillviz.runs.progress import Report, silent
from skillviz.runs.record import Failure
from skillviz.runs.store import Store
from skillviz.studies.check import check
from skillviz.studies.command import rerunnable
from skillviz.studies.cores import cores
from skillviz.studies.execute import FAILED, FINISHED, SKIPPED, Reply, attempt, ensure
from skillviz.studies.journal import Journal
from skillviz.studies.make_tables import make_tables
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot
from skillviz.studies.step import TABLE, StudyStep
from skillviz.studies.store import write_tables
from skillviz.studies.time_left import measured
from skillviz.studies.workers import Pool, Setup, Worker
from skillviz.tasks.project import FINETUNED_VARIABLE, finetuned_root

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
            course.in_turn(Workshop(store, _session(session), command, progress or silent))
        except BaseException as error:
            journal.finish("cancelled" if isinstance(error, KeyboardInterrupt) else FAILED)
            raise
        unfinished = FAILED if course.outcome.failed else "cancelled"
        status = "finished" if course.outcome.is_whole else unfinished
        journal.finish(status, device=Snapshot(at.plan, store).devices())
    course.outcome.seconds = journal.record.seconds
    return course.outcome


def _session(session: Session | None) -> Session:
    from skillviz.runs.session import Session  # imports torch

    return session or Session()


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
