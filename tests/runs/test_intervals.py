"""Intervals of runs that were stored before their calibration errors and gains had intervals that hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.core.calibration_error import calibration_difference, calibration_error
from skillviz.core.intervals import recovered_gain
from skillviz.core.temperature import scaled
from skillviz.runs.interval_table import interval_table
from skillviz.runs.intervals import CALIBRATION, FILE, table, write
from skillviz.runs.run import COVERS, Run, read_record
from skillviz.runs.store import Store, shipped_root
from tests.fake_run import fake_run

LEGACY = {"low": 0.9, "high": 0.95}
TINY = {"n": {"validation": 30, "test": 40}, "layers": 1, "width": 4, "steps": 2, "sizes": ("5%", "20%")}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run as schema version 2 wrote it: legacy ends of calibration, no column `debiased`."""
    run = fake_run(Store(tmp_path_factory.mktemp("stored")), interpolation=True, others=("imdb",), **TINY)
    content = json.loads((run.path / "run.json").read_text())
    scores = [*content["metrics"].values(), *(note["scores"] for note in content["transfers"])]
    for one in scores:
        for metrics in (*one["states"].values(), one["differences"], one["scaled_differences"]):
            for metric in metrics.keys() & set(CALIBRATION):
                metrics[metric] = {"value": metrics[metric]["value"], **LEGACY}
        one["recovered"].update(LEGACY)
    content["schema_version"] = COVERS - 1
    for name in ("curve", "interpolation"):
        path = run.path / f"{name}.parquet"
        frame = pd.read_parquet(path).drop(columns="debiased")
        legacy = frame["metric"].str.startswith("ece") | (frame["metric"] == "recovered")
        frame.loc[legacy, ["low", "high"]] = LEGACY["low"], LEGACY["high"]
        frame.to_parquet(path)
        content["files"][path.name]["size"] = path.stat().st_size
    (run.path / "run.json").write_text(json.dumps(content))
    return run.path


@pytest.fixture
def older(stored: Path, tmp_path: Path) -> Run:
    """A copy of that run, in a folder that a test may change."""
    path = Path(shutil.copytree(stored, tmp_path / stored.name))
    return Run(path, read_record(path))


@pytest.mark.slow
def test_an_older_run_has_the_intervals_of_its_predictions(older: Run) -> None:
    logits = {state: older.logits(state)[2] for state in ("grafted", "finetuned")}
    labels = older.logits("grafted")[1]
    scores = older.record.metrics["test"]
    error = calibration_error(logits["grafted"], labels)
    mass = calibration_error(logits["grafted"], labels, binning="mass")
    less = calibration_difference(logits["grafted"], logits["finetuned"], labels)
    cold = scaled(logits["finetuned"], older.record.temperature or 1.0)
    pairs = [
        (scores.states["grafted"]["ece"], error),
        (scores.states["grafted"]["ece_equal_mass"], mass),
        (scores.states["finetuned_scaled"]["ece"], calibration_error(cold, labels)),
        (scores.differences["ece"], less),
        (scores.scaled_differences["ece"], calibration_difference(logits["grafted"], cold, labels)),
    ]
    for stored, expected in pairs:
        assert (stored.debiased, stored.low, stored.high) == (expected.debiased, expected.low, expected.high)
    _, labels, elsewhere = older.logits("grafted", "test", "imdb")
    assert older.record.transfers[0].scores.states["grafted"]["ece"].low == calibration_error(elsewhere, labels).low


@pytest.mark.slow
def test_a_recovered_gain_has_the_interval_of_the_predictions(older: Run) -> None:
    states = [older.logits(state) for state in ("grafted", "pretrained", "finetuned")]
    expected = recovered_gain(*(logits for _, _, logits in states), states[0][1], older.record.metric)
    stored = older.record.metrics["test"].recovered
    assert stored is not None and (stored.low, stored.high) == (expected.low, expected.high)
    rows = older.curve().query("metric == 'recovered' and split == 'test' and size == @older.record.size")
    assert rows[["low", "high"]].to_numpy().tolist() == [[expected.low, expected.high]]
    elsewhere = older.record.transfers[0].scores.recovered
    assert elsewhere is not None and elsewhere.low != LEGACY["low"]


