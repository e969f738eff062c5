"""`checkpoints`: one run a checkpoint, a table along training, and nothing made twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.checkpoint_series import checkpoint_points, series_of, size_needed
from skillviz.commands.checkpoints import steps_of
from skillviz.errors import BadInput
from skillviz.plots.checkpoints import PANELS
from skillviz.runs.store import Store, shipped_root
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


@pytest.mark.slow
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
    runs = Store(tmp_path).list()
    series = series_of(runs[0], runs)
    assert sorted(series) == [9, 30, 100] and series_of(runs[0], runs[:1]) == {}
    points = checkpoint_points(series)
    of = points.set_index(["what", "metric", "step"])["value"]
    for row in table:
        step, metric = row["step"], Store(tmp_path).open(row["run_id"]).record.metric
        assert of["finetuned", metric, step] == row["finetuned"] and of["grafted", "ece", step] == row["grafted_ece"]
        assert of["shared", "overlap", step] == row["held_of_last"]
    again = call(*words, *more)
    assert again.json == said.json and again.err.count("already exists") == 3
    assert len(Store(tmp_path).list()) == 3
    csv, html = tmp_path / "series.csv", tmp_path / "series.html"
    call(*words, *more, "--out", csv, "--report", html)
    assert list(pd.read_csv(csv)["step"]) == [9, 30, 100]
    text = html.read_text(encoding="utf-8")
    assert text.count('data-figure="') == len(PANELS) and "Size that recovers the gain" in text
    refused = call(*words, *more, "--report", tmp_path / "nowhere" / "x.html")
    assert refused.code == 2 and "name a file in a folder that exists" in refused.err


def test_the_lead_over_top_movement_is_paired_and_the_overlap_is_by_seed() -> None:
    """Planted: two searches of one checkpoint on the same examples, of which one is right more often."""
    store = Store(shipped_root())
    names = ("film-sentiment-base-stagewise-23792-s0-ff6420", "film-sentiment-base-movement-23792-s0-0ed253")
    runs = [store.open(name) for name in names]
    points = checkpoint_points({5: runs, 7: runs[:1]})
    (lead,) = points[points["what"] == "lead"].to_dict("records")
    values = [run.record.metrics["test"].states["grafted"]["accuracy"].value for run in runs]
    assert lead["step"] == 5 and lead["value"] == pytest.approx(values[0] - values[1])
    assert lead["low"] < lead["value"] < lead["high"]
    shared = points[points["what"] == "shared"].set_index(["localizer", "step"])["value"]
    assert dict(shared) == {("stagewise", 5): 1.0, ("stagewise", 7): 1.0}  # top movement has no last region


def test_the_size_needed_is_the_smallest_that_recovers_enough() -> None:
    curve = frames.curve()
    one = curve[(curve["metric"] == "accuracy")].drop_duplicates("size").sort_values("size").head(3)
    made = one.assign(metric="recovered", split="test", value=[0.5, 0.96, 0.94], low=0.1, high=1.1)
    assert size_needed(made, "test")["size_needed"] == made["size"].iloc[1]
    assert np.isnan(size_needed(made.assign(value=0.9), "test")["size_needed"])
    assert np.isnan(size_needed(made, "validation")["recovered"])


@pytest.mark.slow
def test_folders_are_read_as_steps(trained: tuple[Path, Path], tmp_path: Path) -> None:
    assert list(steps_of([str(trained[1])])) == [9, 30, 100]
    assert steps_of(["b/model", "a/step-7"]) == {1: "b/model", 7: "a/step-7"}
    with pytest.raises(BadInput, match="holds no checkpoint-<step> folders"):
        steps_of([str(tmp_path)])
    with pytest.raises(BadInput, match="two checkpoints have the same step"):
        steps_of(["a/step-7", "b/step-7"])
