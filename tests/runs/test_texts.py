"""Tests of texts from the task's own files: they are shown only if the files are the ones the run used."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadData, BadInput
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.runs.texts import example_columns, example_texts, task_of
from skillviz.tasks import registry
from skillviz.tasks.splits import load
from tests.fake_run import fake_run
from tests.tiny import tiny_task

SMALL = {"layers": 1, "width": 8, "sizes": ("5%",), "steps": 2, "n": {"validation": 32, "test": 32}}


def run_of(task: Path, store: Path, **changed: Any) -> Run:
    """Return a fake run whose record has the fingerprint of this task's data."""
    run = fake_run(Store(store), task=str(task), **{**SMALL, **changed})
    return Run(
        run.path,
        run.record.model_copy(
            update={"task": run.record.task.model_copy(update={"fingerprint": load(registry.task(task)).fingerprint})}
        ),
    )


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def with_columns(folder: Path, **columns) -> None:
    """Add columns to the rows of all splits; each column is a function of the row's number."""
    for path in folder.glob("*.jsonl"):
        path.write_text(
            "\n".join(
                json.dumps({**row, **{name: of(n) for name, of in columns.items()}})
                for n, row in enumerate(rows_of(path))
            )
            + "\n"
        )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return run_of(tiny_task(tmp_path), tmp_path / "runs")


@pytest.mark.parametrize("columns", [{"text_a": "text"}, {"text_a": "premise", "text_b": "hypothesis"}], ids=len)
def test_the_texts_of_a_split(tmp_path: Path, columns: dict[str, str]) -> None:
    is_pair = len(columns) == 2
    run = run_of(tiny_task(tmp_path, pair=is_pair), tmp_path / "runs")
    rows = rows_of(tmp_path / "test.jsonl")
    assert task_of(run).pair is is_pair and example_texts(run, "test").to_dict("list") == {
        "example_id": [f"test-{i}" for i in range(len(rows))],
        **{name: [row[source] for row in rows] for name, source in columns.items()},
    }


def test_the_other_columns_of_the_data(tmp_path: Path) -> None:
    task = tiny_task(tmp_path)
    with_columns(tmp_path, source=lambda n: "web" if n % 3 else "book", words=lambda n: n, tags=lambda n: [n])
    run = run_of(task, tmp_path / "runs")
    found, texts = example_columns(run, "test"), example_texts(run, "test")
    assert (found.index.tolist(), list(found.columns)) == (
        texts["example_id"].tolist(),
        ["words", "source", "words (data)"],
    ), "the lists are not columns"
    assert found.to_dict("list") == {
        "words": [len(text.split()) for text in texts["text_a"]],
        "source": ["web" if n % 3 else "book" for n in range(len(texts))],
        "words (data)": list(range(len(texts))),
    }


@pytest.mark.parametrize(
    ("name", "change", "read", "error", "words"),
    [
        ("train.jsonl", lambda path: path.write_text(path.read_text().partition("\n")[2]), example_texts,
         BadData, "have changed"),
        ("test.jsonl", Path.unlink, example_texts, BadData, "there is no file .*test.jsonl"),
        ("task.yaml", Path.unlink, lambda run, split: task_of(run), BadInput, "there is no task file"),
    ],
    ids=["changed", "no data", "no task"],
)  # fmt: skip
def test_changed_and_absent_files_are_named(
    run: Run, tmp_path: Path, name: str, change: Any, read: Any, error: type[Exception], words: str
) -> None:
    change(tmp_path / name)
    with pytest.raises(error, match=words):
        read(run, "test")


@pytest.mark.nightly
def test_texts_are_read_without_torch(run: Run) -> None:
    (run.path / "run.json").write_text(run.record.model_dump_json())
    code = (
        "import sys\nfrom skillviz.runs.store import Store\nfrom skillviz.runs.texts import example_texts\n"
        f"print(len(example_texts(Store({str(run.path.parent)!r}).list()[0], 'validation')))\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=120)
    assert (done.returncode, done.stdout.split("\n")[:2]) == (0, ["32", "[]"]), done.stderr[-2000:]
