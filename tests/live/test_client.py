"""Tests of a worker process: its start, its answers with and without models, and each way it can end."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from skillviz.errors import BadInput, BadSize, LiveError, Superseded
from skillviz.live.client import Client, WorkerBug, _processes
from skillviz.models.pair import load_pair
from skillviz.runs.store import Store
from skillviz.runs.wise import grid_logits
from skillviz.serving.settings import LIVE_WORKERS_VARIABLE
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.project import PROJECT
from skillviz.tasks.splits import load
from tests.live.conftest import ECHO, MakeClient

pytestmark = pytest.mark.slow

PATIENCE = 60.0


def until(happens: Any, what: str) -> None:
    """Wait until `happens` is true; fail with `what` if it never is."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def in_background(call: Any) -> tuple[threading.Thread, list[Any]]:
    """Run the call in a thread; return the thread and the list that will hold its outcome (a value or an error)."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def until_queued(client: Client, requests: int) -> None:
    """Waits until so many requests wait or are answered."""
    until(lambda: len(client._queue) == requests, f"{requests} requests have arrived")


def until_gone(pid: int) -> None:
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, f"{pid} lives")


def test_the_first_question_starts_a_worker_and_others_use_it(echo: MakeClient) -> None:
    client = echo()
    assert client.process is None
    array = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    first = client.ask("echo", x=[1, "ä", None], y=array)
    assert first["x"] == [1, "ä", None] and first["y"].tobytes() == array.tobytes()
    assert client.ask("echo")["pid"] == first["pid"] != os.getpid()
    assert psutil.Process(first["pid"]).pid == os.getsid(first["pid"])  # a session of its own: Ctrl-C does not reach it


def test_errors_arrive_as_themselves(echo: MakeClient) -> None:
    client = echo()
    with pytest.raises(BadSize) as error:
        client.ask("fail")
    assert error.value.args == ("too many.",)
    with pytest.raises(WorkerBug, match=r"echo_worker.py.*\n[^$]*ZeroDivisionError: a bug"):
        client.ask("bug")
    with pytest.raises(LiveError, match="out of memory"):
        client.ask("memory")
    assert client.ask("echo", x=1)["x"] == 1


def test_of_ten_rapid_moves_each_gets_its_own_answer_or_gives_way(echo: MakeClient) -> None:
    client = echo()
    client.ask("echo")
    with ThreadPoolExecutor(10) as pool:
        moves = [pool.submit(client.ask, "echo", topic="alpha", number=0, sleep=2)]
        until_queued(client, 1)
        for number in range(1, 10):
            moves.append(pool.submit(client.ask, "echo", topic="alpha", number=number))
            until(
                lambda number=number: len(client._queue) == 2 and (number < 2 or moves[number - 1].done()), "replaced"
            )
        errors = [move.exception(PATIENCE) for move in moves]
    assert moves[0].result()["number"] == 0, "what is being answered is left alone"
    assert moves[9].result()["number"] == 9
    assert all(isinstance(error, Superseded) for error in errors[1:9])


def test_requests_of_two_topics_are_answered_in_order_of_arrival(echo: MakeClient) -> None:
    client, ended = echo(), list[str]()
    client.ask("echo")
    with ThreadPoolExecutor(6) as pool:
        busy = pool.submit(client.ask, "echo", sleep=1)
        until_queued(client, 1)
        for count, name in enumerate(("one", "two", "none", "nothing"), start=2):
            topic = name if name in ("one", "two") else None
            move = pool.submit(client.ask, "echo", topic=topic, who=name)
            move.add_done_callback(lambda move: ended.append(move.result()["who"]))
            until_queued(client, count)
        assert busy.result()["pid"]
    assert ended == ["one", "two", "none", "nothing"]


def test_a_worker_killed_over_a_request_is_replaced_by_the_next(echo: MakeClient) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    thread, found = in_background(lambda: client.ask("echo", sleep=600))
    until_queued(client, 1)
    time.sleep(0.3)  # now it is being answered
    waiting, answered = in_background(lambda: client.ask("echo", x=1))
    until_queued(client, 2)
    os.kill(pid, signal.SIGKILL)
    thread.join(PATIENCE), waiting.join(PATIENCE)
    assert isinstance(found[0], LiveError) and "killed" in str(found[0])
    assert answered[0]["x"] == 1 and answered[0]["pid"] != pid, "who waits behind it is answered by the next worker"
    with pytest.raises(LiveError, match="killed"):
        client.ask("die")
    assert client.ask("echo", x=2)["x"] == 2
    os.kill(client.ask("echo")["pid"], signal.SIGKILL)
    until(lambda: client.process.poll() is not None, "it is gone")
    assert client.ask("echo", x=3)["x"] == 3, "one that was killed between two requests is not noticed"


def test_a_request_ends_with_its_tab_and_the_worker_goes_on(echo: MakeClient) -> None:
    client, open_tabs = echo(), {"first", "second"}
    pid = client.ask("echo")["pid"]
    running, first = in_background(lambda: client.ask("echo", sleep=600, is_wanted=lambda: "first" in open_tabs))
    until_queued(client, 1)
    waiting, second = in_background(lambda: client.ask("die", is_wanted=lambda: "second" in open_tabs))
    until_queued(client, 2)
    third, answered = in_background(lambda: client.ask("echo", x=1))
    until_queued(client, 3)
    open_tabs.remove("second")
    waiting.join(PATIENCE)
    assert isinstance(second[0], Superseded) and running.is_alive(), "it waited, and is not begun"
    open_tabs.remove("first")
    running.join(PATIENCE), third.join(PATIENCE)
    assert isinstance(first[0], Superseded) and answered[0] == {"pid": pid, "x": 1}


def test_a_tab_that_closes_when_its_answer_is_there_disturbs_nobody(
    echo: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that reads of a closed tab when it has sent the answer goes on to the next request."""
    monkeypatch.setattr("skillviz.live.client.LOOK_SECONDS", 0.001)
    client, ended = echo(), list[bool]()
    pid = client.ask("echo")["pid"]
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
    assert server.stdout is not None
    with server.stdout as said:
        pid = int(said.readline())
        assert said.readline() == "busy\n" and psutil.pid_exists(pid)
        server.kill()
        server.wait(PATIENCE)
    until_gone(pid)


