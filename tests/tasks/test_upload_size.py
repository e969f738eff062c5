"""Small files that become large are refused before the server reads them."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from skillviz.errors import BadData
from skillviz.tasks import upload_size
from skillviz.tasks.reading import depth
from skillviz.tasks.uploaded import Upload, rows_of
from tests.programs import program

pytestmark = pytest.mark.slow


def _repeated(path: Path, length: int, rows: int) -> None:
    """One text of `length` letters, `rows` times, which Parquet stores once."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * length]))
    parquet.write_table(pa.table({"text": values}), path)


def _wide_parquet(path: Path) -> None:
    parquet.write_table(pa.table({f"c{i}": [i] for i in range(300)}), path)


def _many_rows(path: Path) -> None:
    parquet.write_table(pa.table({"label": pa.array([0] * 1_000_001, pa.int8())}), path)


def _in_a_list(path: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["x" * 100]))
    parquet.write_table(pa.table({"text": pa.ListArray.from_arrays(pa.array([0, 2]), values)}), path)


def _lists(path: Path, elements: pa.Array) -> None:
    """Ten rows that share these elements, each of which is an object in Python and a bit or nothing in the file."""
    parts = pa.array(np.linspace(0, len(elements), 11).astype(np.int32))
    parquet.write_table(pa.table({"text": ["x"] * 10, "y": pa.ListArray.from_arrays(parts, elements)}), path)


def _fields(count: int) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(np.zeros(count, bool))], ["a"])


def _empty_lists(count: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.bool_()))


def _many_bits(path: Path) -> None:
    parquet.write_table(pa.table({f"c{i}": pa.array(np.zeros(30_000, bool)) for i in range(200)}), path)


WIDE = ",".join(f"c{i}" for i in range(300))
WIDE_OBJECT = json.dumps(dict.fromkeys(WIDE.split(","), 1))
BOMBS = {
    "repeated.parquet": (lambda path: _repeated(path, 2**21, 1000), "more than 256 MiB"),
    "one long.parquet": (lambda path: _repeated(path, 2**26, 100), "256 MiB|2 GiB of memory"),
    "wide.parquet": (_wide_parquet, "more than 256 columns"),
    "rows.parquet": (_many_rows, "more than 1,000,000 rows"),
    "bits.parquet": (_many_bits, "5,000,000 cells"),
    "cells.csv": (
        lambda path: path.write_text(WIDE.partition(",c200")[0] + "\n" + ("1," * 199 + "1\n") * 26_000),
        "5,000,000 cells",
    ),
    "fields.parquet": (lambda path: _lists(path, _fields(600_000)), "1,000,000 values within"),
    "lists.parquet": (lambda path: _lists(path, _empty_lists(1_200_000)), "1,000,000 values within"),
    "list.parquet": (_in_a_list, "size cannot be determined"),
    "wide.csv": (lambda path: path.write_text(",".join(f"c{i}" for i in range(2000)) + "\n"), "256 columns"),
    "wide.tsv": (lambda path: path.write_text("\t".join(f"c{i}" for i in range(300)) + "\n"), "256 columns"),
    "long.csv": (lambda path: path.write_text("text,label\n" + "a,b\n" * 1_000_001), "1,000,000 rows"),
    "keys.jsonl": (
        lambda path: path.write_text("\n".join(json.dumps({f"k{i}": i}) for i in range(400))),
        "256 columns",
    ),
    "deep.json": (lambda path: path.write_text(json.dumps([{"a": {f"k{i}": i}} for i in range(400)])), "256 columns"),
    # what the reader takes apart in another way than a first look does
    "header.csv": (lambda path: path.write_text('"te\nxt",' + WIDE + "\n" + ",".join("1" * 301) + "\n"), "256 columns"),
    "joined.jsonl": (lambda path: path.write_text('{"a": 1}' + WIDE_OBJECT), "256 columns"),
    "figures.jsonl": (lambda path: path.write_text(WIDE_OBJECT[:-1] + ', "a": ' + "1" * 5000 + "}"), "256 columns"),
    "packed.jsonl": (lambda path: path.write_bytes(gzip.compress(b'{"a": 1}\n' * 100)), "is a compressed file"),
    # what ends the process that reads it
    "null.json": (lambda path: path.write_text("null"), "begins with null"),
    "later null.jsonl": (lambda path: path.write_text(" \n\nnull\n"), "begins with null"),
    "nested.jsonl": (
        lambda path: path.write_text('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}"),
        "nested more than 100 levels",
    ),
}


def test_lines_within_cells_are_no_rows() -> None:
    """A review of several lines: 50,000 lines of 120 columns are 500 rows."""
    row = '"' + "good\n" * 100 + '"' + ",1" * 119 + "\n"
    header = ",".join(f"c{i}" for i in range(120)) + "\n"
    assert len(rows_of(Upload("reviews.csv", (header + row * 500).encode()))) == 500


@pytest.mark.cases(0, 5)
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_becomes_large_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    make, reason = BOMBS[name]
    make(tmp_path / name)
    with pytest.raises(BadData, match=reason) as caught:
        rows_of(Upload(name, (tmp_path / name).read_bytes()))
    assert name in str(caught.value) and str(tmp_path) not in str(caught.value)


def test_a_slow_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_size, "SECONDS", 0.01)
    path = tmp_path / "rows.csv"
    path.write_text("text,label\na,b\n")
    with pytest.raises(BadData, match="seconds to read"):
        upload_size.check(path, path.name)


def test_a_file_whose_reader_crashes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", "kill -SEGV $$")))
    (tmp_path / "rows.jsonl").write_text('{"a": 1}')
    with pytest.raises(BadData, match="its reader crashes. Save it again, as CSV"):
        upload_size.check(tmp_path / "rows.jsonl", "rows.jsonl")


@pytest.mark.parametrize(
    ("line", "levels"),
    [("", 0), ('{"a": [1, {"b": []}]}', 4), ('{"a": "[[[[", "b\\"[": [[]]}', 3), ("]]] [[", 0), ("no JSON", 0)],
)
def test_brackets_in_texts_are_no_levels(line: str, levels: int) -> None:
    assert depth(line.encode()) == levels


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", 'text,label\n"a, with commas' + "," * 300 + '",b\n'),
        ("rows.tsv", "text\tlabel\na\tb\n"),
        ("rows.jsonl", '{"text": "a", "label": "b"}\n{"text": "c", "label": "d"}'),
        ("rows.json", '[{"text": "a", "label": "b"}]'),
        ("broken.parquet", "no parquet"),
        ("broken.jsonl", "{"),
    ],
)
def test_others_go_on_to_their_reader(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert upload_size.excess(path) == ""
    upload_size.check(path, name)
