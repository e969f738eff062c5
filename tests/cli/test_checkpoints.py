"""`checkpoints`: one run a checkpoint, a table along training, and nothing made twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from skillviz.analysis.checkpoint_series import size_needed
from skillviz.commands.checkpoints import steps_of
from skillviz.errors import BadInput
from skillviz.runs.store import Store
from tests.cli.calls import call
from tests.plots import frames
from tests.tiny import tiny_pair


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A base, and a folder with its checkpoints after 9, 30 and 100 steps, as the Trainer names them."""
    folder = tmp_path_factory.mktemp("series")
    for steps in (9, 30, 100):
        base, tuned = tiny_pair(folder / str(steps), "bert", "head", steps=steps)
        shutil.copytree(tuned, folder / "out" / f"checkpoint-{steps}")
    return base, folder / "out"


def test_a_series_along_training(trained: tuple[Path, Path], task_file: Path, tmp_path: Path) -> None:
    words = ("checkpoints", "--base", trained[0], "--checkpoints", trained[1], "--task", task_file, "--method")
    more = ("movement", "--size", "5%", "50%", "100%", "--device", "cpu", "--runs-dir", tmp_path, "--json")
    said = call(*words, *more)
    assert said.code == 0, said.err
    table = said.json["checkpoints"]
    assert [row["step"] for row in table] == [9, 30, 100]  # by number, not by name
    assert table[-1]["held_of_last"] == table[-1]["iou"] == 1 and table[-1]["chance_iou"] is None
    assert all(0 <= row["iou"] < 1 and row["iou"] <= row["held_of_last"] for row in table[:-1])
    assert len(Store(tmp_path).list()) == 3
    for row in table:
        curve = Store(tmp_path).open(row["run_id"]).curve()
        needed = size_needed(curve, "test")["size_needed"]
        assert row["size_needed"] == (None if np.isnan(needed) else needed)
    again = call(*words, *more)
    assert again.json == said.json and again.err.count("is there already") == 3
    assert len(Store(tmp_path).list()) == 3


def test_the_size_needed_is_the_smallest_that_recovers_enough() -> None:
    curve = frames.curve()
    one = curve[(curve["metric"] == "accuracy")].drop_duplicates("size").sort_values("size").head(3)
    made = one.assign(metric="recovered", split="test", value=[0.5, 0.96, 0.94], low=0.1, high=1.1)
    assert size_needed(made, "test")["size_needed"] == made["size"].iloc[1]
    assert np.isnan(size_needed(made.assign(value=0.9), "test")["size_needed"])
    assert np.isnan(size_needed(made, "validation")["recovered"])


def test_folders_are_read_as_steps(trained: tuple[Path, Path], tmp_path: Path) -> None:
    assert list(steps_of([str(trained[1])])) == [9, 30, 100]
    assert steps_of(["b/model", "a/step-7"]) == {1: "b/model", 7: "a/step-7"}
    with pytest.raises(BadInput, match="holds no checkpoint-<step> folders"):
        steps_of([str(tmp_path)])
    with pytest.raises(BadInput, match="two checkpoints are of one step"):
        steps_of(["a/step-7", "b/step-7"])
