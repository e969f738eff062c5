"""Tests of a real worker process without models: its start, matching answers to requests, each way it can end."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import stat
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
from skillviz.live.client import Client
from skillviz.live.protocol import WorkerBug
from skillviz.tasks.project import LIVE_WORKERS_VARIABLE
from tests.live.conftest import MakeClient

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


def until_attended(pid: int, requests: int) -> None:
    """Wait until the worker has this many requests: it has a Python thread for each, plus two of its own."""

    def python_threads() -> int:
        names = [path.read_text().strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")]
        return sum("python" in name for name in names)  # libraries add threads with other names

    until(lambda: python_threads() == 2 + requests, f"{requests} requests have arrived")


def test_the_first_question_starts_a_worker_and_others_use_it(echo: MakeClient) -> None:
    client = echo()
    assert not client.is_running()
    array = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    first = client.ask("echo", x=[1, "ä", None], y=array)
    assert first["x"] == [1, "ä", None] and first["y"].tobytes() == array.tobytes()
    assert client.is_running()
    assert echo().ask("echo")["pid"] == first["pid"] != os.getpid()
    address = client.address
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (address.folder, address.token, address.socket)]
    assert modes == [0o700, 0o600, 0o600] and len(address.read_token()) == 64
    assert psutil.Process(first["pid"]).pid == os.getsid(first["pid"])  # a session of its own: Ctrl-C does not reach it


def test_errors_arrive_as_themselves(echo: MakeClient) -> None:
    client = echo()
    with pytest.raises(BadSize, match="too many"):
        client.ask("fail")
    with pytest.raises(WorkerBug, match="ZeroDivisionError: a bug"):
        client.ask("bug")
    with pytest.raises(LiveError, match="out of memory"):
        client.ask("memory")
    with pytest.raises(WorkerBug, match="cannot be sent"):
        client.ask("strange")
    assert "ZeroDivisionError" in client.address.log.read_text()
    assert client.ask("echo", x=1)["x"] == 1


def test_of_ten_rapid_moves_each_gets_its_own_answer_or_gives_way(echo: MakeClient) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    until_attended(pid, 0)
    with ThreadPoolExecutor(10) as pool:
        moves = [pool.submit(client.ask, "echo", topic="alpha", number=0, sleep=2)]
        until_attended(pid, 1)
        for number in range(1, 10):
            moves.append(pool.submit(client.ask, "echo", topic="alpha", number=number))
            time.sleep(0.02)
        errors = [move.exception(PATIENCE) for move in moves]
    answers = [None if error else move.result() for move, error in zip(moves, errors, strict=True)]
    assert all(isinstance(error, Superseded) for error in errors if error)
    assert all(answer["number"] == number for number, answer in enumerate(answers) if answer)
    assert answers[0] and any(answers[1:]) and any(errors)


def test_two_sessions_do_not_take_each_others_place(echo: MakeClient) -> None:
    one, two = echo(), echo()
    assert one.session != two.session
    one.ask("echo")
    asked = [(client, name, n) for n in range(3) for client, name in ((one, "one"), (two, "two"))]
    with ThreadPoolExecutor(6) as pool:
        found = list(
            pool.map(lambda a: a[0].ask("echo", topic=f"{a[1]}-{a[2]}", who=a[1], n=a[2], sleep=0.1), asked)
        )  # fmt: skip
    assert [(answer["who"], answer["n"]) for answer in found] == [(name, n) for _, name, n in asked]
    busy, _ = in_background(lambda: one.ask("echo", sleep=1))
    time.sleep(0.2)
    first, kept = in_background(lambda: one.ask("echo", topic="alpha", who="one"))
    time.sleep(0.2)
    assert two.ask("echo", topic="alpha", who="two")["who"] == "two"
    busy.join(), first.join()
    assert kept[0]["who"] == "one"


def test_a_worker_killed_over_a_request_is_replaced_by_the_next(echo: MakeClient) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    until_attended(pid, 0)
    thread, found = in_background(lambda: client.ask("echo", sleep=600))
    until_attended(pid, 1)
    time.sleep(0.2)  # it is being answered by then
    os.kill(pid, signal.SIGKILL)
    thread.join(PATIENCE)
    assert isinstance(found[0], LiveError) and "killed" in str(found[0])
    assert client.address.socket.exists()  # the dead worker's socket, without a listener
    until(lambda: not client.is_running(), "its end takes a moment")
    assert client.ask("echo")["pid"] != pid
    with pytest.raises(LiveError, match="killed"):
        client.ask("die")
    assert client.ask("echo", x=2)["x"] == 2


def test_it_ends_when_nobody_asks(echo: MakeClient) -> None:
    client = echo(idle_seconds=0.5)
    process = psutil.Process(client.ask("echo", sleep=1.0)["pid"])
    until(lambda: not client.is_running(), "an idle worker ends")
    until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "its process is gone")
    assert not client.address.socket.exists() and not client.address.token.exists()
    again = client.ask("echo", x=1)
    assert again["x"] == 1 and again["pid"] != process.pid


def test_asking_while_it_ends_is_answered_all_the_same(echo: MakeClient) -> None:
    """Requests pause for about the worker's idle limit: whether it runs, ends or is gone, each gets an answer."""
    client = echo(idle_seconds=0.3)
    for number in range(6):
        assert client.ask("echo", n=number)["n"] == number
        time.sleep(0.25 + 0.03 * number)


def test_it_ends_with_its_store(echo: MakeClient, store: Path) -> None:
    client = echo()
    client.ask("echo")
    shutil.rmtree(store)
    until(lambda: not client.is_running(), "a worker without a store ends")


