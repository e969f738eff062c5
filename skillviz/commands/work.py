"""`work`: the process of a job. Not for people: `localize --detach` and the page `launch` start it."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Annotated

import typer

from skillviz.jobs.slots import device_for_run, slot_in
from skillviz.runs import quota
from skillviz.runs.folder import RunFolder
from skillviz.runs.process import gently, is_alive
from skillviz.runs.progress import Progress, silent
from skillviz.runs.record_failure import record_failure


def work(run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A queued run folder.")]) -> None:
    """Make the run of a queued folder, as soon as its device is free.

    Ctrl-C and SIGTERM leave a checkpoint to continue from. Ends with exit code 0 where another process closed the run.
    """
    folder = RunFolder(run)
    if not folder.is_open or is_alive(folder.work, besides=os.getpid()):
        folder.log(
            f"nothing to do: {folder.record.status}" if not folder.is_open else "another process is working on it"
        )
        return

    def on_wait(before: int) -> None:
        """Shows that the job lives while it waits, and stops it where that is asked for."""
        folder.beat()
        report(Progress("queue", text=f"{before} before it"))

    try:
        with gently(silent) as report, record_failure(folder):
            folder.belongs_to_this_process()
            if folder.is_to_stop:  # cancelled between the start of this process and its naming itself
                raise KeyboardInterrupt
            slot = slot_in(run, folder.record.spec.device)
            with device_for_run(run.parent, slot, folder.id, on_wait):
                quota.refuse(run.parent)  # jobs before it may have filled the store since it was started
                from skillviz.runs.produce import carry_on  # imports torch: only once the device is free

                carry_on(folder, report)
    finally:
        gc.freeze()  # the process ends: to go through all that torch has made once more takes two seconds
