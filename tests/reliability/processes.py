"""Check that no run is lost if a real process is killed: a job, the dashboard's server, the live pages' worker."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from skillviz import jobs
from skillviz.errors import LiveError
from skillviz.live.client import Client
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks.project import PROJECT
from tests.e2e.server import started
from tests.e2e.websocket import STORED_PAGES, Seen, Visitor
from tests.reliability.kills import leftovers, losses
from tests.reliability.resume import other, tiny_world
from tests.runs.test_checkpoint import asked

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
        kept = _finished(spec.model_copy(update={"seed": 1}), store)
        job = jobs.start(spec, store)
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
