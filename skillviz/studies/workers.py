"""Run steps of a study in parallel processes; each has its own session, and ends when its parent process ends."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, NamedTuple

from skillviz.runs.artifact import Stored, Workshop
from skillviz.runs.process import gently
from skillviz.runs.progress import silent
from skillviz.runs.record import Failure
from skillviz.runs.store import Store
from skillviz.studies.execute import FAILED, Reply, attempt, ensure
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.step import StudyStep

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
