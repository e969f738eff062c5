"""`dashboard`: start Streamlit on the stored runs."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.errors import BadInput
from skillviz.runs.store import store_root
from skillviz.tasks.project import PROJECT, RUNS_VARIABLE


def dashboard(
    runs_dir: options.RunsDir = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, rich_help_panel=options.WHERE, help="The port on this machine.")
    ] = 8501,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", rich_help_panel=options.WHERE, help="Open a browser window.")
    ] = True,
) -> None:
    """Open the dashboard on the stored runs, yours and those that ship; Ctrl-C ends it.

    It listens on this machine only (127.0.0.1) and needs no model and no GPU.
    """
    script = dashboard_script()
    _refuse_taken(port)
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    if not browser:
        command += ["--server.headless", "true"]
    environment = dict(os.environ)
    if runs_dir is not None or environment.get(RUNS_VARIABLE):
        environment[RUNS_VARIABLE] = str(store_root(runs_dir).resolve())
    # the theme and the loopback address stand in .streamlit/ beside the script
    raise typer.Exit(_wait(subprocess.Popen(command, cwd=script.parent, env=environment)))


def dashboard_script() -> Path:
    """The path of dashboard.py, which stands beside the package; raises BadInput where it is missing."""
    script = PROJECT / "dashboard.py"
    if not script.is_file():
        raise BadInput(f"the dashboard's pages are not at {script.parent}; run it from a clone of the project.")
    if importlib.util.find_spec("streamlit") is None:
        raise BadInput("streamlit is not installed; install the packages of requirements.txt.")
    return script


def _refuse_taken(port: int) -> None:
    """Raises BadInput where another program listens on the port; Streamlit would end without saying what to do."""
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise BadInput(f"port {port} is in use, perhaps by another dashboard; choose another with --port.")


def _wait(server: subprocess.Popen[bytes]) -> int:
    """The server's exit code; Ctrl-C reaches it too, and is its normal end."""
    try:
        return server.wait()
    except KeyboardInterrupt:
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.terminate()
        return 0
