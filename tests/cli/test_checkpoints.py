"""Tests of `checkpoints`: one run per checkpoint, a table along training, and no repeated work."""

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.checkpoint_series import checkpoint_points, series_of, size_needed
from skillviz.analysis.observations import of_run
from skillviz.analysis.recovered import recovered
from skillviz.commands.checkpoints import steps_of
from skillviz.errors import BadInput
from skillviz.models.pair import load_pair
from skillviz.plots.checkpoints import PANELS
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, shipped_root
from tests.cli.calls import call, done, refused
from tests.fake_run import STATES, fake_run
from tests.refused import refused as refused_calls
from tests.refused import refuses
from tests.tiny import tiny_pair


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a base, and a folder with its checkpoints after 9, 30 and 100 steps, named like the Trainer's."""
    folder = tmp_path_factory.mktemp("series")
    for steps in (9, 30, 100):
        base, tuned = tiny_pair(folder / str(steps), "bert", "head", steps=steps)
        shutil.copytree(tuned, folder / "out" / f"checkpoint-{steps}")
    return base, folder / "out"


@pytest.mark.nightly
def test_a_series_along_training(trained: tuple[Path, Path], task_file: Path, tmp_path: Path) -> None:
    words = ("checkpoints", "--base", trained[0], "--checkpoints", trained[1], "--task", task_file, "--method")
    more = ("movement", "--size", "5%", "50%", "100%", "--device", "cpu", "--runs-dir", tmp_path, "--json")
    said = done(*words, *more)
    table = said.json["checkpoints"]
    assert [row["step"] for row in table] == [9, 30, 100]  # by number, not by name
    assert table[-1]["held_of_last"] == table[-1]["iou"] == 1 and table[-1]["chance_iou"] is None
    assert all(0 <= row["iou"] < 1 and row["iou"] <= row["held_of_last"] for row in table[:-1])
    assert len(Store(tmp_path).list()) == 3
    for row in table:
        error = Store(tmp_path).open(row["run_id"]).record.metrics["test"].states["grafted"]["ece"]
        ends = row["grafted_ece"], row["grafted_ece_debiased"], row["grafted_ece_low"], row["grafted_ece_high"]
        assert ends == (error.value, error.debiased, error.low, error.high)
        assert row["finetuned_low"] <= row["finetuned"] <= row["finetuned_high"]
    runs = Store(tmp_path).list()
    series = series_of(runs[0], runs)
    assert sorted(series) == [9, 30, 100] and series_of(runs[0], runs[:1]) == {}
    last = runs[-1].record  # the model of the folder itself took all steps
    folder, note = last.spec.finetuned.rpartition("/")[0], last.finetuned
    own = last.model_copy(update={
        "spec": last.spec.model_copy(update={"finetuned": folder}), "finetuned": note.model_copy(update={"steps": 400}),
    })  # fmt: skip
    assert sorted(series_of(Run(runs[-1].path, own), [*runs, Run(runs[-1].path, own)])) == [9, 30, 100, 400]
    unknown = own.model_copy(update={"finetuned": note.model_copy(update={"steps": None})})
    assert series_of(Run(runs[-1].path, unknown), runs) == {}
    points = checkpoint_points(series)
    of = points.set_index(["what", "metric", "step"])["value"]
    needed = points[points["what"] == "needed"].set_index("step")
    for row in table:  # the table and the figure use the same rule
        size = needed["value"].get(row["step"], np.nan) * runs[0].record.d
        assert row["size_needed"] == (None if np.isnan(size) else pytest.approx(size))
        step, metric = row["step"], Store(tmp_path).open(row["run_id"]).record.metric
        assert of["finetuned", metric, step] == row["finetuned"] and of["grafted", "ece", step] == row["grafted_ece"]
        assert of["shared", "overlap", step] == row["held_of_last"]
    again = call(*words, *more)
    assert again.json == said.json and again.err.count("already exists") == 3
    assert len(Store(tmp_path).list()) == 3
    csv, html = tmp_path / "series.csv", tmp_path / "series.html"
    call(*words, *more, "--out", csv, "--report", html)
    text = html.read_text(encoding="utf-8")
    # with top movement alone, no panel shows the overlap with a search
    assert text.count('data-figure="') == len(PANELS) - 1 and "Size that recovers the gain" in text
    assert list(pd.read_csv(csv)["step"]) == [9, 30, 100]
    refused(call(*words, *more, "--report", tmp_path / "nowhere" / "x.html"), "name a file in a folder that exists")


def test_the_lead_over_top_movement_is_paired_and_the_overlap_is_by_seed() -> None:
    """Two planted searches of one checkpoint use the same examples; one is right more often."""
    runs = stored_runs()
    points = checkpoint_points({5: runs, 7: runs[:1]})
    found = {what: rows for what, rows in points.groupby("what")}
    of = points.set_index(["what", "localizer", "step"])["value"]
    search, movement = (run.region() for run in runs)
    values = [run.record.metrics["test"].states["grafted"]["accuracy"].value for run in runs]
    tuned = runs[0].record.metrics["test"].states["finetuned"]["accuracy"].value
    (lead,), (change,) = (found[what].to_dict("records") for what in ("lead", "gap_change"))
    assert (lead["step"], lead["value"], dict(of["gap"])) == (
        5,
        pytest.approx(values[0] - values[1]),
        {("stagewise", step): pytest.approx(values[0] - tuned) for step in (5, 7)},
    )
    assert (change["step"], change["value"]) == (7, 0.0), "the same model again has the same gap"
    assert lead["low"] < lead["value"] < lead["high"]
    assert -0.01 < change["low"] < 0 < change["high"] < 0.01, "paired: the same predictions on the same examples"
    assert dict(of["shared"]) == {("stagewise", 5): 1.0, ("stagewise", 7): 1.0}  # top movement has no previous region
    assert dict(of["alike"]) == {("stagewise", 5): (search & movement).size / movement.size}
    held = dict(of["held"])
    assert (held.keys(), held["stagewise", 7]) == (
        {("stagewise", 5), ("movement", 5), ("stagewise", 7)},
        held["stagewise", 5],
    )
    assert search.share < held["stagewise", 5] < held["movement", 5] < 1, "no region of its size holds more"


