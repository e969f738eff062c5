"""Tests of the guides against their sources: tables of stored runs, the data in SKILLVIZ_REAL, and the notebook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import datasets
import pandas as pd
import pytest
import yaml

from skillviz.tasks import registry
from skillviz.tasks.source import opened
from skillviz.tasks.task import Hub
from tests.scripts import script

TABLE = re.compile(r"written by docs/stored_examples.py -->.*?<!-- end", re.DOTALL)


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return script("docs/stored_examples.py")


@pytest.mark.slow
def test_the_pages_hold_what_is_stored(pages: ModuleType, tmp_path: Path) -> None:
    originals = (
        pages.PARTS,
        pages.CHECKPOINTS,
        pages.BASELINES,
        pages.NULLS,
        pages.GAIN,
        pages.REGIONS_PAGE,
        pages.RIVALS_PAGE,
    )
    copies = [Path(shutil.copy(page, tmp_path)) for page in originals]
    for copy in copies:
        text = TABLE.sub(lambda found: found[0].replace(" points (", " pints ("), copy.read_text(encoding="utf-8"))
        copy.write_text(text, encoding="utf-8")
    pages.main(*copies)
    for copy, page in zip(copies, originals, strict=True):
        assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_the_opening_run_has_its_matched_random_regions(pages: ModuleType) -> None:
    """There are three seeds, found by the key of the search that they match."""
    assert len([line for line in pages.matched(pages.Store(pages.STORE)) if "`random-matched`" in line]) == 3


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


NOTEBOOK = PROJECT / "docs" / "notebook.ipynb"

# This follows Jupyter: cells share their names, and the last expression of a cell is its value.
RUN = """
import ast, json, sys
names = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    shown = getattr(value, "_repr_html_", None)
    entry = {"kind": type(value).__name__, "value": value if isinstance(value, dict) else None}
    entry["html"] = shown() if shown else ""
    entry["marks"] = sum(trace.type is not None for trace in value.data) if entry["kind"] == "Figure" else 0
    print("cell", json.dumps(entry))
"""


def _cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


@pytest.mark.nightly
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    sources = ["".join(cell["source"]) for cell in _cells("code")]
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(sources), cwd=NOTEBOOK.parent, capture_output=True, text=True,
        check=False, env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "SKILLVIZ_RUNS": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line.removeprefix("cell ")) for line in done.stdout.splitlines() if line.startswith("cell ")]
    assert len(told) == len(sources)
    by_source = dict(zip(sources, told, strict=True))
    card = next(cell for source, cell in by_source.items() if source.endswith("\nrun"))
    assert card["kind"] == "Run" and "<table" in card["html"]
    figures = [source for source, cell in by_source.items() if cell["kind"] == "Figure" and cell["marks"]]
    assert figures == [f"run.plot.{page}()" for page in ("region", "sparsity", "calibration")]
    checks = [cell["value"] for cell in told if cell["value"] is not None]
    assert [len(one) for one in checks] == [3, 2] and all(value is True for one in checks for value in one.values())
    assert [cell["kind"] for cell in told].count("DataFrame") == 2


def test_it_is_stored_without_outputs() -> None:
    cells = _cells("code")
    assert cells and not [cell for cell in cells if cell["outputs"] or cell["execution_count"] is not None]
