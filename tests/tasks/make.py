"""Task files and frames for the tests."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import yaml
from pyarrow import parquet

from skillviz.tasks.task import Files, LabelWords, Task, Template

ROWS = [{"text": f"story {i} was {'good' if i % 2 else 'bad'}", "label": i % 2} for i in range(30)]


def as_parquet(table: pa.Table) -> bytes:
    """Return the table as a Parquet file."""
    parquet.write_table(table, file := io.BytesIO())
    return file.getvalue()


def as_lines(rows: Sequence[dict[str, Any]]) -> bytes:
    """Return the rows as JSONL."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


WRITERS: dict[str, Callable[[Sequence[dict[str, Any]]], bytes]] = {
    ".jsonl": as_lines,
    ".ndjson": as_lines,
    ".json": lambda rows: json.dumps(list(rows)).encode(),
    ".csv": lambda rows: pd.DataFrame(list(rows)).to_csv(index=False).encode(),
    ".tsv": lambda rows: pd.DataFrame(list(rows)).to_csv(index=False, sep="\t").encode(),
    ".txt": lambda rows: pd.DataFrame(list(rows)).to_csv(index=False, sep="\t").encode(),
    ".parquet": lambda rows: as_parquet(pa.Table.from_pandas(pd.DataFrame(list(rows)), preserve_index=False)),
}
"""(the ending of a file's name, its content for these rows)."""


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the rows to a file of the format of its ending; return its path."""
    path.write_bytes(WRITERS[path.suffix](rows))
    return path


def write_task(folder: Path, rows: Sequence[dict[str, Any]] = ROWS, suffix: str = ".jsonl", **changes: Any) -> Path:
    """Write a task file with the same rows as train and test; a change to None omits a key. Return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        write_rows(folder / f"{split}{suffix}", rows)
    values = {
        "name": "made",
        "data": {"train": f"train{suffix}", "test": f"test{suffix}"},
        "text": "text",
        "label": "label",
        "labels": ["negative", "positive"],
        "template": {"masked": "{text} It was <mask>.", "causal": "{text} It was"},
        "label_words": ["terrible", "great"],
    }
    values = {key: value for key, value in {**values, **changes}.items() if value is not None}
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def made(masked: str | None = None, causal: str | None = None, pair: bool = False, **changes: Any) -> Task:
    """Return a task without data, for encoding frames."""
    values: dict[str, Any] = {
        "name": "made",
        "data": Files(train="a.csv", test="b.csv"),
        "text": ("first", "second") if pair else ("text",),
        "labels": ("negative", "positive"),
        "template": Template(masked=masked, causal=causal),
        "label_words": LabelWords(masked=("terrible", "great"), causal=("terrible", "great")),
        "max_length": 64,
    }
    return Task(**{**values, **changes})


def frame(*texts: str | tuple[str, str]) -> pd.DataFrame:
    """Return a frame of these texts or pairs of texts, with alternating labels."""
    rows = [(text,) if isinstance(text, str) else text for text in texts]
    columns = {name: list(column) for name, column in zip(("text_a", "text_b"), zip(*rows, strict=True), strict=False)}
    ids = [f"test-{i}" for i in range(len(rows))]
    return pd.DataFrame({"example_id": ids, **columns, "label": [i % 2 for i in range(len(rows))]})
