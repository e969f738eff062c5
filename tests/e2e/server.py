"""Start a dashboard as a separate process and wait until its page is idle; for tests, pictures and measurements."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 240_000  # milliseconds; a shared machine can be slow

STILL = """() => document.querySelector("[data-testid='stApp'][data-test-script-state='notRunning']")
  && document.querySelector("h1") && !document.querySelector("[data-stale='true'], [data-testid='stSkeleton']")"""


@contextmanager
def served(
    project: Path, logs: Path | None = None, more: Mapping[str, str] | None = None, port: int = 0
) -> Iterator[str]:
    """Yield the address of a dashboard of the project in this folder, on this port or a free one; end it afterwards.

    `more` are environment variables; `logs` is the folder for the server's output.
    """
    server, address = started(project, logs, more, port)
    try:
        yield address
    finally:
        server.terminate()
        try:
            server.wait(60)  # a busy machine gives it no time to end by itself
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def started(
    project: Path, logs: Path | None = None, more: Mapping[str, str] | None = None, port: int = 0
) -> tuple[subprocess.Popen[bytes], str]:
    """Start a dashboard like `served` that the caller must end: return the process and its address when it answers."""
    port = port or free_port()
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.headless", "true"]
    target = Path(logs) / "server.log" if logs else Path(os.devnull)
    variables = {**os.environ, "SKILLVIZ_ROOTS": tempfile.gettempdir(), **(more or {})}
    with target.open("ab") as log:
        server = subprocess.Popen(
            [*command, "--server.port", str(port)], cwd=project, env=variables, stdout=log,
            stderr=log,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_up(address)
    except TimeoutError:
        server.kill()
        raise
    return server, address


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(address: str) -> None:
    """Return when the server answers; raise TimeoutError if it does not."""
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"the dashboard at {address} did not answer")


def settle(page: Any) -> None:
    """Return when no script runs, a title is present and no stale element is left, all at the same time."""
    page.wait_for_function(STILL)
    assert page.locator("[data-testid='stException']").count() == 0, page.locator("body").inner_text()
