"""An engine that makes runs in milliseconds and writes like the real one, and the processes in which it runs."""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skillviz.core.region import Region
from skillviz.models.state_file import Pause
from skillviz.runs.checkpoint import CHECKPOINT, Checkpoints
from skillviz.runs.folder import RunFolder
from skillviz.runs.record_failure import record_failure
from skillviz.runs.run import Run
from skillviz.runs.search import Searched
from skillviz.runs.store import Store
from tests.fake_run import fake_run

STEPS = 8
SMALL: dict[str, Any] = {"n": {"validation": 20, "test": 30}, "layers": 1, "width": 8, "steps": 4, "sizes": ("5%",)}
"""Settings of a run of a few kilobytes, for `fake_run`."""
TABLES = ("predictions", "curve", "history", "layers")


class FakeEngine:
    """Make runs like `runs.produce`: the same files in the same order by the same functions.

    The search is a generator of random numbers, so that a state that is not restored exactly gives another region.
    """

    def __init__(self, work: Path, steps: int = STEPS) -> None:
        self.template: Run = fake_run(Store(work / "template"), **SMALL)
        self.tables = {name: getattr(self.template, name)() for name in TABLES}
        self.shapes, self.steps = self.template.region().shapes, steps
        record = self.template.record
        kept = ("task", "size", "share", "sizes", "metrics", "temperature", "seeds", "readout", "device", "checks")
        self.fields: dict[str, Any] = {name: getattr(record, name) for name in (*kept, "architecture", "base")}

    def produce(self, store: Store, killed_after: int | None = None) -> None:
        """Make a new run; with `killed_after`, this process is killed after that number of steps of its search."""
        self.carry_on(store.create(self.template.spec, size=self.template.record.size), killed_after)

    def carry_on(self, folder: RunFolder, killed_after: int | None = None) -> None:
        """Make a queued run, from its checkpoint if it has one."""
        with record_failure(folder):
            folder.start()
            self._make(folder, killed_after)

    def finish_all(self, store: Store) -> None:
        """Resume every unfinished run of a store."""
        for folder in reopened(store):
            self.carry_on(folder)

    def _make(self, folder: RunFolder, killed_after: int | None) -> None:
        checkpoints = Checkpoints(
            folder.work / CHECKPOINT, {"spec": folder.record.key}, {"device": "cpu"}, pause=Pause(seconds=0.0)
        )
        kept = checkpoints.restored()
        step, state = 0, torch.arange(self.template.record.d or 0, dtype=torch.int64)
        if kept is not None and kept.state is not None:
            step, state = int(kept.state["step"]), kept.state["values"]
        searched = Searched()
        while step < self.steps:
            if step == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
            checkpoints.pause.seconds = 0.0  # the real engine limits the time spent on checkpoints
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 31)
            step += 1
            with checkpoints.saving(searched, {"step": torch.tensor(step), "values": state}):
                folder.event(phase="search", step=step, total=self.steps, search=1, target=self.template.record.size)
        order = torch.argsort(state, stable=True).numpy()
        searched.orders[self.template.record.size or 0] = order
        with checkpoints.saving(searched):
            folder.write_region(
                Region.from_flat(order[: self.template.record.size], self.shapes), {"localizer": "stagewise"}
            )
            folder.write_ranking(order, len(order))
            for name, frame in self.tables.items():
                folder.write_table(name, frame)
            folder.log("storing the run")
            folder.finish(**self.fields, seconds={"search": 0.1})

    def order(self) -> np.ndarray:
        """Return the order of an uninterrupted search, best first."""
        state = np.arange(self.template.record.d or 0, dtype=np.int64)
        for _ in range(self.steps):
            with np.errstate(over="ignore"):
                state = (state * np.int64(6364136223846793005) + np.int64(1442695040888963407)) % (1 << 31)
        return np.argsort(state, kind="stable")

    def difference(self, run: Run) -> str:
        """Return the difference between a finished run and an uninterrupted one; "" if there is none."""
        files, own = self.template.record.files, run.record.files
        if missing := sorted(files.keys() ^ own.keys()):
            return f"{missing[0]} is missing or too many"
        tables = [f"{name}.parquet" for name in TABLES]
        if other := [name for name in tables if files[name].sha256 != own[name].sha256]:
            return f"{other[0]} is another"
        order = self.order()
        region = Region.from_flat(order[: self.template.record.size], self.shapes)
        return "" if (np.array_equal(run.ranking(), order) and run.region() == region) else "the region is another"


def reopened(store: Store) -> Iterator[RunFolder]:
    """Yield every unfinished run, queued again."""
    for entry in store.unfinished():
        folder = RunFolder(entry.path)
        folder.reopen()
        yield folder


def forked(body: Callable[[], object]) -> int:
    """Fork a child process that runs `body` and ends, with code 0 if nothing was raised; return its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with open(os.devnull, "w", encoding="utf-8") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        body()
        code = 0
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """Return a child's exit code; below 0 it is the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed(pid: int) -> int:
    """Kill a child with kill -9 if it is still running, and return its exit code."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return ended(pid)


class Steps:
    """Count this process's changes to files below a folder, and call `act` before each of them.

    Every file that Python opens for writing, renames, removes or makes is a step, in any module.
    """

    WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
    CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")

    def __init__(self, root: Path, act: Callable[[int, str, Path, bool], None]) -> None:
        self.root, self.act, self.count = f"{root}{os.sep}", act, 0
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            counts = isinstance(path, (str, os.PathLike)) and bool((flags or 0) & self.WRITES)
        elif event in self.CHANGES:
            path, counts = arguments[0], True
        else:
            return
        if counts and str(path).startswith(self.root) and not str(path).endswith(".lock"):
            self.count += 1
            self.act(self.count, event, Path(path), event == "open" and bool((arguments[2] or 0) & os.O_TRUNC))


def steps_of(body: Callable[[], object], root: Path) -> int:
    """Return the number of steps of a body, counted in a child."""
    note = root.with_name(f"{root.name}.steps")

    def counted() -> None:
        steps = Steps(root, lambda *_: None)
        body()
        note.write_text(str(steps.count))

    if ended(forked(counted)):
        raise RuntimeError("the run that is to be broken does not end well by itself")
    return int(note.read_text())


def kill_at(root: Path, number: int) -> None:
    """Kill this process at its `number`-th step; a file that it opens for overwriting is empty by then."""

    def act(count: int, event: str, path: Path, is_emptied: bool) -> None:
        if count == number:
            if is_emptied and path.is_file():
                os.truncate(path, 0)
            os.kill(os.getpid(), signal.SIGKILL)

    Steps(root, act)


def cut_power_at(root: Path, number: int) -> None:
    """Simulate a power failure before the `number`-th step: unsynced files lose the second half of their bytes."""
    synced: set[int] = set()
    sync = os.fsync

    def noted(handle: int) -> None:
        sync(handle)
        synced.add(os.fstat(handle).st_ino)

    os.fsync = noted

    def act(count: int, *_: object) -> None:
        if count == number:
            for path in root.rglob("*"):
                if path.is_file() and (state := path.stat()).st_ino not in synced:
                    os.truncate(path, state.st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    Steps(root, act)


def fill_disk_at(root: Path, number: int) -> None:
    """Simulate a full disk from the `number`-th step on; removing and renaming still work.

    If the number is even, only this step fails, as if space were freed at once.
    """

    def act(count: int, event: str, *_: object) -> None:
        if event in ("open", "os.mkdir") and (count == number or (count > number and number % 2)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Steps(root, act)


def forbid_writing(root: Path) -> None:
    """Make every change below the folder fail in this process."""

    def act(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    Steps(root, act)
