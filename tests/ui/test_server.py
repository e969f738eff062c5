"""The server beside the pages: its headers, the browser that it opens, and that it is ready when it answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from skillviz.ui import server
from tests.e2e.server import free_port, served
from tests.test_arrows import PROJECT


async def _headers(kind: str) -> list[tuple[bytes, bytes]]:
    sent: list[dict] = []

    async def app(scope: dict, receive: object, send) -> None:
        await send({"type": f"{kind}.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": f"{kind}.response.body", "body": b""})

    async def send(message) -> None:
        sent.append(message)

    await server.FramesRefused(app)({"type": kind}, None, send)
    return sent[0]["headers"]


def test_no_other_site_may_frame_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(server.ANCESTORS, raising=False)
    assert dict(asyncio.run(_headers("http"))) == {
        b"a": b"b", b"content-security-policy": b"frame-ancestors 'self'", b"x-frame-options": b"SAMEORIGIN",
    }  # fmt: skip
    assert asyncio.run(_headers("websocket")) == [(b"a", b"b")]


def test_a_class_may_frame_it_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server.ANCESTORS, " https://class.example\n https://b.example;script-src * ")
    assert server.frame_headers() == [(b"content-security-policy", b"frame-ancestors 'self' https://class.example")]


def test_every_answer_has_the_header(tmp_path: Path) -> None:
    with served(PROJECT, more={"SKILLVIZ_RUNS": str(tmp_path), server.ANCESTORS: ""}) as address:
        for place in ("", "/region", "/_stcore/health", "/static/nothing"):
            try:
                answer = urllib.request.urlopen(address + place, timeout=30)
            except urllib.error.HTTPError as error:
                answer = error
            assert answer.headers["content-security-policy"] == "frame-ancestors 'self'", place


def test_it_opens_the_browser_where_there_is_a_screen(tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{opened}"\n')
    browser.chmod(0o755)
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
