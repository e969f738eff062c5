"""`work` and `work-study`: the processes of jobs, started by `--detach`, `--cluster` and pages, not by users."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer

from skillviz.errors import TIME_LIMIT
from skillviz.jobs.slots import device_for_run, slot_in
from skillviz.live.client import serve
from skillviz.runs import slurm_queue
from skillviz.runs.folder import CHECKPOINT, RunFolder
from skillviz.runs.process import Progress, Suspended, gently, silent
from skillviz.runs.record_failure import record_failure
from skillviz.runs.store import Store, ended_by_cluster
from skillviz.serving import quota


def work(run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A queued run folder.")]) -> None:
    """Make the run of a queued folder, as soon as its device is free.

    Ctrl-C and SIGTERM leave a checkpoint to continue from. Ends with exit code 0 if another process closed the run. On
    a cluster, the signal before the time limit leaves one too, and the job goes back into the queue.
    """
    folder = RunFolder(run)
    before = _stamp(folder.work / CHECKPOINT)
    if not folder.is_open:
        folder.log(f"nothing to do: {folder.record.status}")
        return

    def on_wait(before: int) -> None:
        """Stops the job on request while it waits."""
        report(Progress("queue", text=f"{before} before it"))

    @contextmanager
    def turn() -> Iterator[None]:
        """Waits for the run's turn on its device; on a cluster, the job already has its turn."""
        if slurm_queue.own_job() is not None:
            yield
            return
        with device_for_run(run.parent, slot_in(run, folder.record.spec.device), folder.id, on_wait):
            yield

    try:
        with gently(silent, lambda: folder.is_to_stop) as report, record_failure(folder):
            if not folder.belongs_to_this_process():
                folder.log("another process is working on it")
                return
            if folder.is_to_stop:  # cancelled before this process noted its id
                raise KeyboardInterrupt
            with turn():
                quota.refuse(run.parent)  # earlier jobs may have filled the store since this one was started
                from skillviz.runs.produce import carry_on  # imports torch: only once the device is free

                carry_on(folder, report)
    except Suspended as interrupt:
        if interrupt.time_is_up:
            if _stamp(folder.work / CHECKPOINT) not in (None, before):
                slurm_queue.requeue()
            else:  # the next attempt would get no further
                folder.fail(ended_by_cluster(TIME_LIMIT))
        raise
    finally:
        gc.freeze()  # at exit, a last garbage collection over torch's objects would take two seconds


def _stamp(file: Path) -> tuple[int, int] | None:
    """A value that changes when a file is written again, even if the clock is set back; None without the file."""
    with suppress(OSError):
        state = file.stat()
        return state.st_ino, state.st_mtime_ns
    return None


def work_study(
    study: Annotated[Path, typer.Argument(metavar="STUDY_DIR", help="The folder of a study on a cluster.")],
    first: Annotated[int, typer.Argument(metavar="FIRST", help="The step that the array's task 0 does.")] = 0,
    level: Annotated[int | None, typer.Option("--level", help="The level whose step this process does.")] = None,
) -> None:
    """Do one step of a study on a cluster: the step of this array task; without --level make the study's tables."""
    from skillviz.studies import array  # imports the code for tables, which `work` does not need

    store, begun = Store(study.parents[1]), time.time()
    number = first + int(os.environ.get("SLURM_ARRAY_TASK_ID", 0))
    try:
        with gently(silent, lambda: array.is_cancelled(study)) as report:
            if level is None:
                array.finish(study, store, report)
            else:
                array.do_step(study, store, level, number, report)
    except Suspended as interrupt:
        if interrupt.time_is_up and level is not None:
            if array.has_checkpoint_since(study, store, level, number, begun):
                slurm_queue.requeue()
            else:  # the next attempt would get no further
                array.fail_step(study, level, number, ended_by_cluster(TIME_LIMIT))
        raise
    finally:
        gc.freeze()  # at exit, a last garbage collection over torch's objects would take two seconds


def worker(
    connection: Annotated[int, typer.Option("--connection", help="The file descriptor of the pipe to the dashboard.")],
    store: Annotated[Path, typer.Option("--store", help="The folder of runs.")],
    idle: Annotated[float, typer.Option("--idle", min=0.1, help="Seconds without a request until it stops.")],
) -> None:
    """Answer the live pages' questions about models until no more come."""
    pipe, state = Connection(connection), None

    def answer(operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal state
        # imports torch: with the first request only, so that a worker that cannot start is noticed at once
        from torch.nn.modules.module import register_module_forward_pre_hook
        from transformers import PreTrainedModel

        from skillviz.live import operations, request  # imports torch

        def stop_if_cancelled(module: Any, _: Any) -> None:
            """Stop between two forward passes, where every graft is undone by the blocks that the error leaves."""
            if isinstance(module, PreTrainedModel) and pipe.poll():
                raise KeyboardInterrupt

        if state is None:
            state = request.Worker(store)
            register_module_forward_pre_hook(stop_if_cancelled)
        return operations.answer(state, operation, arguments)

    serve(pipe, answer, idle)
