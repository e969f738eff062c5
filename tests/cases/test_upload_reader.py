"""Tests of the process that reads an upload: it starts from any folder, and says why it ended."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from skillviz.errors import BadData, SkillvizError
from skillviz.tasks import upload_reader
from skillviz.tasks.project import PROJECT
from tests.programs import program

CSV = b"text,label\na good one,1\na bad one,0\n"


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("folder", [PROJECT, Path("/")], ids=["checkout", "another"])
def test_an_upload_is_read_from_any_folder(folder: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from skillviz.tasks import upload_reader\n"
        f"print(upload_reader.read('a.csv', {CSV!r}).table.num_rows)"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", code, str(PROJECT)]
    assert subprocess.run(command, cwd=folder, capture_output=True, env=clean, check=True).stdout == b"2\n"


@pytest.mark.slow
def test_files_of_several_threads_are_read_one_after_the_other() -> None:
    contents = [CSV + b"more,1\n" * count for count in range(4)]
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda content: len(upload_reader.read("a.csv", content)), contents))
    assert rows == [2 + count for count in range(4)]


ENDS = {
    "kill -SEGV $$": "a.jsonl cannot be read as JSONL: its reader crashes. Save it again",
    "kill -BUS $$": "its reader crashes",
    "kill -ABRT $$": "its reader crashes",
    "kill -XCPU $$": "a.jsonl takes more than 30 seconds to read; an uploaded file may hold",
    "echo bad_alloc >&2; exit 1": "needs more than 2 GiB of memory",
}


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("end", ENDS)
def test_a_file_that_ends_its_reader_is_refused(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", end)))
    with pytest.raises(BadData, match=ENDS[end]):
        upload_reader.read("a.jsonl", b'{"a": 1}')


def test_a_process_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "ModuleNotFoundError: No module named 'skillviz'"
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", f'echo "{why}" >&2; exit 1')))
    with pytest.raises(SkillvizError, match=f"a.csv was not read, .* failed: {why}") as caught:
        upload_reader.read("a.csv", CSV)
    assert "GiB" not in str(caught.value) and not isinstance(caught.value, BadData)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with pytest.raises(SkillvizError, match="a.csv was not read, .* failed: .*No such file"):
        upload_reader.read("a.csv", CSV)


def test_a_slow_file_is_refused_and_the_next_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(upload_reader, "SECONDS", 0.1)
        patch.setattr(sys, "executable", str(program(tmp_path / "python", "exec sleep 60")))
        with pytest.raises(BadData, match="a.csv takes more than 0.1 seconds to read; an uploaded file may hold"):
            upload_reader.read("a.csv", CSV)
    assert len(upload_reader.read("a.csv", CSV)) == 2


def test_a_file_that_waits_too_long_for_another_is_asked_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_reader, "SECONDS", 0.01)
    with upload_reader._turn, pytest.raises(SkillvizError, match="other uploads are being read, .* try again"):
        upload_reader.read("a.csv", CSV)


def test_the_process_has_limits() -> None:
    limits = "[resource.getrlimit(limit)[0] for limit in (resource.RLIMIT_DATA, resource.RLIMIT_CPU)]"
    code = (
        f"import json, resource\nfrom skillviz.tasks import upload_reader as u\nu.main()\nprint(json.dumps({limits}))"
    )
    command, request = [sys.executable, "-c", code], b'"a.csv"\n' + CSV
    done = subprocess.run(command, cwd=PROJECT, input=request, capture_output=True, check=True)
    assert json.loads(done.stdout.splitlines()[0])["separated_by"] == "commas"
    assert json.loads(done.stdout[done.stdout.rindex(b"[") :]) == [upload_reader.MEMORY, upload_reader.SECONDS]


@pytest.mark.slow
def test_what_needs_too_much_memory_is_refused_and_the_next_file_is_read() -> None:
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
        upload_reader.read("bomb.parquet", content)
    assert len(upload_reader.read("a.csv", CSV)) == 2
