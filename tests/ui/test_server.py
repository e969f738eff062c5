"""Tests of the server around the pages: its headers, the browser that it opens, and its readiness when it answers."""

from __future__ import annotations

import asyncio
import base64
import gc
import http.client
import os
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from skillviz.tasks.project import ANCESTORS_VARIABLE
from skillviz.ui import cache, server
from tests.e2e.server import free_port, served
from tests.programs import program
from tests.test_arrows import PROJECT


def answered(
    kind: str, origin: str | None = None, header: tuple[bytes, bytes] = (b"a", b"b"), path: str = "/"
) -> list[dict]:
    """Return the answer to a request of this origin from an app behind the guard that sends this header."""
    sent: list[dict] = []

    async def app(scope: dict, receive: object, send) -> None:
        await send({"type": f"{kind}.response.start", "status": 200, "headers": [header]})

    async def send(message) -> None:
        sent.append(message)

    headers = [] if origin is None else [(b"origin", origin.encode())]
    scope = {"type": kind, "method": "GET", "path": path, "headers": headers}
    asyncio.run(server.Guard(app)(scope, None, send))
    return sent


def test_no_other_site_may_frame_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ANCESTORS_VARIABLE, raising=False)
    assert dict(answered("http")[0]["headers"]) == {
        b"a": b"b", b"content-security-policy": b"frame-ancestors 'self'", b"x-frame-options": b"SAMEORIGIN",
    }  # fmt: skip
    assert answered("websocket")[0]["headers"] == [(b"a", b"b")]


def test_a_page_names_plotlys_code_so_that_the_browser_loads_it_at_once() -> None:
    headers = dict(answered("http", header=(b"content-type", b"text/html; charset=utf-8"))[0]["headers"])
    file = headers[b"link"].decode().split(">")[0].removeprefix("<./")
    assert (Path(server.st.__file__).parent / "static" / file).stat().st_size > 1_000_000
    assert b"link" not in dict(answered("http", header=(b"content-type", b"text/css"))[0]["headers"])


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example:8501", "http://", "http://["]
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    assert answered("http", origin)[0]["status"] == 403
    assert answered("websocket", origin) == [{"type": "websocket.close", "code": server.POLICY, "reason": ""}]


def test_the_sizes_of_caches_are_nobodys_business() -> None:
    assert (
        answered("http", path="/_stcore/metrics")[0]["status"]
        == answered("http", path="/a/_stcore/metrics/")[0]["status"]
        == 404
    )


@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_a_websocket_ends_at_a_message_that_no_page_sends(kind: str) -> None:
    made, heard, sent = {"bytes": b"\0", "text": "x"}[kind], [], []  # b"xx" would be a message of developers
    messages = [
        {"type": "websocket.receive", kind: made * length} for length in (10, server.LONGEST, server.LONGEST + 1)
    ]

    async def app(scope: dict, receive, send) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            heard.append(len(message[kind]))

    async def receive() -> dict:
        return messages.pop(0)

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(server.Guard(app)({"type": "websocket", "headers": []}, receive, send))
    assert heard == [10, server.LONGEST] and sent == [{"type": "websocket.close", "code": server.TOO_LONG}]


@pytest.mark.parametrize("origin", [None, "http://localhost:8501", "http://127.0.0.1:9", "https://skills.example"])
def test_its_own_pages_are_answered(origin: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "browser.serverAddress": "skills.example",
        "server.address": "127.0.0.1",
        "server.corsAllowedOrigins": [],
    }
    monkeypatch.setattr(server.st, "get_option", options.get)
    assert answered("http", origin)[0]["status"] == 200


def upgraded(address: str, origin: str) -> int:
    """Return the status of a websocket request from a page of this origin."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Origin": origin}
    headers["Sec-WebSocket-Key"] = base64.b64encode(bytes(16)).decode()
    with closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)) as connection:
        connection.request("GET", "/_stcore/stream", headers=headers)
        with connection.getresponse() as answer:
            return answer.status


@pytest.mark.slow
def test_a_refused_origin_asks_nobody_for_an_address(tmp_path: Path) -> None:
    """For an unknown origin Streamlit looks up its public address, and logs a message if it finds none."""
    nobody = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    with served(PROJECT, tmp_path, {"SKILLVIZ_RUNS": str(tmp_path), **nobody}) as address:
        assert upgraded(address, "https://evil.example") == 403
        assert upgraded(address, address) == 101
    assert "external IP" not in (tmp_path / "server.log").read_text()


def test_a_class_may_frame_it_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANCESTORS_VARIABLE, " https://class.example\n https://b.example;script-src * ")
    assert server.frame_headers() == [(b"content-security-policy", b"frame-ancestors 'self' https://class.example")]


@pytest.mark.slow
def test_every_answer_has_the_header(tmp_path: Path) -> None:
    with served(PROJECT, more={"SKILLVIZ_RUNS": str(tmp_path), ANCESTORS_VARIABLE: ""}) as address:
        for place in ("", "/region", "/_stcore/health", "/static/nothing"):
            try:
                answer = urllib.request.urlopen(address + place, timeout=30)
            except urllib.error.HTTPError as error:
                answer = error
            assert answer.headers["content-security-policy"] == "frame-ancestors 'self'", place


def test_modules_and_records_are_kept_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "read_shared", lambda: None)
    monkeypatch.setattr(server.webbrowser, "open", lambda address: None)
    config = tomllib.loads((PROJECT / ".streamlit/config.toml").read_text())
    assert config["runner"]["postScriptGC"] is False  # otherwise each script scans all objects that are not frozen

    async def ready() -> int:
        async with server.getting_ready(None):
            for thread in threading.enumerate():
                if thread.name == "reading-runs":
                    thread.join()
            return gc.get_freeze_count()

    try:
        assert asyncio.run(ready()) > 100_000
    finally:
        gc.unfreeze()


@pytest.mark.slow
def test_it_opens_the_browser_where_there_is_a_screen(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = program(tmp_path / "browser", f'echo "$1" > "{opened}"')
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(port)]
    environment = {**os.environ, "BROWSER": f"{browser} %s", "SKILLVIZ_RUNS": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "--server.headless", "false"], cwd=PROJECT, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(600):
            if opened.exists() and opened.read_text():
                break
            time.sleep(0.1)
        assert opened.read_text() == f"http://127.0.0.1:{port}\n", "it asks for nothing first"
    finally:
        process.terminate()
        process.wait(30)


HEAPS = """
import ctypes, sys, threading
from skillviz.ui import server
server._keep_little_free_memory()
libc, both = ctypes.CDLL("libc.so.6"), threading.Barrier(12)

def take():
    both.wait()
    held = [bytearray(5000) for _ in range(200)]
    both.wait()

threads = [threading.Thread(target=take) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
def test_the_threads_that_make_pages_share_two_heaps(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", HEAPS, str(tmp_path / "heaps")], cwd=PROJECT, check=True, timeout=120)
    assert 1 <= (tmp_path / "heaps").read_text().count("<heap nr=") <= server.MALLOC[-8]
