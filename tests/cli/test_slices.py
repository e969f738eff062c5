"""Tests of `slices`: by class from stored predictions alone; by length and columns if the data are available."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from skillviz.analysis.slices import LEAST
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from tests.cli.calls import call, done, refused
from tests.fake_run import fake_run
from tests.runs.test_texts import run_of, with_columns
from tests.tiny import tiny_task
from tests.ui.shared_store import SMALL


@pytest.fixture
def run(tmp_path: Path, user_runs: Path) -> Run:
    """Make a run whose task's data are available, with extra columns."""
    task = tiny_task(tmp_path / "task", rows=128)
    with_columns(tmp_path / "task", source=lambda n: "web" if n % 3 else "book")
    made = run_of(task, user_runs, n={"validation": 64, "test": 64})
    (made.path / "run.json").write_text(made.record.model_dump_json())
    return made


def test_all_columns_and_some(run: Run, tmp_path: Path) -> None:
    said, csv = done("slices", run.id, "--json"), tmp_path / "slices.csv"
    rows = said.json["slices"]
    assert {row["column"] for row in rows} == {"class", "words", "source"}
    assert "comparisons" in said.out and "true class" in said.out
    ranks = [(row["n"] < LEAST["accuracy"], row["value"]) for row in rows]
    assert ranks == sorted(ranks)
    some = call("slices", run.id, "--by", "source", "--metric", "nll", "--json").json["slices"]
    assert {row["name"] for row in some} == {"web", "book"}
    call("slices", run.id, "--out", csv)
    assert list(pd.read_csv(csv)["value"]) == pytest.approx([value for _, value in ranks])


def test_without_the_data_it_is_by_class(user_runs: Path) -> None:
    made = fake_run(Store(user_runs), task="nowhere.yaml", sizes=("1%",), **SMALL)
    said = done("slices", made.id, "--json")
    assert "By class only:" in said.err and {row["column"] for row in said.json["slices"]} == {"class"}
    refused(call("slices", made.id, "--by", "words"), "nowhere.yaml")


def test_wrong_names(run: Run) -> None:
    refused(
        call("slices", run.id, "--by", "colour"), "'colour' is not a column with slices; known: class, words, source"
    )
    refused(call("slices", run.id, "--metric", "ece"), "known: accuracy, nll")
