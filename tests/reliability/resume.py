"""Check that resume is exact: the real engine and fine-tuning, killed or interrupted anywhere."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from math import gcd
from pathlib import Path

import numpy as np
import torch

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.models.device import DETERMINISTIC
from skillviz.models.finetune.training import TrainStep
from skillviz.models.state_file import ENVIRONMENT
from skillviz.runs.process import Progress
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks.registry import task
from tests.models.finetune.trained import CASES, hashes, trained
from tests.reliability.engine import ended, forked, killed, reopened
from tests.reliability.kills import leftovers, losses
from tests.runs.test_checkpoint import asked
from tests.tiny import tiny_pair, tiny_task

STRIDE = 5  # a stride, so that a few tries cover several kinds; coprime to the length, so that all are reached
assert gcd(STRIDE, len(LOCALIZERS)) == 1
KILLED = ("stagewise", "learned", "frank-wolfe", "linearized")
SAME = ("predictions.parquet", "curve.parquet", "layers.parquet", "complement.parquet")


def localizers(number: int, work: Path, device: str = "cpu") -> Iterator[str]:
    """Yield the losses of every localizer in turn, interrupted at a random report and resumed in a new session."""
    world, draw = tiny_world(work), np.random.default_rng(3)
    session, whole = Session(), dict[str, tuple[Run, int]]()
    for index in range(number):
        name = list(LOCALIZERS)[STRIDE * index % len(LOCALIZERS)]
        spec = asked(world, name, device=device)
        if name not in whole:
            whole[name] = _counted(spec, Store(work / "whole" / name), session)
        run, reports = whole[name]
        store, cut = Store(work / f"cut-{index}"), int(draw.integers(1, reports + 1))
        try:
            produce(spec, store, _stop_at(cut), session)
        except KeyboardInterrupt:
            (folder,) = reopened(store)
            carry_on(folder, session=Session())
        yield other(run, store, f"{name}, cut at report {cut} of {reports}")


def real_kills(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of the real engine on a tiny pair, killed at a random moment and resumed in another process."""
    world, draw, begun = tiny_world(work), np.random.default_rng(4), dict[str, float]()
    os.environ["SKILLVIZ_CHECKPOINT_SECONDS"] = "0"
    for name in KILLED:
        started = time.monotonic()
        ended(forked(lambda name=name: produce(asked(world, name, steps=20), Store(work / "whole" / name))))
        begun[name] = time.monotonic() - started
    for index in range(number):
        name = KILLED[index % len(KILLED)]
        spec, store = asked(world, name, steps=20), Store(work / f"killed-{index}")
        child = forked(lambda spec=spec, store=store: produce(spec, store))
        time.sleep(draw.uniform(0, begun[name]))
        killed(child)
        if lost := losses(store):
            yield lost[0]
            continue
        code = ended(forked(lambda store=store: _resume_all(store)))
        (run,) = Store(work / "whole" / name).list()
        yield f"{name} cannot be resumed (exit code {code})" if code else other(run, store, name)


def finetuning(number: int, work: Path, device: str = "cpu") -> Iterator[str]:
    """Yield the losses of fine-tuning by every recipe in turn, killed after a random step and called again."""
    os.environ[ENVIRONMENT] = "0"
    base = Path(tiny_pair(work / "bert", "bert", "head")[0])
    tasks = [task(tiny_task(work / name, rows=48)) for name in ("one", "two")]
    tasks[1] = tasks[1].model_copy(update={"name": "two"})
    draw, whole = np.random.default_rng(6), dict[str, dict[str, str]]()
    for index in range(number):
        name = list(CASES)[index % len(CASES)]
        if name not in whole:
            ended(forked(lambda name=name: trained(base, tasks, CASES[name], work / "whole" / name, device)))
            whole[name] = hashes(work / "whole" / name)
        out, step = work / f"cut-{index}" / "out", int(draw.integers(1, 13))
        ended(forked(lambda: trained(base, tasks, CASES[name], out, device, on_step=_kill_at(step))))  # noqa: B023
        code = ended(forked(lambda: trained(base, tasks, CASES[name], out, device)))  # noqa: B023
        left = [path.name for path in out.parent.iterdir() if path != out]
        same = bool(whole[name]) and hashes(out) == whole[name]
        lost = f"exit code {code}" if code else "other weights" if not same else f"left: {left[0]}" if left else ""
        yield f"{name}, killed after step {step}: {lost}" if lost else ""


def localizers_on_gpu(number: int, work: Path) -> Iterator[str]:
    """Yield the same as `localizers`, on a GPU by deterministic algorithms."""
    os.environ[DETERMINISTIC] = "1"
    yield from localizers(number, work, "cuda")


def finetuning_on_gpu(number: int, work: Path) -> Iterator[str]:
    """Yield the same as `finetuning`, on a GPU by deterministic algorithms."""
    os.environ[DETERMINISTIC] = "1"
    yield from finetuning(number, work, "cuda")


def tiny_world(work: Path) -> Path:
    """Make a trained tiny pair and a task, and return their folder."""
    torch.set_num_threads(1)
    tiny_pair(work / "world", steps=60)
    tiny_task(work / "world")
    return work / "world"


def _stop_at(report: int) -> object:
    heard = 0

    def stop(progress: Progress) -> None:
        nonlocal heard
        heard += progress.phase in ("search", "evaluate") and progress.done > 0
        if heard == report:
            raise KeyboardInterrupt

    return stop


def _kill_at(step: int) -> object:
    def on_step(record: TrainStep) -> None:
        if record.step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_step


def _counted(spec: RunSpec, store: Store, session: Session) -> tuple[Run, int]:
    """Return the run of a spec without interruption, and the number of reports of its search and scoring."""
    heard: list[str] = []
    run = produce(spec, store, lambda progress: heard.append(progress.phase) if progress.done > 0 else None, session)
    return run, sum(phase in ("search", "evaluate") for phase in heard)


def _resume_all(store: Store) -> None:
    for folder in reopened(store):
        carry_on(folder)


def other(whole: Run, store: Store, what: str) -> str:
    """Return the difference between a store's runs and the uninterrupted run; "" if there is none."""
    if lost := losses(store):
        return lost[0]
    if unfinished := store.unfinished():
        return f"{what}: {unfinished[0].record.status}"
    for run in store.list():
        if run.region().sha256() != whole.region().sha256() or not np.array_equal(run.ranking(), whole.ranking()):
            return f"{what}: another region"
        names = [name for name in SAME if name in whole.files]
        if other := [name for name in names if run.record.files[name] != whole.record.files[name]]:
            return f"{what}: another {other[0]}"
    left = leftovers(store) if store.root.is_dir() else []
    return f"{what}: left behind {left[0]}" if left else ""
