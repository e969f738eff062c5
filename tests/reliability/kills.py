"""Check that no run is lost or incomplete: kills, power cuts, full disks, and simultaneous processes."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil

from skillviz import jobs
from skillviz.errors import SkillvizError, StoreError
from skillviz.runs.doctor import mended
from skillviz.runs.folder import RunFolder
from skillviz.runs.store import ANSWERS, Store
from tests.reliability.engine import (
    FakeEngine,
    cut_power_at,
    ended,
    fill_disk_at,
    forbid_writing,
    forked,
    kill_at,
    killed,
    steps_of,
)

FIRST = 8  # steps that are always tried: a run gets its folder in these
ENDED = ("failed", "queued")
"""The valid states of a run whose process was killed; a run that had not begun still waits for its process."""


def losses(store: Store) -> list[str]:
    """Return the losses in a store: runs that cannot be read, are not listed, or do not match their record."""
    folders = {path.name for path in store.folders()}
    unfinished, finished = store.unfinished(), store.list()
    listed = {entry.id for entry in (*unfinished, *finished)}
    lost = [f"{broken.path.name} cannot be read: {broken.reason}" for broken in store.unreadable()]
    lost += [f"{name} is not listed" for name in folders - listed]
    lost += [f"{run.id} is finished, but {problem}" for run in finished for problem in store.verify(run.id)]
    return lost


def leftovers(store: Store) -> list[str]:
    """Return hidden files below the store that belong to no process, after `runs doctor`."""
    mended(store)
    kept = (".slots", ".locks", ".notes", ANSWERS)
    return [str(p.relative_to(store.root)) for p in store.root.rglob(".*") if p.name not in kept]


def resumed(engine: FakeEngine, store: Store) -> str:
    """Resume every unfinished run, and return a loss unless all are finished and equal to an uninterrupted one."""
    if code := ended(forked(lambda: engine.finish_all(store))):
        return f"a run cannot be resumed (exit code {code}): {[entry.record.error for entry in store.unfinished()]}"
    if lost := losses(store):
        return lost[0]
    if unfinished := store.unfinished():
        return f"{unfinished[0].id} is {unfinished[0].record.status} after it was resumed"
    if wrong := [f"{run.id}: {difference}" for run in store.list() if (difference := engine.difference(run))]:
        return f"not as an uninterrupted run: {wrong[0]}"
    left = leftovers(store)
    return f"left behind: {left[0]}" if left else ""


def random_kills(number: int, work: Path) -> Iterator[str]:
    """The losses after a kill -9 at a random moment of a run; a third of them are killed again during the resume."""
    engine, draw = FakeEngine(work), np.random.default_rng(17)
    begun = time.monotonic()
    ended(forked(lambda: engine.produce(Store(work / "timed"))))
    whole = time.monotonic() - begun
    tried = 0
    for round_ in count():
        store = Store(work / f"round-{round_}")
        for _ in range(20):
            actions: list[Callable[[Store], None]] = [engine.produce]
            actions += [engine.finish_all] * (draw.random() < 1 / 3)
            for action in actions:
                child = forked(lambda action=action, store=store: action(store))
                time.sleep(draw.uniform(0, 1.05 * whole))
                killed(child)
                tried += 1
                lost = losses(store) or _wrong_states(store)
                yield lost[0] if lost else resumed(engine, store) if action is actions[-1] else ""
                if tried >= number:
                    return
        shutil.rmtree(store.root)


def at_steps(number: int, work: Path, fault: Callable[[Path, int], None], with_resume: bool = False) -> Iterator[str]:
    """The losses of the fault at evenly spread steps of a run; with `with_resume` also of resuming a killed run."""
    engine = FakeEngine(work)
    bodies: list[Callable[[Store], None]] = [engine.produce, *([engine.finish_all] if with_resume else [])]
    each = max(1, number // len(bodies))
    for body in bodies:
        counted = Store(work / f"counted-{body.__name__}")
        if body == engine.finish_all:
            _cut(engine, counted)
        steps = steps_of(lambda body=body, counted=counted: body(counted), counted.root)
        for step in np.unique(
            np.concatenate([np.arange(1, FIRST + 1), np.linspace(1, steps, min(each, steps)).astype(int)])
        ):
            store = Store(work / f"{body.__name__}-{step}")
            if body == engine.finish_all:
                _cut(engine, store)

            def broken(body: Callable[[Store], None] = body, store: Store = store, step: int = int(step)) -> None:
                fault(store.root, step)
                body(store)

            ended(forked(broken))
            lost = losses(store) or _wrong_states(store)
            yield lost[0] if lost else resumed(engine, store)
            shutil.rmtree(store.root, ignore_errors=True)


kills_at_every_step = partial(at_steps, fault=kill_at, with_resume=True)
power_cuts = partial(at_steps, fault=cut_power_at)
"""Every unsynced file loses half of its bytes."""
full_disks = partial(at_steps, fault=fill_disk_at)
"""There is space again for the resume."""


def _cut(engine: FakeEngine, store: Store) -> None:
    """Make a run that was killed in the middle of its search."""
    ended(forked(lambda: engine.produce(store, killed_after=engine.steps // 2)))


def _wrong_states(store: Store) -> list[str]:
    states = [(entry.id, entry.record.status) for entry in store.unfinished()]
    return [f"{name} is listed as {status} though nobody works on it" for name, status in states if status not in ENDED]


def read_only(number: int, work: Path) -> Iterator[str]:
    """The losses in a store that cannot be written: everything can be read, and writes are refused in a sentence."""
    engine, store = FakeEngine(work), Store(work / "runs")
    ended(forked(lambda: engine.produce(store)))
    _cut(engine, store)
    reads: list[Callable[[], object]] = [
        store.list, store.unfinished, lambda: store.list()[0].predictions(), lambda: store.list()[0].region(),
        lambda: store.verify(store.list()[0].id), lambda: jobs.list(store), lambda: jobs.list(store, finished=True),
    ]  # fmt: skip
    name = store.unfinished()[0].id
    writes: list[Callable[[], object]] = [
        lambda: store.create(engine.template.spec), lambda: store.delete(name), lambda: store.set_note(name, "a note"),
        lambda: jobs.resume(store, name),
    ]  # fmt: skip
    for index, action in enumerate((reads + writes)[:number]):
        is_read = index < len(reads)

        def tried(action: Callable[[], object] = action, is_read: bool = is_read) -> None:
            forbid_writing(store.root)
            try:
                action()
            except StoreError as error:
                if is_read or "\n" in str(error):
                    raise
                return
            if not is_read:
                raise AssertionError("it was not refused")

        yield f"{'reading' if is_read else 'writing'} {index} did not go as promised" if ended(forked(tried)) else ""


class ForkedEngine:
    """A backend of jobs whose processes are forked and make a run with the fake engine.

    Each process notes its run in `shared`; two at once on one run are a loss.
    """

    def __init__(self, engine: FakeEngine, shared: Path) -> None:
        self.engine, self.shared, self.children = engine, shared, list[int]()
        shared.mkdir(parents=True, exist_ok=True)

    def start(self, folder: Path, words: Sequence[str], cwd: Path) -> None:
        """Fork a child that makes the run."""
        self.children.append(forked(lambda: self.work(folder)))

    def work(self, folder: Path) -> None:
        """Make the run of a queued folder in this process."""
        note = self.shared / folder.name
        with suppress(FileExistsError):
            os.close(os.open(note, os.O_CREAT | os.O_EXCL))
            try:
                self.engine.carry_on(RunFolder(folder))
            finally:
                note.unlink()
            return
        (self.shared / f"{folder.name}.twice").touch()

    def cancel(self, folder: Path) -> None:
        """Do nothing: no job is cancelled here."""

    def refuse(self) -> None:
        """Do nothing: this backend can always be used."""


def _together(body: Callable[[], object]) -> list[int]:
    """Fork four children that run `body` at the same moment: each waits until all four are ready."""
    barrier = get_context("fork").Barrier(4)

    def gathered() -> None:
        barrier.wait()
        body()

    return [forked(gathered) for _ in range(4)]


def at_once(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of four processes on one store: equal runs started at once, or one killed run resumed by all."""
    engine = FakeEngine(work)
    for index in range(number):
        store, shared = Store(work / f"runs-{index}"), work / f"shared-{index}"
        backend = ForkedEngine(engine, shared)
        if index % 2:
            for child in _together(lambda store=store: engine.produce(store)):
                ended(child)
            others = [f"{len(store.list())} of 4 equal runs are finished"] * (len(store.list()) != 4)
            lost = losses(store) or others
            yield lost[0] if lost else resumed(engine, store)
            continue
        _cut(engine, store)
        (entry,) = store.unfinished()

        def resume(store: Store = store, name: str = entry.id, backend: ForkedEngine = backend) -> None:
            with suppress(SkillvizError):  # all but one are refused, because the run is running
                jobs.resume(store, name, backend)
            for child in backend.children:
                ended(child)

        codes = [ended(child) for child in _together(resume)]
        twice = [path.stem for path in shared.glob("*.twice")]
        if any(codes):
            yield f"of four that resume a run at once, {sum(map(bool, codes))} ended with an error"
        else:
            yield f"{twice[0]} was made by two processes at once" if twice else resumed(engine, store)


