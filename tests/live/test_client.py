"""Tests of a worker process: its start, its answers with and without models, and each way it can end."""

import ast
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import psutil
import pytest

from skillviz.api import ModelPair, Task
from skillviz.errors import BadInput, BadSize, LiveError, Superseded
from skillviz.live.client import Client, WorkerBug, _processes
from skillviz.runs.run import Run
from skillviz.runs.wise import grid_logits
from skillviz.serving.settings import LIVE_WORKERS_VARIABLE
from skillviz.tasks.encode import encode
from skillviz.tasks.project import PROJECT
from skillviz.tasks.splits import load
from tests.cli.calls import call, done
from tests.live.conftest import ECHO, MakeClient
from tests.refused import refuses
from tests.test_arrows import imports

pytestmark = pytest.mark.slow

PATIENCE = 60.0


@pytest.fixture
def pool(own_workers: None) -> Iterator[ThreadPoolExecutor]:
    """Return threads that ask; after the test they end with the workers."""
    threads = ThreadPoolExecutor(13)
    yield threads
    threads.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def client(echo: MakeClient) -> Client:
    return echo()


def until(happens: Any, what: str) -> None:
    """Wait until `happens` is true; fail with `what` if it never is."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def queued(pool: ThreadPoolExecutor, client: Client, operation: str, **arguments: Any) -> Future[dict[str, Any]]:
    """Ask in a thread; return when the request waits or is answered."""
    requests = len(client._queue) + 1
    move = pool.submit(client.ask, operation, **arguments)
    until(lambda: len(client._queue) == requests, f"{requests} requests have arrived")
    return move


def until_gone(pid: int) -> None:
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, f"{pid} lives")


def test_the_first_question_starts_a_worker_and_others_use_it(client: Client) -> None:
    assert client.process is None
    array = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    first = client.ask("echo", x=[1, "ä", None], y=array)
    pid = first["pid"]
    np.testing.assert_equal(first, {"pid": pid, "x": [1, "ä", None], "y": array})
    # in a session of its own: Ctrl-C does not reach it
    assert client.ask("echo")["pid"] == os.getsid(pid) == pid != os.getpid()


def test_errors_arrive_as_themselves(client: Client) -> None:
    for operation, kind, words in (
        ("fail", BadSize, r"\ABadSize: too many\.\Z"),
        ("bug", WorkerBug, r"echo_worker.py.*\n[^$]*ZeroDivisionError: a bug"),
        ("memory", LiveError, "out of memory"),
    ):
        refuses(kind, words, client.ask, operation)
    assert client.ask("echo", x=1)["x"] == 1


def test_of_ten_rapid_moves_each_gets_its_own_answer_or_gives_way(client: Client, pool: ThreadPoolExecutor) -> None:
    client.ask("echo")
    moves = [queued(pool, client, "echo", topic="alpha", number=0, sleep=2)]
    for number in range(1, 10):
        moves.append(pool.submit(client.ask, "echo", topic="alpha", number=number))
        until(lambda number=number: len(client._queue) == 2 and (number < 2 or moves[number - 1].done()), "replaced")
    kinds = [type(move.exception(PATIENCE)) for move in moves]
    # What is being answered is left alone.
    assert (kinds, [moves[number].result()["number"] for number in (0, 9)]) == (
        [type(None), *[Superseded] * 8, type(None)], [0, 9],
    )  # fmt: skip


def test_requests_of_two_topics_are_answered_in_order_of_arrival(client: Client, pool: ThreadPoolExecutor) -> None:
    ended = list[str]()
    client.ask("echo")
    moves = [queued(pool, client, "echo", sleep=1, who="busy")]
    for topic, name in (("one", "one"), ("two", "two"), (None, "none"), (None, "nothing")):
        moves.append(queued(pool, client, "echo", topic=topic, who=name))
        moves[-1].add_done_callback(lambda move: ended.append(move.result()["who"]))
    assert ([move.result(PATIENCE)["who"] for move in moves], ended) == (
        ["busy", *ended], ["one", "two", "none", "nothing"],
    )  # fmt: skip


def test_a_worker_killed_over_a_request_is_replaced_by_the_next(client: Client, pool: ThreadPoolExecutor) -> None:
    pid = client.ask("echo")["pid"]
    killed = queued(pool, client, "echo", sleep=600)
    time.sleep(0.3)  # now it is being answered
    waiting = queued(pool, client, "echo", x=1)
    os.kill(pid, signal.SIGKILL)
    refuses(LiveError, "killed", killed.result, PATIENCE)
    answered = waiting.result(PATIENCE)
    assert answered["x"] == 1 and answered["pid"] != pid, "who waits behind it is answered by the next worker"
    refuses(LiveError, "killed", client.ask, "die")
    os.kill(client.ask("echo", x=2)["pid"], signal.SIGKILL)
    until(lambda: client.process.poll() is not None, "it is gone")
    assert client.ask("echo", x=3)["x"] == 3, "one that was killed between two requests is not noticed"


def test_a_request_ends_with_its_tab_and_the_worker_goes_on(client: Client, pool: ThreadPoolExecutor) -> None:
    open_tabs = {"first", "second"}
    pid = client.ask("echo")["pid"]
    first = queued(pool, client, "echo", sleep=600, is_wanted=lambda: "first" in open_tabs)
    second = queued(pool, client, "die", is_wanted=lambda: "second" in open_tabs)
    third = queued(pool, client, "echo", x=1)
    open_tabs.remove("second")
    assert isinstance(second.exception(PATIENCE), Superseded) and not first.done(), "it waited, and is not begun"
    open_tabs.remove("first")
    assert isinstance(first.exception(PATIENCE), Superseded) and third.result(PATIENCE) == {"pid": pid, "x": 1}


def test_a_tab_that_closes_when_its_answer_is_there_disturbs_nobody(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that reads of a closed tab when it has sent the answer goes on to the next request."""
    monkeypatch.setattr("skillviz.live.client.LOOK_SECONDS", 0.001)
    pid, ended = client.ask("echo")["pid"], list[bool]()
    for number in range(40):
        end = time.monotonic() + 0.1
        try:
            client.ask("echo", sleep=0.08 + 0.001 * number, is_wanted=lambda: time.monotonic() < end)  # noqa: B023
            ended.append(False)
        except Superseded:
            ended.append(True)
        assert client.ask("echo", x=number) == {"pid": pid, "x": number}
    assert ended[-1] and not all(ended)