def test_of_many_who_start_at_once_one_does(echo: MakeClient) -> None:
    client = echo()
    with ThreadPoolExecutor(6) as pool:
        pids = {answer["pid"] for answer in pool.map(lambda n: client.ask("echo", n=n), range(6))}
    assert len(pids) == 1


def test_a_request_that_takes_too_long_is_given_up_and_computed_to_its_end(echo: MakeClient) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    began = time.monotonic()
    with pytest.raises(LiveError, match="too long"):
        client.ask("echo", sleep=2, timeout=0.3)
    with pytest.raises(LiveError, match="too long"):  # not begun
        client.ask("die", timeout=0.3)
    assert time.monotonic() - began < 2
    assert client.ask("echo", x=1) == {"pid": pid, "x": 1} and time.monotonic() - began > 2


def test_why_it_cannot_be_started_is_said(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for script, reason in (("raise SystemExit('no luck today')", "no luck today"), ("", "it ended without a word")):
        with pytest.raises(LiveError, match=f"could not be started: {reason}"):
            Client(store, command=(sys.executable, "-c", script)).ask("open")
    slow = Client(store, command=(sys.executable, "-c", "import time; time.sleep(60)"))
    with pytest.raises(LiveError, match="too long"):
        slow.ask("open", timeout=0.5)

    def refuse(*arguments: object, **options: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(LiveError, match=r"cannot be started \(Too many open files\)"):
        Client(store).ask("open")


def test_no_more_workers_than_allowed_run_for_all_stores(
    echo: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two hundred users may open a live page: a worker for each would fill the memory."""
    most = 2 + sum(process.poll() is None for process in _processes)
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, str(most))
    clients = [echo(store=tmp_path / name) for name in "abc"]
    for client in clients[:2]:
        assert client.ask("echo", words="first")
    with pytest.raises(LiveError, match=f"others use all {most} workers of this dashboard; try again in some minutes"):
        clients[2].ask("echo", words="no room")
    assert clients[0].ask("echo", words="again"), "whose worker runs is answered"
    clients[1].process.kill()
    until(lambda: clients[1].process.poll() is not None, "it lives")
    assert clients[2].ask("echo", words="room"), "a killed worker leaves its place"
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, str(most + 1))
    assert clients[1].ask("echo", words="room")


def test_a_limit_of_workers_that_is_no_number_starts_none(echo: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, "many")
    with pytest.raises(BadInput, match="SKILLVIZ_LIVE_WORKERS is 'many'; allowed is a whole number from 1 on"):
        echo().ask("echo", words="no")


def test_nothing_is_read_but_what_the_own_pipe_brings() -> None:
    """A connection unpickles what it receives: the live layer makes none but that between a process and its child."""
    for path in (PROJECT / "skillviz" / "live").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        named = {
            (node.module or "", alias.name)
            for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
        }  # fmt: skip
        roots = {name.split(".")[0] for name in modules} | {module.split(".")[0] for module, _ in named}
        assert not roots & {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "socket"}, path
        assert {name for module, name in named if module.startswith("multiprocessing")} <= {"Pipe", "Connection"}, path
        assert not any(module.startswith("multiprocessing") for module in modules), path
        assert "torch.load" not in path.read_text() and "allow_pickle" not in path.read_text(), path


TEXT = "the film was good and funny"


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    shutil.copytree(lived / "runs", tmp_path / "runs")
    return tmp_path / "runs"


def test_a_slider_and_a_sentence(place: Path, lived: Path) -> None:
    """Ten rapid moves, two tabs, one that closes, a kill: every answer is right or says that there is none."""
    run = Store(place).list()[0]
    pair = load_pair(lived / "base", lived / "finetuned", task=lived / "task.yaml", device="cpu")
    task = registry.task(lived / "task.yaml")
    encoded = encode(task, load(task).test, pair.tokenizer, "head")
    alphas = [round(0.1 * n, 1) for n in range(10)]
    wanted = {(p, a): z for p, _, a, z in grid_logits(pair, encoded, {0: run.region()}, np.array(alphas))}
    client, named = Client(place), {"run": run.id}
    assert client.ask("open", pair=named)["d"] == pair.d
    assert client.process is not None
    first = psutil.Process(client.process.pid)
    with ThreadPoolExecutor(12) as pool:
        moves = [
            pool.submit(client.ask, "wise", topic="one alpha", pair=named, path="wise-graft", alpha=alpha)
            for alpha in alphas
        ]
        texts = [pool.submit(client.ask, "score_text", topic="other alpha", pair=named, texts=[TEXT])]
        errors = [move.exception() for move in moves]
        assert all(isinstance(error, Superseded) for error in errors if error) and not all(errors)
        for alpha, move, error in zip(alphas, moves, errors, strict=True):
            if not error:
                assert np.array_equal(move.result()["logits"], wanted["wise-graft", alpha])
        assert texts[0].result()["logits"]["grafted"].shape == (1, 2)
    found = client.ask("attribute", pair=named, text=TEXT, steps=10)
    assert set(found["states"]) == {"pretrained", "grafted", "finetuned"}
    with pytest.raises(BadInput, match="wise-ft, wise-graft"):
        client.ask("wise", pair=named, path="straight", alpha=0.5)

    # a tab closes while the worker computes, on a graft: the next answers are exact, by the same worker
    end = time.monotonic() + 2
    long = {"pair": named, "text": TEXT, "steps": 1000}
    with pytest.raises(Superseded):
        client.ask("attribute", states=["grafted"] * 1000, is_wanted=lambda: time.monotonic() < end, **long)
    for path, alpha in (("wise-graft", 0.6), ("wise-ft", 0.6)):
        assert np.array_equal(client.ask("wise", pair=named, path=path, alpha=alpha)["logits"], wanted[path, alpha])
    assert time.monotonic() < end + 20 and client.process.pid == first.pid and client.process.poll() is None

    worked = first.cpu_times().user
    thread, kept = in_background(lambda: client.ask("attribute", states=["finetuned"] * 1000, **long))
    while thread.is_alive() and first.cpu_times().user < worked + 0.5:  # until it computes the answer
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    thread.join()
    assert isinstance(kept[0], LiveError) and "killed" in str(kept[0])
    again = client.ask("wise", pair=named, path="wise-ft", alpha=0.3)
    assert np.array_equal(again["logits"], wanted["wise-ft", 0.3]) and client.process.pid != first.pid


def test_the_command_is_there_but_not_in_the_help() -> None:
    from tests.cli.calls import call

    assert "worker" not in call("--help").out
    said = call("worker", "--help")
    assert said.code == 0 and "--connection" in said.out and "--idle" in said.out
