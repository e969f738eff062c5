"""Tests of the process that reads an upload: it starts from any folder, refuses what expands, and says why it ended."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from skillviz.errors import BadData, SkillvizError
from skillviz.tasks import upload_reader
from skillviz.tasks.project import PROJECT
from skillviz.tasks.uploaded import Upload, read, rows_of
from tests.programs import program
from tests.refused import refuses
from tests.tasks.make import as_parquet

CSV = b"text,label\na good one,1\na bad one,0\n"


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("folder", [PROJECT, Path("/")], ids=["checkout", "another"])
def test_an_upload_is_read_from_any_folder(folder: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from skillviz.tasks import upload_reader\n"
        f"print(upload_reader.read('a.csv', {CSV!r}).table.num_rows)"
    )
    assert (
        subprocess.check_output(
            [sys.executable, "-c", code, str(PROJECT)],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        == b"2\n"
    )


@pytest.mark.slow
def test_files_of_several_threads_are_read_one_after_the_other() -> None:
    with ThreadPoolExecutor(4) as threads:
        rows = list(
            threads.map(
                lambda content: len(upload_reader.read("a.csv", content)),
                [CSV + b"more,1\n" * count for count in range(4)],
            )
        )
    assert rows == [2 + count for count in range(4)]


NO_MODULE = "ModuleNotFoundError: No module named 'skillviz'"
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
    refuses(BadData, ENDS[end], upload_reader.read, "a.jsonl", b'{"a": 1}')


@pytest.mark.parametrize("why", [NO_MODULE, "No such file"])
def test_a_process_that_cannot_start_says_why(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = program(tmp_path / "python", f'echo "{why}" >&2; exit 1') if why == NO_MODULE else tmp_path / "absent"
    monkeypatch.setattr(sys, "executable", str(started))
    with pytest.raises(SkillvizError, match=f"a.csv was not read, .* failed: .*{why}") as caught:
        upload_reader.read("a.csv", CSV)
    assert "GiB" not in str(caught.value) and not isinstance(caught.value, BadData)


def test_a_slow_file_is_refused_and_the_next_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(upload_reader, "SECONDS", 0.1)
        patch.setattr(sys, "executable", str(program(tmp_path / "python", "exec sleep 60")))
        refuses(
            BadData,
            "a.csv takes more than 0.1 seconds to read; an uploaded file may hold",
            upload_reader.read,
            "a.csv",
            CSV,
        )
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
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, input=b'"a.csv"\n' + CSV, capture_output=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[0])["separated_by"] == "commas"
    assert json.loads(done.stdout[done.stdout.rindex(b"[") :]) == [upload_reader.MEMORY, upload_reader.SECONDS]


@pytest.mark.slow
def test_what_needs_too_much_memory_is_refused_and_the_next_file_is_read() -> None:
    """A text of 8 KiB, repeated 600,000 times in lists, takes 5 GB."""
    texts = pa.array(["x" * 2**13]).take(pa.array([0] * 20_000))
    lists = pa.ListArray.from_arrays(pa.array(range(0, 20_001, 2), pa.int32()), texts)
    file = io.BytesIO()
    with parquet.ParquetWriter(file, pa.schema({"text": lists.type})) as writer:
        for _ in range(30):
            writer.write_table(pa.table({"text": lists}))
    assert len(file.getvalue()) < 2**20
    refuses(
        BadData,
        "bomb.parquet needs more than 2 GiB of memory to read",
        upload_reader.read,
        "bomb.parquet",
        file.getvalue(),
    )
    assert len(upload_reader.read("a.csv", CSV)) == 2


NAMES = [f"c{i}" for i in range(2_100)]
WIDE = ",".join(NAMES)
WIDE_OBJECT = json.dumps(dict.fromkeys(NAMES, 1))


def repeated(length: int, rows: int) -> bytes:
    """Return a file with one text of `length` letters, `rows` times, which Parquet stores once."""
    return as_parquet(
        pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * length]))})
    )


def in_a_list() -> bytes:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["x" * 100]))
    return as_parquet(pa.table({"text": pa.ListArray.from_arrays(pa.array([0, 2]), values)}))


def lists_of(elements: pa.Array) -> bytes:
    """Return ten rows that share these elements; each is an object in Python, but a bit or nothing in the file."""
    parts = pa.array(np.linspace(0, len(elements), 11).astype(np.int32))
    return as_parquet(pa.table({"text": ["x"] * 10, "y": pa.ListArray.from_arrays(parts, elements)}))


BOMBS: dict[str, tuple[Callable[[], str | bytes], str]] = {
    "repeated.parquet": (lambda: repeated(2**21, 1000), "more than 2 GiB of memory"),
    "one long.parquet": (lambda: repeated(2**26, 100), "more than 2 GiB of memory"),
    "less.parquet": (lambda: repeated(2**20, 300), "'text' of .* more than 256 MiB"),
    "wide.parquet": (lambda: as_parquet(pa.table({name: [1] for name in NAMES})), "more than 2,000 columns"),
    "rows.parquet": (lambda: as_parquet(pa.table({"label": pa.array([0] * 1_000_001, pa.int8())})),
                     "more than 1,000,000 rows"),
    "bits.parquet": (lambda: as_parquet(pa.table({f"c{i}": pa.array(np.zeros(110_000, bool)) for i in range(200)})),
                     "20,000,000 cells"),
    "cells.csv": (lambda: WIDE.partition(",c800")[0] + "\n" + ("1," * 799 + "1\n") * 26_000, "20,000,000 cells"),
    "wide.csv": (lambda: WIDE + "\n" + WIDE + "\n", "2,000 columns"),
    "wide.tsv": (lambda: ("\t".join(NAMES) + "\n") * 2, "2,000 columns"),
    "long.csv": (lambda: "text,label\n" + "a,b\n" * 1_000_001, "1,000,000 rows"),
    "keys.jsonl": (lambda: "\n".join(json.dumps({n: 1}) for n in NAMES), "2,000 columns"),
    "packed.csv.gz": (lambda: gzip.compress(b"text,label\n" + b"a" * (257 << 20) + b",1\n", 1),
                      "256 MiB once it is decompressed"),
    # Files that the reader splits differently from a first look.
    "header.csv": (lambda: '"te\nxt",' + WIDE + "\n" + ",".join("1" * 2_101) + "\n", "2,000 columns"),
    "joined.jsonl": (lambda: '{"a": 1}' + WIDE_OBJECT, "line 1 is not JSON"),
    "figures.jsonl": (lambda: WIDE_OBJECT[:-1] + ', "a": ' + "1" * 5000 + "}", "not JSON"),
    "zip.jsonl": (lambda: b"PK\x03\x04" + b"0" * 100, "a workbook or a zip file"),
    "null.json": (lambda: "null", "holds a single value and no rows"),
    "later null.jsonl": (lambda: " \n\nnull\n", "holds a single value and no rows"),
    "nested.jsonl": (lambda: '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply"),
}  # fmt: skip
NO_BITS, NO_LISTS = np.zeros(600_000, bool), np.zeros(1_200_001, np.int32)
UNUSABLE: dict[str, tuple[Callable[[], str | bytes], str, str]] = {
    "fields.parquet": (
        lambda: lists_of(pa.StructArray.from_arrays([pa.array(NO_BITS)], ["a"])), "y", "lists of the type struct"),
    "lists.parquet": (
        lambda: lists_of(pa.ListArray.from_arrays(NO_LISTS, pa.array([], pa.bool_()))), "y", "lists of the type list"),
    "bits in lists.parquet": (lambda: lists_of(pa.array(np.zeros(1_200_000, bool))), "y", "1,000,000 values"),
    "list.parquet": (in_a_list, "text", "lists of the type dictionary"),
    "deep.json": (lambda: json.dumps([{"b": 1, "a": {n: i}} for i, n in enumerate(NAMES)]), "a", "objects"),
}  # fmt: skip
"""Files with one column that is too large: no task can use it, and it is not decoded."""


def upload(name: str, content: str | bytes) -> Upload:
    return Upload(name, content if isinstance(content, bytes) else content.encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", UNUSABLE)
def test_a_column_that_is_too_much_is_not_read(name: str) -> None:
    make, column, reason = UNUSABLE[name]
    try:
        rows = read(upload(name, make()))
        assert column not in rows.frame and reason in rows.left_out[column]
    except BadData as error:
        assert f"column '{column}' of {name}" in str(error) and reason in str(error), "it is the only one"


@pytest.mark.slow
def test_lines_within_cells_are_no_rows() -> None:
    row = '"' + "good\n" * 100 + '"' + ",1" * 119 + "\n"
    assert len(rows_of(upload("reviews.csv", (",".join(f"c{i}" for i in range(120)) + "\n") + row * 500))) == 500


@pytest.mark.slow
@pytest.mark.cases(0, 5)
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_becomes_large_is_refused_by_its_name(name: str) -> None:
    make, reason = BOMBS[name]
    refuses(BadData, rf"(?s)\A(?!.*/tmp)(?=.*{re.escape(name)}).*{reason}", rows_of, upload(name, make()))
