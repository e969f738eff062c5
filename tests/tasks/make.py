"""Task files and frames for the tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from skillviz.tasks.task import Files, LabelWords, Task, Template

ROWS = [{"text": f"story {i} was {'good' if i % 2 else 'bad'}", "label": i % 2} for i in range(30)]


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the rows to a JSONL, CSV or Parquet file; return its path."""
    frame = pd.DataFrame(list(rows))
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    return path


def write_task(folder: Path, rows: Sequence[dict[str, Any]] = ROWS, suffix: str = ".jsonl", **changes: Any) -> Path:
    """Write a task file with the same rows as train and test; a change to None omits a key. Return its path."""
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
