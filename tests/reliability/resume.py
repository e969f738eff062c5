"""Check real processes that are killed or interrupted anywhere: resume is exact, and no run is lost.

They are the engine, fine-tuning, a job, the dashboard's server, and the live pages' worker.
"""

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import gcd
from pathlib import Path

import numpy as np
import psutil
import torch

from skillviz import jobs
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import LiveError
from skillviz.live.client import Client
from skillviz.models.device import DETERMINISTIC
from skillviz.models.finetune.training import TrainStep
from skillviz.models.state_file import ENVIRONMENT
from skillviz.runs.process import Progress
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks.project import PROJECT
from skillviz.tasks.registry import task
from tests.e2e.server import started
from tests.e2e.websocket import STORED_PAGES, Seen, Visitor
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


def on_gpu(tries: Callable[[int, Path, str], Iterator[str]], number: int, work: Path) -> Iterator[str]:
    """Yield the same as `localizers` or `finetuning`, on a GPU by deterministic algorithms."""
    os.environ[DETERMINISTIC] = "1"
    yield from tries(number, work, "cuda")


localizers_on_gpu, finetuning_on_gpu = partial(on_gpu, localizers), partial(on_gpu, finetuning)


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
    return produce(
        spec, store, lambda progress: heard.append(progress.phase) if progress.done > 0 else None, session
    ), sum(phase in ("search", "evaluate") for phase in heard)


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


PATIENCE = 300.0  # seconds
TEXT = "the film was good and funny"


def job_kills(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of a `localize --detach` job, killed with its process group at a random moment, and resumed."""
    spec, draw = _job_spec(work), np.random.default_rng(41)
    begun = time.monotonic()
    whole = _finished(spec, Store(work / "whole"))
    seconds = time.monotonic() - begun
    for index in range(number):
        store = Store(work / f"runs-{index}")
        job = jobs.start(spec, store)
        time.sleep(draw.uniform(0, seconds))
        for child in _children():
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(PATIENCE)
        yield _after_kill(store, job.name, whole)


def _after_kill(store: Store, name: str, whole: Run) -> str:
    """Return the loss of a job whose process was killed, before and after its resume."""
    state = jobs.status(store, name).status
    if lost := losses(store):
        return lost[0]
    if state != "finished":
        if state != "failed":
            return f"a killed job is listed as {state}"
        jobs.resume(store, name)
        if (state := _ended(store, name)) != "finished":
            return f"a killed job is {state} after it was resumed: {jobs.log_tail(store, name, 3)}"
    return other(whole, store, "a killed job") or _orphans()


def server_kills(number: int, work: Path) -> Iterator[str]:
    """Yield the losses if the server is killed beside a job: the job must finish, and a new server show all."""
    spec, draw = _job_spec(work), random.Random(42)
    whole = _finished(spec, Store(work / "whole"))
    for index in range(number):
        store = Store(work / f"runs-{index}")
        kept, job = _finished(spec.model_copy(update={"seed": 1}), store), jobs.start(spec, store)
        server, address = started(PROJECT, more={"SKILLVIZ_RUNS": str(store.root)})
        killer = threading.Timer(draw.uniform(0.5, 8.0), server.kill)
        killer.start()
        shown = Seen()
        with suppress(Exception):  # the server ends during the visit
            asyncio.run(_browse(address, kept.id, draw, shown, endless=True))
        killer.join()
        server.wait(PATIENCE)
        if (state := _ended(store, job.name)) != "finished":
            yield f"the job beside a killed server is {state}"
            continue
        second, address = started(PROJECT, more={"SKILLVIZ_RUNS": str(store.root)})
        try:
            asyncio.run(_browse(address, job.name, draw, after := Seen()))
        finally:
            second.terminate()
            second.wait(PATIENCE)
        mine = Store(work / f"job-{index}")
        mine.root.mkdir()
        (store.root / job.name).rename(mine.root / job.name)
        errors = shown.errors + after.errors
        lost = losses(store) + losses(mine) + [text for text in (other(whole, mine, "the job beside"),) if text]
        yield (lost + [f"a page's error: {error}" for error in errors] + [""])[0]


async def _browse(address: str, run: str, draw: random.Random, seen: Seen, endless: bool = False) -> None:
    """Visit one page of a run; with `endless`, one page after the other."""
    async with Visitor(address) as visitor:
        await visitor.visit("", "", seen)
        await visitor.visit("jobs", "", seen)
        while True:
            await visitor.visit(draw.choice(STORED_PAGES), f"run={run}", seen)
            if not endless:
                return


def worker_kills(number: int, work: Path) -> Iterator[str]:
    """Yield the losses if the live pages' worker is killed at a random moment.

    The request must return an answer or a sentence, and the next answer must be right.
    """
    store, draw = Store(work / "runs"), np.random.default_rng(43)
    client, named = Client(store.root), {"run": _finished(_job_spec(work), store).id}
    asks: list[Callable[[], np.ndarray]] = [
        lambda: client.ask("wise", pair=named, path="wise-graft", alpha=0.3)["logits"],
        lambda: client.ask("score_text", pair=named, texts=[TEXT])["logits"]["grafted"],
    ]
    right = [ask() for ask in asks]
    begun = time.monotonic()
    _kill_worker(client)
    asks[0]()
    seconds = time.monotonic() - begun  # a worker's start and its first answer
    for index in range(number):
        ask, wanted, heard = asks[index % 2], right[index % 2], list[str]()
        thread = threading.Thread(target=lambda: heard.append(_answer(ask, wanted)))  # noqa: B023
        if index % 3 == 0:
            _kill_worker(client)  # the next one is killed while it starts
        thread.start()
        time.sleep(draw.uniform(0, seconds if index % 3 == 0 else seconds / 20))
        _kill_worker(client)
        thread.join(PATIENCE)
        lost = heard[0] if heard else "no answer came"
        lost = lost or _answer(ask, wanted, may_end=False)
        yield lost or (losses(store) or leftovers(store) or [""])[0]
    _kill_worker(client)


def _answer(ask: Callable[[], np.ndarray], wanted: np.ndarray, may_end: bool = True) -> str:
    """Return the error of an answer; a sentence that the worker ended is no error if it `may_end`."""
    try:
        found = ask()
    except LiveError as error:
        return "" if may_end and "\n" not in str(error) else f"no answer: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if np.array_equal(found, wanted) else "another answer"


def _kill_worker(client: Client) -> None:
    if client.process is not None:
        client.process.kill()
        client.process.wait(PATIENCE)


def _job_spec(work: Path) -> RunSpec:
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["SKILLVIZ_CHECKPOINT_SECONDS"] = "0"
    return asked(tiny_world(work), "stagewise", steps=300, batch_size=4)


def _finished(spec: RunSpec, store: Store) -> Run:
    """Return the run of an undisturbed job."""
    job = jobs.start(spec, store)
    state = _ended(store, job.name)
    assert state == "finished", f"an undisturbed job is {state}: {jobs.log_tail(store, job.name)}"
    return store.open(job.name)


def _ended(store: Store, name: str) -> str:
    """Wait until a job is neither queued nor running, and return its state."""
    end = time.monotonic() + PATIENCE
    while (job := jobs.status(store, name)).is_open and time.monotonic() < end:
        time.sleep(0.05)
    return job.status


def _children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


def _orphans() -> str:
    _, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=30)
    return f"a process is left: {' '.join(left[0].cmdline())[:200]}" if left else ""
