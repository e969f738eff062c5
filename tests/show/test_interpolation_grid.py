"""Tests of a run's known points between its models: stored ones, ends from its scores, the worker's, the nearest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.runs.run import Run
from skillviz.runs.store import library
from skillviz.runs.tables import empty
from skillviz.show import interpolation_grid as grid
from skillviz.show.interpolation_grid import FINETUNED, GRAFT


def of_run(run: Run, points: bool = True, bins: bool = True) -> grid.Grid:
    """Return the grid of a run, with or without its stored points and histograms."""
    stored = run.interpolation() if points else empty("interpolation")
    histograms = run.interpolation_bins() if bins else empty("interpolation_bins")
    return grid.of_run(run, stored, histograms, run.predictions)


@pytest.fixture
def whole(run: Run) -> grid.Grid:
    return of_run(run)


@pytest.fixture
def bare(run: Run) -> grid.Grid:
    return of_run(run, points=False, bins=False)


def test_a_stored_grid_is_taken_as_it_is(run: Run, whole: grid.Grid) -> None:
    stored = len(run.interpolation()), len(run.interpolation_bins())
    assert (whole.between, whole.sizes()) == (("sst2", "imdb"), sorted(run.record.sizes))
    assert (len(whole.points), len(whole.bins)) == stored
    for dataset in whole.between:  # the histograms use the same examples
        assert whole.examples(dataset) == whole.at("bins", dataset, FINETUNED, None, 0.5)["count"].sum() > 0


@pytest.mark.parametrize("dataset", ["sst2", "imdb"])
@pytest.mark.parametrize("path", [FINETUNED, GRAFT])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_without_a_grid_the_ends_come_from_the_scores_and_predictions(
    dataset: str, path: str, alpha: float, run: Run, whole: grid.Grid, bare: grid.Grid
) -> None:
    assert (bare.between, bare.sizes(), list(run.datasets)) == ((), [run.record.size], ["sst2", "imdb"])
    place = dataset, path, run.record.size if path == GRAFT else None, alpha
    both = bare.at("points", *place).merge(whole.at("points", *place), on="metric", suffixes=("", "_stored"))
    assert {"accuracy", "ece", "nll", *(["accuracy_difference"] if alpha == 1 else [])} <= set(both["metric"])
    assert both["value"].tolist() == pytest.approx(both["value_stored"].tolist(), abs=1e-12)
    one, two = (g.at("bins", *place).sort_values("bin")[["count", "correct"]] for g in (bare, whole))
    assert one.to_numpy().tolist() == two.to_numpy().tolist()


def test_a_run_on_its_own_task_alone_knows_its_ends(ids: dict[str, str]) -> None:
    found = of_run(library().open(ids["paraphrase"]))
    assert (set(found.points["dataset"]), sorted(found.points["alpha"].unique())) == ({"mrpc"}, [0, 1])
    assert found.nearest("imdb", FINETUNED, 10, 0.5) is None


@pytest.mark.parametrize(
    ("alpha", "near"), [(0.0, 0.0), (0.04, 0.0), (0.06, 0.1), (0.35, 0.3), (0.97, 1.0), (1.0, 1.0)]
)
def test_the_nearest_point_by_size_then_alpha(run: Run, whole: grid.Grid, alpha: float, near: float) -> None:
    """The nearest size is that in orders of magnitude."""
    assert sorted(run.record.sizes) == [65, 656]
    found = [whole.nearest("imdb", path, size, alpha) for path, size in ((FINETUNED, 1), (GRAFT, 300), (GRAFT, 150))]
    assert found == [(size, pytest.approx(near)) for size in (None, 656, 65)]


def test_what_was_traced_takes_the_place_of_what_was_known(run: Run, bare: grid.Grid) -> None:
    rows = run.interpolation().query("dataset == 'imdb' and alpha != 0.5")
    bins = run.interpolation_bins().query("dataset == 'imdb'")
    told = [f.astype(object).where(f.notna(), None).to_dict("list") for f in (rows, bins)]
    found = bare.traced({"dataset": "imdb", "rows": told[0], "bins": told[1], "n": 120})
    assert (found.between, found.traced_on, bare.traced_on) == (("imdb",), {"imdb": 120}, {})
    counts, known = (one.points["dataset"].value_counts().to_dict() for one in (found, bare))
    assert counts == {"imdb": len(rows), "sst2": known["sst2"]}
    assert found.points.dtypes.astype(str).to_dict() == bare.points.dtypes.astype(str).to_dict()


def test_the_best_point_has_the_lowest_debiased_error_not_the_lowest_plug_in_one(whole: grid.Grid) -> None:
    told = [(0.0, 0.060, 0.055), (0.5, 0.027, 0.016), (0.6, 0.023, 0.020)]  # alpha, plug-in, debiased
    common = {"path": FINETUNED, "size": None, "dataset": "imdb", "metric": "ece", "low": 0.0, "high": 0.1}
    points = pd.DataFrame([{**common, "alpha": a, "value": v, "debiased": d} for a, v, d in told]).astype(
        {"size": "Int64"}
    )
    for known, alpha in ((points, 0.5), (points.assign(debiased=np.nan), 0.6)):
        found = grid.Grid(known, pd.DataFrame(columns=grid.BIN_COLUMNS), ("imdb",)).best("imdb", "ece")
        assert found == (FINETUNED, None, alpha)
    path, size, alpha = whole.best("imdb", "ece")  # type: ignore[misc]
    rows = whole.points.query("dataset == 'imdb' and metric == 'ece'")
    assert grid.estimate(whole.at("points", "imdb", path, size, alpha), "ece").read == rows["debiased"].min()


def test_an_answer_becomes_a_point() -> None:
    metrics = {"accuracy": {"value": 0.5, "low": 0.4, "high": 0.6}, "f1": {"value": None, "low": None, "high": None}}
    counts = {"bin": np.arange(15), "count": np.arange(15), "correct": np.zeros(15, dtype=int)}
    answer = {"metrics": metrics, "bins": {**counts, "confidence": np.full(15, 0.5)}}
    rows, bins = grid.point_of(answer, "imdb", GRAFT, 77, 0.35)
    assert rows[["size", "alpha"]].to_numpy().tolist() == [[77, 0.35]] * 2 and len(bins) == 15
    found = grid.estimate(rows, "accuracy").low, grid.estimate(rows, "f1").value, grid.estimate(rows, "ece")
    assert found == (0.4, None, None)
    assert grid.point_of(answer, "imdb", FINETUNED, None, 0.35)[0]["size"].isna().all()
    edges = grid.with_edges(bins)
    assert (edges["lower"].iloc[0], edges["upper"].iloc[-1]) == (0, 1) and (edges["upper"] > edges["lower"]).all()


def test_a_run_of_an_earlier_version_has_no_histogram_between_its_ends(run: Run) -> None:
    found = of_run(run, bins=False)
    assert (sorted(found.bins["alpha"].unique()), found.between) == ([0, 1], ("sst2", "imdb"))
    assert [found.at("bins", "imdb", GRAFT, 65, alpha).empty for alpha in (0.5, 1.0)] == [True, False]


def test_both_paths_are_marked_at_one_place(run: Run, whole: grid.Grid) -> None:
    points, bins = whole.marked(run.datasets, 65, 0.4)
    chosen, lines = points[points["current"]], points[~points["current"]].groupby(["dataset", "path"])["alpha"]
    assert (set(chosen["alpha"]), set(chosen["size"].dropna())) == ({0.4}, {65})
    assert (len(chosen.groupby(["dataset", "path"])), len(bins)) == (4, 4 * 15)
    assert lines.nunique().tolist() == [11] * 4
