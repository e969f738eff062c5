"""Tests of docs/studies.md on the folder in SKILLVIZ_REAL: it agrees with the task files and the registry."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import Mock

import datasets
import pandas as pd
import pytest
import yaml

from skillviz.tasks import registry
from skillviz.tasks.source import opened
from skillviz.tasks.task import Hub

PROJECT = Path(__file__).resolve().parents[1]
TASKS = PROJECT / "benchmarks" / "tasks"
GUIDE = (PROJECT / "docs" / "studies.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)`( \*)? \| ([^|]+) \| `([^`]+)`(?:, (\w+))? \| (\w+) \|$", re.MULTILINE)
OF_THE_REGISTRY = {"sst2_sentences": "sst2", "yelp_reviews": "yelp"}
"""Names that differ in the registry."""
OTHER_SPLIT = ("mrpc",)
"""GLUE tasks with a labeled test split: they are tested on it and validated on the other split."""


def rows() -> dict[str, re.Match[str]]:
    """Return folder -> its row of the table."""
    return {found[1]: found for found in ROW.finditer(GUIDE)}


def files_of(name: str) -> dict[str, object]:
    """Return the content of a task file by name."""
    return yaml.safe_load((TASKS / f"{name}.yaml").read_text(encoding="utf-8"))


def test_the_table_has_every_folder_that_the_studies_read() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (PROJECT / "benchmarks" / "studies").glob("*.yaml")]
    tasks = {task for text in texts for task in re.findall(r"benchmarks/tasks/(\w+)\.yaml", text)}
    read = {Path(path).parts[-2] for task in tasks for path in files_of(task)["data"].values()}  # type: ignore[attr-defined]
    assert read and read <= set(rows())


@pytest.mark.parametrize("name", rows())
def test_files_and_labels_are_those_that_the_task_reads(name: str) -> None:
    row, task = rows()[name], files_of(name)
    splits = ("train", "test", *(["validation"] if row[2] else []))
    assert task["data"] == {split: f"${{SKILLVIZ_REAL}}/data/{name}/{split}.jsonl" for split in splits}
    assert task["labels"] == [label.strip() for label in row[3].split("(")[0].split(",")]


@pytest.mark.parametrize("name", rows())
def test_names_on_the_hub_are_those_of_the_registry(name: str) -> None:
    row, data = rows()[name], registry.task(OF_THE_REGISTRY.get(name, name)).data
    assert isinstance(data, Hub) and (data.id, data.config) == (row[4], row[5])
    assert name in OTHER_SPLIT or row[6] == data.test


def test_the_lines_of_python_make_what_the_tasks_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = {"question": ["a?", "b?"], "sentence": ["yes", "no"], "label": [0, 1], "idx": [0, 1]}
    one = {"text": ["good", "bad", "fine"], "label": [1, 0, 1], "label_text": ["x", "y", "z"]}
    load = Mock(side_effect=lambda _, config, split: datasets.Dataset.from_dict(pair if config else one))
    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setenv("SKILLVIZ_REAL", str(tmp_path))
    (code,) = re.findall(r"```python\n(.+?)```", GUIDE, re.DOTALL)
    exec(code, {})
    assert load.call_count == 5
    load.assert_any_call("nyu-mll/glue", "qnli", split="validation")
    for name, labels in (("sst2_sentences", {0: 1, 1: 2}), ("qnli", {0: 1, 1: 1})):
        found = opened(registry.task(str(TASKS / f"{name}.yaml")), ("train", "test"))
        counts = {split: pd.Series(data.labels).value_counts().to_dict() for split, data in found.items()}
        assert counts["test"] == labels and set(counts) == {"train", "test"}