def test_the_movement_in_a_region_is_that_of_its_entries(trained: tuple[Path, Path], task_file: Path) -> None:
    tuned = trained[1] / "checkpoint-100"
    spec = RunSpec(
        base=str(trained[0]), finetuned=str(tuned), task=str(task_file), sizes=("5%",), localizer="random",
        device="cpu",
    )  # fmt: skip
    run = produce(spec, Store(trained[1].parent / "held"))
    pair, region = load_pair(trained[0], tuned, device="cpu"), run.region()
    moved, points = (pair.finetuned - pair.base).double() ** 2, checkpoint_points({1: [run]})
    assert points.loc[points["what"] == "held", "value"].item() == pytest.approx(
        float(moved[region.flat()].sum() / moved.sum()), rel=1e-5
    )


def stored_runs() -> list[Run]:
    """Return a search and a top movement run of one stored pair and size."""
    return [
        Store(shipped_root()).open(name)
        for name in ("mr-minilm-l6-stagewise-106467-s1-ba6563", "mr-minilm-l6-movement-106467-s0-9ff87f")
    ]


@pytest.mark.nightly
def test_the_size_needed_is_that_of_the_table_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some runs reach the gain and one does not; for that one, the largest size gives its recovered share."""
    runs = [*stored_runs(), fake_run(Store(tmp_path))]
    monkeypatch.setitem(STATES, "grafted", (0.6, 2.6, 0.85))
    found_on = set()
    for run in (*runs, fake_run(Store(tmp_path), seed=1)):
        (row,) = recovered([one for one in of_run(run) if one.task == one.id_task]).to_dict("records")
        found = size_needed(run)
        found_on.add(row["reached_on"])
        assert [found[name] for name in ("recovered", "low", "high")] == [
            row[n] for n in ("gain", "gain_low", "gain_high")
        ]
        assert found["size_needed"] == pytest.approx(
            row["size"] if row["reached"] else np.nan, rel=0, abs=0, nan_ok=True
        )
        curve = run.curve().query("split == 'validation' and metric == 'recovered' and value >= 0.95")
        if row["reached_on"] == "validation":
            assert found["size_needed"] == curve["size"].min(), "chosen on validation, not on what is told"
    assert {"validation", ""} <= found_on


@pytest.mark.slow
def test_folders_are_read_as_steps(trained: tuple[Path, Path]) -> None:
    found, is_searched = steps_of([str(trained[1])])
    assert (list(found), is_searched) == ([9, 30, 100], True)
    assert steps_of(["b/model", "a/last"]) == ({1: "b/model", 2: "a/last"}, False)


test_folders_without_steps_of_their_own_are_refused = refused_calls(
    BadInput,
    ("holds no checkpoint-<step> folders", steps_of, ["skillviz"]),
    ("two checkpoints have the same step", steps_of, ["a/step-7", "b/step-7"]),
)


def test_a_final_model_does_not_become_the_first_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("checkpoint-5", "checkpoint-10", "checkpoint-best", "final"):
        (tmp_path / name).mkdir()
    named = [str(tmp_path / name) for name in ("checkpoint-5", "checkpoint-10", "final")]
    refuses(BadInput, r"final' tells its step, and others have one", steps_of, named)
    (tmp_path / "final" / "trainer_state.json").write_text('{"global_step": 12}', encoding="utf-8")
    assert (steps_of(named), steps_of([str(tmp_path)])[0]) == (
        ({5: named[0], 10: named[1], 12: named[2]}, False),
        {5: named[0], 10: named[1]},
    )
    assert "checkpoint-best is left out" in capsys.readouterr().err
    (tmp_path / "checkpoint-5").rmdir()
    refuses(BadInput, "holds one checkpoint; give a folder with two or more", steps_of, [str(tmp_path)])


@pytest.mark.nightly
def test_an_interrupted_save_is_left_out(trained: tuple[Path, Path], task_file: Path, tmp_path: Path) -> None:
    out = shutil.copytree(trained[1], tmp_path / "out")
    for step in (200, 300):
        shutil.copytree(out / "checkpoint-100", out / f"checkpoint-{step}")
    (out / "checkpoint-200" / "model.safetensors").unlink()
    half = out / "checkpoint-300" / "model.safetensors"
    os.truncate(half, half.stat().st_size // 2)
    words = ("checkpoints", "--base", trained[0], "--task", task_file, "--method", "movement", "--size", "5%", "100%")
    more = ("--device", "cpu", "--runs-dir", tmp_path / "runs", "--json")
    said = done(*words, "--checkpoints", out, *more)
    assert [row["step"] for row in said.json["checkpoints"]] == [9, 30, 100]
    assert "step 200 is left out" in said.err and "step 300 is left out" in said.err
    refused(
        call(*words, *[word for step in (9, 30, 200) for word in ("--checkpoints", out / f"checkpoint-{step}")], *more),
        "checkpoint-200",
    )  # what was named is not left out
    for step in (9, 30):
        shutil.rmtree(out / f"checkpoint-{step}")
    refused(call(*words, "--checkpoints", out, *more))