def test_no_legacy_end_is_left_anywhere(older: Run) -> None:
    for frame in (older.scores(), older.curve(), older.interpolation()):
        rows = frame[frame["metric"].str.startswith("ece")]
        assert len(rows) and not rows[["low", "high"]].isin(list(LEGACY.values())).any(axis=None)
        inside = rows.dropna(subset=["low"])
        assert len(inside) and (inside["low"] <= inside["debiased"]).all()
        assert (inside["debiased"] <= inside["high"]).all()
    curve = older.curve()
    errors = curve[curve["metric"] == "ece"]
    assert set(errors.dropna(subset=["low"])["size"]) == {older.record.size} and errors["value"].notna().all()
    others = curve[~curve["metric"].str.startswith("ece") & (curve["metric"] != "confidence")]
    assert others["debiased"].isna().all() and others["low"].notna().any()


def test_what_an_end_of_the_grid_has_is_what_the_run_has(older: Run) -> None:
    grid, scores = older.interpolation(), older.record.metrics["test"]
    own = grid[(grid["dataset"] == older.datasets[0]) & (grid["size"] == older.record.size) & (grid["alpha"] == 1.0)]
    row = own[own["metric"] == "ece_difference"].iloc[0]
    assert (row["low"], row["high"]) == (scores.differences["ece"].low, scores.differences["ece"].high)
    between = grid[(grid["metric"] == "ece") & ~grid["alpha"].isin([0.0, 1.0])]
    assert between["low"].isna().all() and between["value"].notna().all()


def test_rows_are_stored_beside_the_runs_and_follow_the_predictions(older: Run) -> None:
    root, path = older.path.parent, older.path / "predictions.parquet"
    stored = table(root)
    assert set(stored["run"]) == {older.id}
    write(root, interval_table(root))
    pd.testing.assert_frame_equal(table(root), stored, check_exact=True)
    frame = pd.read_parquet(path)
    at = frame.index[(frame["state"] == "grafted") & (frame["split"] == "test") & (frame["dataset"] == "sst2")][0]
    frame.loc[at, "logit_negative"] += 3.0
    frame.to_parquet(path)
    changed = interval_table(root).sort_values(list(stored.columns[:5]), ignore_index=True)
    different = ~np.isclose(changed["high"], stored["high"], rtol=0, atol=1e-12)
    assert different.any()
    assert set(stored[different]["of"]) <= {"grafted", "differences", "scaled_differences", "recovered"}


def test_a_row_of_another_method_is_not_used(older: Run) -> None:
    root = older.path.parent
    good = table(root)
    write(root, good.assign(low=0.5, high=0.6, method=0))
    again = shutil.copytree(older.path, root / "copy")  # the record of a folder is kept in memory
    (again / "run.json").touch()
    shutil.rmtree(older.path)
    shutil.move(again, older.path)
    scores = read_record(older.path).metrics["test"].states["grafted"]["ece"]
    assert scores.low not in (0.5, None)
    assert set(table(root)["method"]) == set(good["method"])


def test_without_predictions_there_is_no_interval(older: Run) -> None:
    (older.path / "predictions.parquet").unlink()
    (older.path.parent / FILE).unlink()
    (older.path / "run.json").touch()
    estimate = read_record(older.path).metrics["test"].states["grafted"]["ece"]
    assert estimate.value is not None and estimate.low is estimate.high is estimate.debiased is None


def test_a_new_run_needs_no_table(tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path), **TINY)
    assert interval_table(tmp_path).empty and not (tmp_path / FILE).exists()
    for metric in CALIBRATION:
        one = run.record.metrics["test"].states["grafted"][metric]
        assert one.debiased is not None and one.low <= one.debiased <= one.high


def test_the_shipped_table_is_what_the_stored_predictions_give(tmp_path: Path) -> None:
    root, stored = shipped_root(), table(shipped_root())
    names = sorted(name for name in set(stored["run"]) if "/" not in name)[::150]
    scores = sorted(name for name in set(stored["run"]) if "/" in name)[:1]
    for name in (*names, *scores):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copytree(root / name, tmp_path / name)
    write(tmp_path, interval_table(tmp_path))
    expected = stored[stored["run"].isin([*names, *scores])].reset_index(drop=True)
    pd.testing.assert_frame_equal(table(tmp_path), expected, rtol=1e-9)


@pytest.mark.nightly
def test_the_whole_shipped_table_is_what_the_stored_predictions_give(tmp_path: Path) -> None:
    write(tmp_path, interval_table(shipped_root()))
    pd.testing.assert_frame_equal(table(tmp_path), table(shipped_root()), rtol=1e-9)
