"""Tests of ordinary user files: many rows or columns, embeddings, compressed text; unused columns cost nothing."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from skillviz.errors import BadData
from skillviz.tasks.reading import FORMATS
from skillviz.tasks.registry import task
from skillviz.tasks.rows import Rows
from skillviz.tasks.splits import load
from skillviz.tasks.upload_reader import Limits, limited
from skillviz.tasks.uploaded import Draft, Upload, read, rows_of, save
from tests.tasks.make import write_task

ROWS = [{"text": f"a review, number {n}", "label": n % 2} for n in range(20)]
FRAME = pd.DataFrame(ROWS)


def as_parquet(frame: pd.DataFrame | pa.Table) -> bytes:
    """Return the table as a Parquet file."""
    file = io.BytesIO()
    parquet.write_table(frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame), file)
    return file.getvalue()


WRITERS: dict[str, Callable[[], bytes]] = {
    ".jsonl": lambda: FRAME.to_json(orient="records", lines=True).encode(),
    ".json": lambda: FRAME.to_json(orient="records").encode(),
    ".csv": lambda: FRAME.to_csv(index=False).encode(),
    ".tsv": lambda: FRAME.to_csv(index=False, sep="\t").encode(),
    ".parquet": lambda: as_parquet(FRAME),
    ".ndjson": lambda: FRAME.to_json(orient="records", lines=True).encode(),
    ".txt": lambda: FRAME.to_csv(index=False, sep="\t").encode(),
}


def content_of(ending: str) -> bytes:
    """Return the rows in a format, compressed if the name says so."""
    plain = WRITERS[ending.removesuffix(".gz")]()
    return gzip.compress(plain) if ending.endswith(".gz") else plain


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_taken_as_an_upload_and_in_a_task_file(ending: str, tmp_path: Path) -> None:
    rows = rows_of(Upload(f"Reviews.v2{ending.upper()}", content_of(ending)))
    assert list(rows["text"]) == list(FRAME["text"]) and list(rows["label"]) == ["0", "1"] * 10
    path = write_task(tmp_path, data={split: f"rows{ending}" for split in ("train", "test")})
    (tmp_path / f"rows{ending}").write_bytes(content_of(ending))
    assert list(load(task(path)).test["text_a"]) == list(FRAME["text"])


@pytest.mark.parametrize("name", ["a.xlsx", "a.gz", "a.parquet.gz", "csv", "a.csv.zip"])
def test_another_format_is_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(BadData, match=f"{name} cannot be read; allowed: .jsonl, .json, .csv, .tsv, .parquet"):
        rows_of(Upload(name, b"x"))


def test_an_embedding_is_not_read_until_a_task_names_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": [f"a review {n}" for n in range(4_000)], "label": [0, 1] * 2_000})
    frame["embedding"] = list(np.zeros((4_000, 384), np.float32))
    upload = Upload("a.parquet", as_parquet(frame))
    rows = read(upload)
    assert list(rows.frame) == ["text", "label"] and len(rows.frame) == 4_000
    assert rows.left_out == {"embedding": "holds more than 1,000,000 values in its lists"}
    values = {"text": ("text",), "label": "label", "labels": ("bad", "good"), "template": {}, "label_words": ()}
    _, splits = save(Draft("mine", {"train": upload}, values), tmp_path)
    assert len(splits.test) == 800
    with pytest.raises(BadData, match="column 'embedding' of a.parquet holds more than 1,000,000 values"):
        save(Draft("other", {"train": upload}, {**values, "text": ("embedding",)}), tmp_path)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_770_columns_are_read(ending: str) -> None:
    frame = pd.DataFrame(np.zeros((50, 768), int)).rename(columns=str)
    frame.insert(0, "text", [f"a review {n}" for n in range(50)])
    frame["label"] = [0, 1] * 25
    content = {
        "csv": lambda: frame.to_csv(index=False).encode(), "parquet": lambda: as_parquet(frame),
        "jsonl": lambda: frame.to_json(orient="records", lines=True).encode(),
    }[ending]()  # fmt: skip
    rows = rows_of(Upload(f"a.{ending}", content))
    assert rows.shape == (50, 770) and list(rows["label"]) == ["0", "1"] * 25


@pytest.mark.nightly
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_600_000_rows_are_read(ending: str) -> None:
    count = 600_000
    table = pa.table({"text": [f"a review {n}" for n in range(count)], "label": np.arange(count) % 2,
                      **{f"score_{n}": np.zeros(count, np.int8) for n in range(8)}})  # fmt: skip
    content = as_parquet(table) if ending == "parquet" else table.to_pandas().to_csv(index=False).encode()
    rows = rows_of(Upload(f"a.{ending}", content))
    assert rows.shape == (count, 10) and rows["text"].iloc[-1] == "a review 599999"


TIGHT = Limits(rows=10, columns=3, cells=24, within=6, size=400)


def limited_rows(rows: list[dict[str, object]], ending: str) -> Rows:
    """Return the rows of a file within the tight limits."""
    frame = pd.DataFrame(rows)
    content = as_parquet(frame) if ending == "parquet" else "".join(json.dumps(row) + "\n" for row in rows).encode()
    return limited(f"a.{ending}", content, TIGHT)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "a"}] * 11, "more than 10 rows"),
        ([{"text": "a", "x": 1, "y": 2, "z": 3}], "more than 3 columns"),
        ([{"text": "a", "x": 1, "y": 2}] * 9, "more than 24 cells"),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_file_over_a_limit_is_refused(rows: list[dict[str, object]], said: str, ending: str) -> None:
    with pytest.raises(BadData, match=said):
        limited_rows(rows, ending)


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ({"text": "a" * 101}, "text", "most of more than 0 MiB"),
        ({"text": "a", "html": "b" * 101}, "html", "most of more than 0 MiB"),
        ({"text": "a", "x": [1, 2]}, "x", "more than 6 values in its lists"),
        ({"text": "a", "u": 1, "v": 1, "x": [1, 2]}, "x", "more than 6 values in its lists"),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_column_over_a_limit_is_left_out_and_does_not_count(
    row: dict[str, object], column: str, said: str, ending: str
) -> None:
    rows = limited_rows([row] * 4, ending)
    assert said in rows.left_out[column] and rows.table.column_names == [name for name in row if name != column]