def clock_steps(number: int, work: Path) -> Iterator[str]:
    """The losses if the clock is set during a run: it must count as running and not be resumed until it is killed."""
    engine, draw = FakeEngine(work, steps=2000), np.random.default_rng(5)
    for index in range(number):
        store = Store(work / f"runs-{index}")
        child = forked(lambda store=store: engine.produce(store))
        while not [entry for entry in store.unfinished() if entry.record.status == "running"]:
            time.sleep(0.01)
        (entry,) = store.unfinished()
        seconds, lost = float(draw.choice([-1, 1]) * 10 ** draw.uniform(1, 8)), ""
        with clock_set(seconds):
            if (status := store.unfinished()[0].record.status) != "running":
                lost = f"after a step of {seconds:.0f} s a living run is listed as {status}"
            with suppress(StoreError):
                with suppress(OSError):  # its own process writes there meanwhile
                    RunFolder(entry.path).reopen()
                lost = f"after a step of {seconds:.0f} s a living run is resumed by a second process"
            killed(child)
            if not lost and (status := store.unfinished()[0].record.status) != "failed":
                lost = f"after a step of {seconds:.0f} s a killed run is listed as {status}"
        yield lost or (losses(store) or [""])[0]
        shutil.rmtree(store.root)


@contextmanager
def clock_set(seconds: float) -> Iterator[None]:
    """Shift this process's clock by some seconds; start times of processes by that clock shift too."""
    now, created = time.time, psutil.Process.create_time
    time.time = lambda: now() + seconds
    psutil.Process.create_time = lambda self: created(self) + seconds
    try:
        yield
    finally:
        time.time, psutil.Process.create_time = now, created
