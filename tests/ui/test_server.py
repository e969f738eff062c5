"""Tests of the server around the pages: its headers, the browser that it opens, and its readiness when it answers."""

import asyncio
import base64
import gc
import http.client
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from skillviz.serving.settings import ANCESTORS_VARIABLE
from skillviz.ui import cache, server
from tests.e2e.server import free_port, served
from tests.programs import program
from tests.serving.test_guard import answered
from tests.test_arrows import PROJECT


def test_a_page_names_plotlys_code_so_that_the_browser_loads_it_at_once() -> None:
    (middleware,) = server.middleware()
    guarded = partial(middleware.cls, **middleware.kwargs)
    page, style = (
        dict(answered("http", header=(b"content-type", kind), wrap=guarded)[0]["headers"])
        for kind in (b"text/html; charset=utf-8", b"text/css")
    )
    file = page[b"link"].decode().split(">")[0].removeprefix("<./")
    assert (Path(server.st.__file__).parent / "static" / file).stat().st_size > 1_000_000 and b"link" not in style


@pytest.mark.parametrize(("base", "path"), [("", "/pdf"), ("/lab/", "/lab/pdf")])
def test_what_a_pdf_needs_has_an_address(monkeypatch: pytest.MonkeyPatch, base: str, path: str) -> None:
    monkeypatch.setattr(server.st, "get_option", {"server.baseUrlPath": base}.__getitem__)
    (mount,) = server.routes()
    script = (PROJECT / "skillviz/ui/svg_to_pdf.js").read_text()
    faces = [f"{face}.ttf" for face in re.findall(r'"(SourceSans3-\w+)"', script)]
    found = [bool(mount.app.lookup_path(file)[1]) for file in (*re.findall(r'"(\S+\.js)"', script), *faces)]
    assert (mount.path, found) == (path, [True] * 5)


def upgraded(address: str, origin: str) -> int:
    """Return the status of a websocket request from a page of this origin."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Origin": origin,
               "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode()}  # fmt: skip
    with closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)) as connection:
        connection.request("GET", "/_stcore/stream", headers=headers)
        return connection.getresponse().status


@pytest.mark.slow
def test_a_refused_origin_asks_nobody_for_an_address(tmp_path: Path) -> None:
    """For an unknown origin Streamlit looks up its public address, and logs a message if it finds none."""
    nobody = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    with served(PROJECT, tmp_path, {"SKILLVIZ_RUNS": str(tmp_path), **nobody}) as address:
        assert [upgraded(address, origin) for origin in ("https://evil.example", address)] == [403, 101]
    assert "external IP" not in (tmp_path / "server.log").read_text()


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
    runner = tomllib.loads((PROJECT / ".streamlit/config.toml").read_text())["runner"]
    assert runner["postScriptGC"] is False  # otherwise each script scans all objects that are not frozen

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
    browser, port = program(tmp_path / "browser", f'echo "$1" > "{opened}"'), free_port()
    streamlit = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.headless", "false"]
    process = subprocess.Popen(
        [*streamlit, "--server.port", str(port)], cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "BROWSER": f"{browser} %s", "SKILLVIZ_RUNS": str(tmp_path)},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not (opened.exists() and opened.read_text()) and time.monotonic() < deadline:
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