def test_it_ends_when_told_to(echo: MakeClient) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    until_attended(pid, 0)
    running, first = in_background(lambda: client.ask("echo", x=1, sleep=8))
    until_attended(pid, 1)
    waiting, second = in_background(lambda: client.ask("echo", x=2))
    until_attended(pid, 2)
    time.sleep(0.2)
    os.kill(pid, signal.SIGTERM)
    running.join(PATIENCE), waiting.join(PATIENCE)
    assert first[0]["x"] == 1
    assert isinstance(second[0], LiveError) and "told to stop" in str(second[0])
    until(lambda: not client.address.socket.exists(), "its socket goes with it")


def test_of_many_who_start_at_once_one_does(echo: MakeClient) -> None:
    with ThreadPoolExecutor(6) as pool:
        pids = {answer["pid"] for answer in pool.map(lambda n: echo().ask("echo", n=n), range(6))}
    assert len(pids) == 1


def test_a_request_nobody_waits_for_is_not_begun(echo: MakeClient) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    until_attended(pid, 0)
    busy, first = in_background(lambda: client.ask("echo", sleep=6))
    until_attended(pid, 1)
    time.sleep(0.5)  # it is being answered by then: a request that has only arrived may be overtaken
    with pytest.raises(LiveError, match="too long"):
        client.ask("die", timeout=0.3)
    busy.join()
    assert isinstance(first[0], dict) and client.ask("echo")["pid"] == pid


def test_only_who_knows_the_token_is_heard(echo: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    client.address.publish(client.address.read_token()[:8] + "0" * 56)
    with pytest.raises(LiveError, match="token"):
        client.ask("echo")
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "not its address")
    client.ask("echo")
    monkeypatch.setattr("skillviz.live.client.VERSION", 99)
    with pytest.raises(LiveError):
        Client.ask(client, "echo")


@pytest.mark.parametrize("junk", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x7f" * 10_000, b"\x80\x04\x95"])
def test_junk_on_the_socket_disturbs_nobody(echo: MakeClient, junk: bytes) -> None:
    client = echo()
    pid = client.ask("echo")["pid"]
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as stranger:
        silent.connect(str(client.address.socket))
        stranger.connect(str(client.address.socket))
        stranger.sendall(junk)
        assert client.ask("echo", x=1) == {**client.ask("echo", x=1), "pid": pid, "x": 1}


def test_why_it_cannot_be_started_is_said(store: Path) -> None:
    client = Client(store, command=(sys.executable, "-c", "raise SystemExit('no luck today')"))
    with pytest.raises(LiveError, match="no luck today"):
        client.ask("ping")
    slow = Client(store, command=(sys.executable, "-c", "import time; time.sleep(60)"))
    with pytest.raises(LiveError, match="still starting"):
        slow.ask("ping", timeout=0.5)


def test_a_store_that_cannot_be_made_is_told_in_a_sentence(echo: MakeClient, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LiveError, match=r"file/runs cannot be made .*SKILLVIZ_RUNS"):
        echo(store=tmp_path / "file" / "runs").ask("echo")


def test_a_place_where_no_worker_can_be_met_is_told_in_a_sentence(
    echo: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *args: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(
        LiveError, match=r"cannot be started in .* \(Permission denied\); name another place in \$SKILLVIZ_LIVE"
    ):
        echo().ask("echo")


def test_the_log_of_a_worker_that_died_is_still_there_after_the_next_one_began(
    echo: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = echo()
    with pytest.raises(WorkerBug):
        client.ask("bug")
    with pytest.raises(LiveError):
        client.ask("die")
    client.ask("echo")
    log = client.address.log
    assert "ZeroDivisionError" in log.read_text()
    monkeypatch.setattr("skillviz.live.client.LONGEST_LOG", 10)
    with pytest.raises(LiveError):
        client.ask("die")
    client.ask("echo")
    assert "ZeroDivisionError" in (log.parent / "log.old.txt").read_text() and not log.read_text()


def test_a_worker_that_does_not_start_is_told_by_its_own_last_words(store: Path) -> None:
    client = Client(store, command=(sys.executable, "-c", "raise SystemExit('the first')"))
    with pytest.raises(LiveError, match="could not be started: the first"):
        client.ask("echo")
    client.command = (sys.executable, "-c", "raise SystemExit()")
    with pytest.raises(LiveError, match="it ended without a word"):
        client.ask("echo")


def test_no_more_workers_than_allowed_run_for_all_stores(
    echo: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two hundred users on live pages, one worker each would fill the memory."""
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, "2")
    clients = [echo(store=tmp_path / name) for name in "abc"]
    for client in clients[:2]:
        assert client.ask("echo", words="first")
    with pytest.raises(LiveError, match="others use all 2 workers of this dashboard; try again in some minutes"):
        clients[2].ask("echo", words="no room")
    assert clients[0].ask("echo", words="again"), "whose worker runs is answered"
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, "3")
    assert clients[2].ask("echo", words="room")


def test_an_ended_or_killed_worker_leaves_its_place(
    echo: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, "1")
    first, second, third = (echo(store=tmp_path / name, idle_seconds=0.3) for name in "abc")
    os.kill(first.ask("echo", words="first")["pid"], signal.SIGKILL)
    assert first.address.read_token(), "it could not clear up"
    assert second.ask("echo", words="second")
    until(lambda: not second.is_running(), "it still runs")
    assert third.ask("echo", words="third")


def test_a_limit_of_workers_that_is_no_number_starts_none(echo: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_WORKERS_VARIABLE, "many")
    with pytest.raises(BadInput, match="SKILLVIZ_LIVE_WORKERS is 'many'; allowed is a whole number from 1 on"):
        echo().ask("echo", words="no")
