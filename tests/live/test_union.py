"""Tests of the union of tasks' regions from the worker: equal to the layers below, without leaked examples."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from skillviz.core.intervals import recovered_gain
from skillviz.live.operations import answer
from skillviz.live.request import Worker
from skillviz.runs.run import Run
from skillviz.runs.store import Store


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    """Return a copy of the run's store and of the other task, beside the shared models."""
    shutil.copytree(lived / "runs", tmp_path / "runs")
    shutil.copytree(lived / "other", tmp_path / "other")
    return tmp_path


@pytest.fixture
def run(place: Path) -> Run:
    return Store(place / "runs").list()[0]


def asked(place: Path, run: Run, **arguments: object) -> dict:
    return answer(Worker(place / "runs"), "union", {"pair": {"run": run.id}, **arguments})


def test_the_union_with_itself_is_the_run_s_graft(place: Path, run: Run) -> None:
    found = asked(place, run, region={"union": [{"run": run.id}, {"run": run.id}]})
    _, labels, grafted = run.logits("grafted")
    base, tuned = run.logits("pretrained")[2], run.logits("finetuned")[2]
    assert found["size"] == run.record.size and found["n"] == len(labels) and found["left_out"] == 0
    assert found["scores"]["grafted"]["value"] == pytest.approx(np.mean(grafted.argmax(axis=1) == labels))
    assert found["gain"]["value"] == pytest.approx(recovered_gain(grafted, base, tuned, labels).value)
    assert found["gain"]["low"] <= found["gain"]["value"] <= found["gain"]["high"]
    json.dumps(found)


def test_a_union_is_larger_than_its_parts(place: Path, run: Run) -> None:
    found = asked(place, run, region={"union": [{"run": run.id}, {"layers": [0]}]})
    assert found["size"] > (run.record.size or 0)


def test_what_another_task_trained_on_is_left_out(place: Path, run: Run, lived: Path) -> None:
    task = yaml.safe_load((lived / "task.yaml").read_text(encoding="utf-8"))
    other = yaml.safe_load((place / "other" / "task.yaml").read_text(encoding="utf-8"))
    first = (lived / Path(task["data"]["test"]).name).read_text(encoding="utf-8").splitlines()[0]
    with (place / "other" / Path(other["data"]["train"]).name).open("a", encoding="utf-8") as file:
        file.write(first + "\n")
    (place / "other" / "task.yaml").write_text(yaml.safe_dump({**other, "name": "second"}), encoding="utf-8")
    found = asked(place, run, region={"run": run.id}, among=[str(place / "other" / "task.yaml")])
    assert found["left_out"] >= 1 and found["n"] + found["left_out"] == len(run.logits("grafted")[1])
