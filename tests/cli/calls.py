"""Helpers that call the command line from a test, in this process or in a new one."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer import testing
from typer.testing import CliRunner

from skillviz.cli import app

PROJECT = Path(__file__).resolve().parents[2]

# Each CliRunner reads the signature of every command, a fifth of these tests' time; once per process is enough.
testing._get_command = cache(testing._get_command)


@dataclass(frozen=True)
class Said:
    """The output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on the last line of stdout."""
        return json.loads(self.out.strip().splitlines()[-1])


def call(*words: object) -> Said:
    """Run the command in this process; re-raise an exception that the command line does not handle."""
    done = CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(w) for w in words], prog_name="python -m skillviz")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(done.exit_code, done.stdout, done.stderr)


def done(*words: object) -> Said:
    """Run the command, which must end well."""
    said = call(*words)
    assert said.code == 0, said.err
    return said


def in_one_line(text: str) -> str:
    """Return the words of a message without its line breaks and its frame."""
    return " ".join(text.replace("│", " ").split())


def refused(said: Said, *facts: str) -> None:
    """Assert that a command ended as bad use, with these facts in its message."""
    assert said.code == 2 and "Traceback" not in said.err + said.out, said.err
    assert [fact for fact in facts if fact not in in_one_line(said.err)] == [], said.err


def sentence(said: Said, *facts: str) -> None:
    """Assert that a command was refused in one line of its own, with these facts."""
    refused(said, *facts)
    assert said.err.count("\n") == 1, said.err


def started(*words: object, **options: Any) -> subprocess.Popen[str]:
    """Start the command in its own process, which Ctrl-C reaches.

    A shell ignores SIGINT in background processes, and children inherit that; this function restores it.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "skillviz", *(str(w) for w in words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PROJECT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )
