"""`dashboard`: start Streamlit on the stored runs."""

from __future__ import annotations

import importlib.util
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.errors import BadInput
from skillviz.runs.store import store_root
from skillviz.serving.settings import RUNS_VARIABLE, settings
from skillviz.tasks.project import app_root, project_root


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
    words = ["run", str(script), "--server.port", str(port)]
    if not browser:
        words += ["--server.headless", "true"]
    if runs_dir is not None or settings.runs:
        os.environ[RUNS_VARIABLE] = str(store_root(runs_dir).resolve())
    os.chdir(project_root())  # paths are relative to it; Streamlit reads .streamlit/ next to the script
    _serve(words)


def _serve(words: list[str]) -> None:
    """Runs Streamlit in this process, so that ending the command also ends its server; Ctrl-C is its normal end."""
    # heavy imports; Streamlit reads its settings when it is imported
    from click import Abort
    from streamlit.web import cli

    with suppress(Abort):
        cli.main(words, prog_name="streamlit", standalone_mode=False)


def dashboard_script() -> Path:
    """The path of dashboard.py, next to the package or inside an installed one; raises BadInput if it is missing."""
    script = app_root() / "dashboard.py"
    if not script.is_file():
        raise BadInput(f"the dashboard's pages are not at {script.parent}; install skillviz again, or use a checkout.")
    if importlib.util.find_spec("streamlit") is None:
        raise BadInput("streamlit is not installed; install the packages of requirements.txt.")
    return script


def _refuse_taken(port: int) -> None:
    """Raises BadInput if another program listens on the port; Streamlit would end without advice."""
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise BadInput(f"port {port} is in use, perhaps by another dashboard; choose another with --port.")