def test_it_ends_when_nobody_asks(echo: MakeClient) -> None:
    client = echo(idle_seconds=0.5)
    pid = client.ask("echo", sleep=1.0)["pid"]
    until_gone(pid)
    again = client.ask("echo", x=1)
    assert again["x"] == 1 and again["pid"] != pid


def test_asking_while_it_ends_is_answered_all_the_same(echo: MakeClient) -> None:
    """Requests pause for about the worker's idle limit: whether it runs, ends or is gone, each gets an answer."""
    client = echo(idle_seconds=0.3)
    for number in range(12):
        assert client.ask("echo", n=number)["n"] == number
        time.sleep(0.24 + 0.01 * number)


def test_it_ends_with_the_process_that_started_it(store: Path) -> None:
    """Also over a request, and if that process had no time to end it."""
    lines = (
        "import sys, threading, time", "from skillviz.live.client import Client",
        f"client = Client({str(store)!r}, command=(sys.executable, {str(ECHO)!r}))",
        "print(client.ask('echo')['pid'], flush=True)",
        "threading.Thread(target=client.ask, args=('echo',), kwargs={'sleep': 600}, daemon=True).start()",
        "time.sleep(0.5); print('busy', flush=True); time.sleep(600)",
    )  # fmt: skip
    server = subprocess.Popen([sys.executable, "-c", "\n".join(lines)], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    with server.stdout as said:
        pid = int(said.readline())
        assert said.readline() == "busy\n" and psutil.pid_exists(pid)
        server.kill()
        server.wait(PATIENCE)
    until_gone(pid)


def test_of_many_who_start_at_once_one_does(client: Client, pool: ThreadPoolExecutor) -> None:
    assert len({answer["pid"] for answer in pool.map(lambda n: client.ask("echo", n=n), range(6))}) == 1


def test_a_request_that_takes_too_long_is_given_up_and_computed_to_its_end(client: Client) -> None:
    pid, began = client.ask("echo")["pid"], time.monotonic()
    for operation, arguments in (("echo", {"sleep": 2}), ("die", {})):  # the second is not begun
        refuses(LiveError, "too long", client.ask, operation, timeout=0.3, **arguments)
    assert time.monotonic() - began < 2
    assert client.ask("echo", x=1) == {"pid": pid, "x": 1} and time.monotonic() - began > 2


def test_why_it_cannot_be_started_is_said(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for script, limit, reason in (
        ("raise SystemExit('no luck today')", PATIENCE, "could not be started: no luck today"),
        ("", PATIENCE, "could not be started: it ended without a word"),
        ("import time; time.sleep(60)", 0.5, "too long"),
    ):
        refuses(LiveError, reason, Client(store, command=(sys.executable, "-c", script)).ask, "open", timeout=limit)
    monkeypatch.setattr(subprocess, "Popen", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    refuses(LiveError, r"cannot be started \(Too many open files\)", Client(store).ask, "open")


def test_no_more_workers_than_allowed_run_for_all_stores(
    echo: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two hundred users may open a live page: a worker for each would fill the memory."""
    most = 2 + sum(process.poll() is None for process in _processes)
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, str(most))
    first, second, third = (echo(store=tmp_path / name) for name in "abc")
    assert first.ask("echo", words="first") and second.ask("echo", words="first")
    refuses(
        LiveError,
        f"others use all {most} workers of this dashboard; try again in some minutes",
        third.ask,
        "echo",
        words="no room",
    )
    assert first.ask("echo", words="again"), "whose worker runs is answered"
    second.process.kill()
    until(lambda: second.process.poll() is not None, "it lives")
    assert third.ask("echo", words="room"), "a killed worker leaves its place"
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, str(most + 1))
    assert second.ask("echo", words="room")


def test_a_limit_of_workers_that_is_no_number_starts_none(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, "many")
    refuses(
        BadInput, "SKILLVIZ_LIVE_WORKERS is 'many'; allowed is a whole number from 1 on", client.ask, "echo", words="no"
    )


def test_nothing_is_read_but_what_the_own_pipe_brings() -> None:
    """A connection unpickles what it receives: the live layer makes none but that between a process and its child."""
    for path in (PROJECT / "skillviz" / "live").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        # (a module, a name from it, or none for the module itself)
        named = {(module, name) for _, module, name in imports(ast.parse(text))}
        roots = {module.split(".")[0] for module, _ in named}
        assert not roots & {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "socket"}, path
        assert {name for module, name in named if module.startswith("multiprocessing")} <= {"Pipe", "Connection"}, path
        assert "torch.load" not in text and "allow_pickle" not in text, path


TEXT = "the film was good and funny"


def test_a_slider_and_a_sentence(place: Path, run: Run, pair: ModelPair, task: Task, pool: ThreadPoolExecutor) -> None:
    """Ten rapid moves, two tabs, one that closes, a kill: every answer is right or says that there is none."""
    encoded = encode(task, load(task).test, pair.tokenizer, "head")
    alphas = [round(0.1 * n, 1) for n in range(10)]
    wanted = {(p, a): z for p, _, a, z in grid_logits(pair, encoded, {0: run.region()}, np.array(alphas))}
    client, named = Client(place), {"run": run.id}
    assert client.ask("open", pair=named)["d"] == pair.d
    first = psutil.Process(client.process.pid)

    def wise(path: str, alpha: float, **more: Any) -> np.ndarray:
        return client.ask("wise", pair=named, path=path, alpha=alpha, **more)["logits"]

    moves = {alpha: pool.submit(wise, "wise-graft", alpha, topic="one alpha") for alpha in alphas}
    texts = pool.submit(client.ask, "score_text", topic="other alpha", pair=named, texts=[TEXT])
    ended = {alpha: type(move.exception()) for alpha, move in moves.items()}
    assert {*ended.values()} <= {type(None), Superseded} and type(None) in ended.values()
    for alpha in (alpha for alpha, kind in ended.items() if kind is not Superseded):
        assert np.array_equal(moves[alpha].result(), wanted["wise-graft", alpha]), alpha
    assert texts.result()["logits"]["grafted"].shape == (1, 2)
    found = client.ask("attribute", pair=named, text=TEXT, steps=10)
    assert set(found["states"]) == {"pretrained", "grafted", "finetuned"}
    refuses(BadInput, "wise-ft, wise-graft", wise, "straight", 0.5)

    # a tab closes while the worker computes, on a graft: the next answers are exact, by the same worker
    end = time.monotonic() + 2
    long = {"pair": named, "text": TEXT, "steps": 1000}
    refuses(
        Superseded,
        None,
        client.ask,
        "attribute",
        states=["grafted"] * 1000,
        is_wanted=lambda: time.monotonic() < end,
        **long,
    )
    for path in ("wise-graft", "wise-ft"):
        assert np.array_equal(wise(path, 0.6), wanted[path, 0.6]), path
    assert time.monotonic() < end + 20 and client.process.pid == first.pid and client.process.poll() is None

    worked = first.cpu_times().user
    kept = pool.submit(client.ask, "attribute", states=["finetuned"] * 1000, **long)
    while not kept.done() and first.cpu_times().user < worked + 0.5:  # until it computes the answer
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    refuses(LiveError, "killed", kept.result)
    assert np.array_equal(wise("wise-ft", 0.3), wanted["wise-ft", 0.3]) and client.process.pid != first.pid


def test_the_command_is_there_but_not_in_the_help() -> None:
    said = done("worker", "--help").out
    assert "worker" not in call("--help").out and "--connection" in said and "--idle" in said
