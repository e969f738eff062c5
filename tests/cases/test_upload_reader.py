"""Tests of the process that reads uploads: it starts from any folder, is shared, and is replaced if it ends."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyarrow import parquet

from skillviz.errors import BadData, SkillvizError
from skillviz.tasks import upload_reader
from skillviz.tasks.project import PROJECT
from skillviz.tasks.upload_reader import UploadReader
from tests.programs import program

CSV = b"text,label\na good one,1\na bad one,0\n"


@pytest.fixture
def reader() -> Iterator[UploadReader]:
    """Return a reader for this test only."""
    mine = UploadReader()
    yield mine
    mine.end()


def process_of(reader: UploadReader) -> psutil.Process:
    """Return the reader's process."""
    assert reader._process is not None
    return psutil.Process(reader._process.pid)


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("folder", [PROJECT, Path("/")], ids=["checkout", "another"])
def test_an_upload_is_read_from_any_folder_and_the_process_ends_with_its_server(folder: Path) -> None:
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from skillviz.tasks.upload_reader import reader\n"
        f"print(reader.read('a.csv', {CSV!r}).table.num_rows, reader._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(PROJECT)], cwd=folder, capture_output=True, text=True, env=clean
    )
    rows, pid = map(int, done.stdout.split())
    assert rows == 2 and done.returncode == -signal.SIGKILL, done.stderr
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=10)


def test_one_process_reads_all_files_also_of_several_threads(reader: UploadReader) -> None:
    reader.start()
    first = process_of(reader)
    contents = [CSV + b"more,1\n" * count for count in range(8)]
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda content: len(reader.read("a.csv", content)), contents))
    assert rows == [2 + count for count in range(8)] and process_of(reader) == first


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_a_file_that_crashes_its_reader_leaves_the_server_up(
    reader: UploadReader, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(program(tmp_path / "python", f"kill -{number} $$")))
        with pytest.raises(BadData, match="a.jsonl cannot be read as JSONL: its reader crashes. Save it again"):
            reader.read("a.jsonl", b'{"a": 1}')
    assert len(reader.read("a.csv", CSV)) == 2


@pytest.mark.slow
def test_one_that_is_killed_between_two_files_is_replaced(reader: UploadReader) -> None:
    reader.read("a.csv", CSV)
    first = process_of(reader)
    first.kill()
    first.wait()
    assert len(reader.read("a.csv", CSV)) == 2 and process_of(reader) != first


def test_a_process_that_cannot_start_says_why(
    reader: UploadReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "ModuleNotFoundError: No module named 'skillviz'"
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", f'echo "{why}" >&2; exit 1')))
    with pytest.raises(SkillvizError, match=f"a.csv was not read, .* failed: {why}") as caught:
        reader.read("a.csv", CSV)
    assert "GiB" not in str(caught.value) and not isinstance(caught.value, BadData)


@pytest.mark.slow
def test_a_slow_file_is_refused_and_its_process_replaced(reader: UploadReader, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(upload_reader, "SECONDS", 0)
        reader.start()
        process_of(reader).suspend()
        with pytest.raises(BadData, match="a.csv takes more than 0 seconds to read; an uploaded file may hold"):
            reader.read("a.csv", CSV)
    assert len(reader.read("a.csv", CSV)) == 2


def test_a_file_that_waits_too_long_for_another_is_asked_to_try_again(
    reader: UploadReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_reader, "SECONDS", 0.01)
    with reader._lock, pytest.raises(SkillvizError, match="other uploads are being read, .* try again"):
        reader.read("a.csv", CSV)


def test_limits_count_for_each_file_alone(reader: UploadReader) -> None:
    reader.read("a.csv", CSV)
    soft, _ = psutil.Process(process_of(reader).pid).rlimit(psutil.RLIMIT_DATA)
    assert soft == upload_reader.MEMORY
    limit, _ = process_of(reader).rlimit(psutil.RLIMIT_CPU)
    assert upload_reader.SECONDS <= limit <= upload_reader.SECONDS + 10


@pytest.mark.slow
def test_what_needs_too_much_memory_is_refused_and_the_next_file_is_read(reader: UploadReader) -> None:
    """A text of 8 KiB, repeated 600,000 times in lists, takes 5 GB."""
    texts = pa.array(["x" * 2**13]).take(pa.array([0] * 20_000))
    lists = pa.ListArray.from_arrays(pa.array(range(0, 20_001, 2), pa.int32()), texts)
    with io.BytesIO() as file:
        with parquet.ParquetWriter(file, pa.schema({"text": lists.type})) as writer:
            for _ in range(30):
                writer.write_table(pa.table({"text": lists}))
        content = file.getvalue()
    assert len(content) < 2**20
    with pytest.raises(BadData, match="bomb.parquet needs more than 2 GiB of memory to read"):
        reader.read("bomb.parquet", content)
    assert len(reader.read("a.csv", CSV)) == 2
