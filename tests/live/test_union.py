"""Tests of the union of tasks' regions from the worker: equal to the layers below, without leaked examples."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from skillviz.core.intervals import recovered_gain
from skillviz.runs.run import Run
from tests.live.conftest import Ask


def test_the_union_with_itself_is_the_run_s_graft(ask: Ask, run: Run) -> None:
    found = json.loads(json.dumps(ask("union", region={"union": [{"run": run.id}, {"run": run.id}]})))
    _, labels, grafted = run.logits("grafted")
    base, tuned = run.logits("pretrained")[2], run.logits("finetuned")[2]
    assert (found["size"], found["n"], found["left_out"], found["scores"]["grafted"]["value"]) == (
        run.record.size, len(labels), 0, pytest.approx(np.mean(grafted.argmax(axis=1) == labels)),
    )  # fmt: skip
    gain = found["gain"]
    assert gain["low"] <= gain["value"] <= gain["high"]
    assert gain["value"] == pytest.approx(recovered_gain(grafted, base, tuned, labels).value)


def test_a_union_is_larger_than_its_parts(ask: Ask, run: Run) -> None:
    assert ask("union", region={"union": [{"run": run.id}, {"layers": [0]}]})["size"] > (run.record.size or 0)


def test_what_another_task_trained_on_is_left_out(ask: Ask, run: Run, lived: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(lived / "other", tmp_path / "other"))
    first, _ = (lived / "test.jsonl").read_text(encoding="utf-8").split("\n", 1)
    with (other / "train.jsonl").open("a", encoding="utf-8") as file:
        file.write(first + "\n")
    (other / "task.yaml").write_text((other / "task.yaml").read_text().replace("name: tiny", "name: second"))
    found = ask("union", region={"run": run.id}, among=[str(other / "task.yaml")])
    assert found["left_out"] >= 1 and found["n"] + found["left_out"] == len(run.logits("grafted")[1])
