"""Tests of small files that expand: the process that reads uploads refuses them, or skips their large columns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from skillviz.errors import BadData
from skillviz.tasks import upload_reader
from skillviz.tasks.uploaded import Upload, read, rows_of

pytestmark = pytest.mark.slow


def _repeated(path: Path, length: int, rows: int) -> None:
    """Write one text of `length` letters, `rows` times, which Parquet stores once."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * length]))
    parquet.write_table(pa.table({"text": values}), path)


def _wide_parquet(path: Path) -> None:
    parquet.write_table(pa.table({name: [1] for name in NAMES}), path)


def _many_rows(path: Path) -> None:
    parquet.write_table(pa.table({"label": pa.array([0] * 1_000_001, pa.int8())}), path)


def _in_a_list(path: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["x" * 100]))
    parquet.write_table(pa.table({"text": pa.ListArray.from_arrays(pa.array([0, 2]), values)}), path)


def _lists(path: Path, elements: pa.Array) -> None:
    """Write ten rows that share these elements; each is an object in Python, but a bit or nothing in the file."""
    parts = pa.array(np.linspace(0, len(elements), 11).astype(np.int32))
    parquet.write_table(pa.table({"text": ["x"] * 10, "y": pa.ListArray.from_arrays(parts, elements)}), path)


def _fields(count: int) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(np.zeros(count, bool))], ["a"])


def _empty_lists(count: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.bool_()))


def _many_bits(path: Path) -> None:
    parquet.write_table(pa.table({f"c{i}": pa.array(np.zeros(110_000, bool)) for i in range(200)}), path)


NAMES = [f"c{i}" for i in range(2_100)]
WIDE = ",".join(NAMES)
WIDE_OBJECT = json.dumps(dict.fromkeys(NAMES, 1))
BOMBS = {
    "repeated.parquet": (lambda path: _repeated(path, 2**21, 1000), "more than 2 GiB of memory"),
    "one long.parquet": (lambda path: _repeated(path, 2**26, 100), "more than 2 GiB of memory"),
    "less.parquet": (lambda path: _repeated(path, 2**20, 300), "'text' of .* more than 256 MiB"),
    "wide.parquet": (_wide_parquet, "more than 2,000 columns"),
    "rows.parquet": (_many_rows, "more than 1,000,000 rows"),
    "bits.parquet": (_many_bits, "20,000,000 cells"),
    "cells.csv": (
        lambda path: path.write_text(WIDE.partition(",c800")[0] + "\n" + ("1," * 799 + "1\n") * 26_000),
        "20,000,000 cells",
    ),
    "wide.csv": (lambda path: path.write_text(WIDE + "\n" + WIDE + "\n"), "2,000 columns"),
    "wide.tsv": (lambda path: path.write_text(("\t".join(NAMES) + "\n") * 2), "2,000 columns"),
    "long.csv": (lambda path: path.write_text("text,label\n" + "a,b\n" * 1_000_001), "1,000,000 rows"),
    "keys.jsonl": (lambda path: path.write_text("\n".join(json.dumps({n: 1}) for n in NAMES)), "2,000 columns"),
    "packed.csv.gz": (
        lambda path: path.write_bytes(gzip.compress(b"text,label\n" + b"a" * (257 << 20) + b",1\n", 1)),
        "256 MiB once it is decompressed",
    ),
    # Files that the reader splits differently from a first look.
    "header.csv": (
        lambda path: path.write_text('"te\nxt",' + WIDE + "\n" + ",".join("1" * 2_101) + "\n"), "2,000 columns"
    ),
    "joined.jsonl": (lambda path: path.write_text('{"a": 1}' + WIDE_OBJECT), "line 1 is not JSON"),
    "figures.jsonl": (lambda path: path.write_text(WIDE_OBJECT[:-1] + ', "a": ' + "1" * 5000 + "}"), "not JSON"),
    "zip.jsonl": (lambda path: path.write_bytes(b"PK\x03\x04" + b"0" * 100), "a workbook or a zip file"),
    "null.json": (lambda path: path.write_text("null"), "holds a single value and no rows"),
    "later null.jsonl": (lambda path: path.write_text(" \n\nnull\n"), "holds a single value and no rows"),
    "nested.jsonl": (
        lambda path: path.write_text('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}"), "nested too deeply"
    ),
}  # fmt: skip
UNUSABLE = {
    "fields.parquet": (lambda path: _lists(path, _fields(600_000)), "y", "lists of the type struct"),
    "lists.parquet": (lambda path: _lists(path, _empty_lists(1_200_000)), "y", "lists of the type list"),
    "bits in lists.parquet": (lambda path: _lists(path, pa.array(np.zeros(1_200_000, bool))), "y", "1,000,000 values"),
    "list.parquet": (_in_a_list, "text", "lists of the type dictionary"),
    "deep.json": (
        lambda path: path.write_text(json.dumps([{"b": 1, "a": {n: i}} for i, n in enumerate(NAMES)])), "a", "objects"
    ),
}  # fmt: skip
"""Files with one column that is too large: no task can use it, and it is not decoded."""


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_column_that_is_too_much_is_not_read(tmp_path: Path, name: str) -> None:
    make, column, reason = UNUSABLE[name]
    make(tmp_path / name)
    upload = Upload(name, (tmp_path / name).read_bytes())
    try:
        rows = read(upload)
        assert column not in rows.frame and reason in rows.left_out[column]
    except BadData as error:
        assert f"column '{column}' of {name}" in str(error) and reason in str(error), "it is the only one"


def test_lines_within_cells_are_no_rows() -> None:
    """A review has several lines: 50,000 lines of 120 columns are 500 rows."""
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
