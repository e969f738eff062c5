"""Tests of terminals that lack a character, and of closed or full outputs: the command completes, the run is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillviz.commands import process
from skillviz.commands.process import Sink
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from tests.cli.calls import PROJECT
from tests.runs.conftest import made
from tests.tiny import tiny_pair, tiny_task

__all__ = ["made"]

PYTHON = f"'{sys.executable}' -m skillviz"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell line with the command as $S; for a pipe, `code` is the exit code of its first part."""
    given = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PROJECT), "S": PYTHON, **environment}
    words = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(words, env={**os.environ, **given}, capture_output=True, timeout=300)


@pytest.mark.slow
@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    "terminal",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_every_sign_is_written_in_the_terminal_s_encoding(made: Run, terminal: dict[str, str]) -> None:
    encoding = terminal.get("PYTHONIOENCODING", "ascii")
    said = shell(f"eval $S runs show '{made.path}' --json", **terminal)
    words = said.stdout.decode(encoding)
    assert said.returncode == 0 and not said.stderr, said.stderr
    assert made.id in words and "-" in words and "\ufffd" not in words


@pytest.mark.nightly
def test_a_run_is_stored_though_nobody_reads_on(tmp_path: Path) -> None:
    """The reader closes after the first line, before the search begins, and the terminal cannot print a dash."""
    tiny_pair(tmp_path)
    task = tiny_task(tmp_path)
    words = f"localize --base '{tmp_path}/base' --finetuned '{tmp_path}/finetuned' --task '{task}' --size 5%"
    said = shell(
        f"eval $S {words} --steps 2 --device cpu --runs-dir '{tmp_path}/runs' | true", PYTHONIOENCODING="ascii"
    )
    (run,) = Store(tmp_path / "runs").list()
    assert run.record.status == "finished" and Store(tmp_path / "runs").verify(run.id) == []
    assert b"Traceback" not in said.stderr and b"Standard output was closed" in said.stderr, said.stderr.decode()
    assert said.returncode == 2


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize(
    ("place", "words"),
    [(">&-", "was closed"), ("> /dev/full", "No space left on device"), ("| true", "was closed"), (">&- 2>&-", "")],
)
def test_an_output_that_takes_nothing_is_told_at_the_end(made: Run, place: str, words: str) -> None:
    said = shell(f"eval $S runs show '{made.path}' --json {place}")
    assert said.returncode == 2 and b"Traceback" not in said.stderr
    assert words in said.stderr.decode() and len(said.stderr.splitlines()) == bool(words)


@pytest.mark.nightly
def test_where_only_the_remarks_are_lost_the_result_is_whole(made: Run) -> None:
    said = shell(f"eval $S runs show '{made.path}' --json 2>&-")
    assert said.returncode == 0 and made.id.encode() in said.stdout.splitlines()[-1]
    assert shell("eval $S runs show nothing-like-it 2>&-").returncode == 2


def test_what_is_written_after_an_error_is_lost_and_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = Sink(writer)
    assert sink.write(b"abc") == 3 and sink.has_lost and isinstance(sink.error, BrokenPipeError)
    assert sink.write(b"abcd") == 4
    os.close(writer)


def test_a_closed_descriptor_is_taken_by_no_file(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    sink = Sink(writer)
    with (tmp_path / "file").open("wb") as file:
        assert file.fileno() != writer
        assert sink.error is not None and sink.write(b"lost") == 4 and not sink.isatty()
    assert (tmp_path / "file").read_bytes() == b""
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("text", ["5.0 (4.1–6.2)", "naïve · 3 × 4 → 12", "half \ud800", "日本"])
def test_signs_are_replaced_one_by_one(text: str) -> None:
    process.codecs.register_error(process.ERRORS, process._plainer)
    for encoding in ("ascii", "latin-1", "cp1252", "utf-8"):
        written = text.encode(encoding, process.ERRORS).decode(encoding)
        assert written and all(sign in written for sign in text if sign.isascii())
