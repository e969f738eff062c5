"""Tests of a run's known points between its models: stored ones, ends from its scores, the worker's, the nearest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.runs.run import Run
from skillviz.runs.tables import empty
from skillviz.show import interpolation_grid as grid
from skillviz.show.interpolation_grid import FINETUNED, GRAFT
from skillviz.ui import cache


def whole(run: Run) -> grid.Grid:
    return grid.of_run(run, run.interpolation(), run.interpolation_bins(), run.predictions)


@pytest.fixture
def run(ids: dict[str, str]) -> Run:
    """Return a run that is also scored on imdb, with the grid of two sizes."""
    return cache.run(ids["stagewise0"])


@pytest.fixture
def bare(run: Run) -> grid.Grid:
    """Return the same run without a stored grid."""
    return grid.of_run(run, empty("interpolation"), empty("interpolation_bins"), run.predictions)


def test_a_stored_grid_is_taken_as_it_is(run: Run) -> None:
    found = whole(run)
    assert found.between == ("sst2", "imdb") and found.sizes() == sorted(run.record.sizes)
    assert len(found.points) == len(run.interpolation()) and len(found.bins) == len(run.interpolation_bins())
    for dataset in found.between:  # the histograms use the same examples
        assert found.examples(dataset) == found.at("bins", dataset, FINETUNED, None, 0.5)["count"].sum() > 0


def test_without_a_grid_the_ends_come_from_the_scores_and_predictions(run: Run, bare: grid.Grid) -> None:
    assert bare.between == () and bare.sizes() == [run.record.size]
    stored = whole(run)
    for dataset in run.datasets:
        for path, size in ((FINETUNED, None), (GRAFT, run.record.size)):
            for alpha in (0.0, 1.0):
                one, two = (g.at("points", dataset, path, size, alpha) for g in (bare, stored))
                both = one.merge(two, on="metric", suffixes=("", "_stored"))
                wanted = {"accuracy", "ece", "nll"} | ({"accuracy_difference"} if alpha == 1 else set())
                assert wanted <= set(both["metric"])
                assert both["value"].tolist() == pytest.approx(both["value_stored"].tolist(), abs=1e-12)
                bins = [g.at("bins", dataset, path, size, alpha).sort_values("bin") for g in (bare, stored)]
                assert bins[0]["count"].tolist() == bins[1]["count"].tolist()
                assert bins[0]["correct"].tolist() == bins[1]["correct"].tolist()


def test_a_run_on_its_own_task_alone_knows_its_ends(ids: dict[str, str]) -> None:
    found = whole(cache.run(ids["paraphrase"]))
    assert set(found.points["dataset"]) == {"mrpc"} and sorted(found.points["alpha"].unique()) == [0, 1]
    assert found.nearest("imdb", FINETUNED, 10, 0.5) is None


@pytest.mark.parametrize(
    ("alpha", "near"), [(0.0, 0.0), (0.04, 0.0), (0.06, 0.1), (0.35, 0.3), (0.97, 1.0), (1.0, 1.0)]
)
def test_the_nearest_point_by_size_then_alpha(run: Run, alpha: float, near: float) -> None:
    found, (large, small) = whole(run), (656, 65)
    assert sorted(run.record.sizes) == [small, large]
    assert found.nearest("imdb", FINETUNED, 1, alpha) == (None, pytest.approx(near))
    assert found.nearest("imdb", GRAFT, 300, alpha) == (large, pytest.approx(near)), "in orders of magnitude"
    assert found.nearest("imdb", GRAFT, 150, alpha) == (small, pytest.approx(near))


def test_what_was_traced_takes_the_place_of_what_was_known(run: Run, bare: grid.Grid) -> None:
    rows = run.interpolation().query("dataset == 'imdb' and alpha != 0.5")
    bins = run.interpolation_bins().query("dataset == 'imdb'")
    plain = [f.astype(object).where(f.notna(), None).to_dict("list") for f in (rows, bins)]
    found = bare.traced({"dataset": "imdb", "rows": plain[0], "bins": plain[1], "n": 120})
    assert found.between == ("imdb",) and found.traced_on == {"imdb": 120} and bare.traced_on == {}
    assert len(found.points[found.points["dataset"] == "imdb"]) == len(rows)
    own = bare.points[bare.points["dataset"] == "sst2"]
    assert len(found.points[found.points["dataset"] == "sst2"]) == len(own)
    assert found.points.dtypes.astype(str).to_dict() == bare.points.dtypes.astype(str).to_dict()


def test_the_best_point_has_the_lowest_debiased_error_not_the_lowest_plug_in_one(run: Run) -> None:
    told = [(0.0, 0.060, 0.055), (0.5, 0.027, 0.016), (0.6, 0.023, 0.020)]  # alpha, plug-in, debiased
    common = {"path": FINETUNED, "size": None, "dataset": "imdb", "metric": "ece", "low": 0.0, "high": 0.1}
    points = pd.DataFrame([{**common, "alpha": a, "value": v, "debiased": d} for a, v, d in told])
    known = grid.Grid(points.astype({"size": "Int64"}), pd.DataFrame(columns=grid.BIN_COLUMNS), ("imdb",))
    assert known.best("imdb", "ece") == (FINETUNED, None, 0.5)
    plug_in = grid.Grid(known.points.assign(debiased=np.nan), known.bins, known.between)
    assert plug_in.best("imdb", "ece") == (FINETUNED, None, 0.6)
    stored = whole(run)
    path, size, alpha = stored.best("imdb", "ece")  # type: ignore[misc]
    rows = stored.points.query("dataset == 'imdb' and metric == 'ece'")
    assert grid.estimate(stored.at("points", "imdb", path, size, alpha), "ece").read == rows["debiased"].min()


def test_an_answer_becomes_a_point() -> None:
    metrics = {"accuracy": {"value": 0.5, "low": 0.4, "high": 0.6}, "f1": {"value": None, "low": None, "high": None}}
    counts = {"bin": np.arange(15), "count": np.arange(15), "correct": np.zeros(15, dtype=int)}
    answer = {"metrics": metrics, "bins": {**counts, "confidence": np.full(15, 0.5)}}
    rows, bins = grid.point_of(answer, "imdb", GRAFT, 77, 0.35)
    assert rows["size"].tolist() == [77, 77] and rows["alpha"].tolist() == [0.35, 0.35]
    assert grid.estimate(rows, "accuracy").low == 0.4 and grid.estimate(rows, "f1").value is None
    assert grid.estimate(rows, "ece") is None and len(bins) == 15
    free, _ = grid.point_of(answer, "imdb", FINETUNED, None, 0.35)
    assert free["size"].isna().all()
    edges = grid.with_edges(bins)
    assert edges["lower"].iloc[0] == 0 and edges["upper"].iloc[-1] == 1 and (edges["upper"] > edges["lower"]).all()


def test_a_run_of_an_earlier_version_has_no_histogram_between_its_ends(run: Run) -> None:
    found = grid.of_run(run, run.interpolation(), empty("interpolation_bins"), run.predictions)
    assert sorted(found.bins["alpha"].unique()) == [0, 1] and found.between == ("sst2", "imdb")
    assert isinstance(found.at("bins", "imdb", GRAFT, 65, 0.5), pd.DataFrame)
    assert found.at("bins", "imdb", GRAFT, 65, 0.5).empty and not found.at("bins", "imdb", GRAFT, 65, 1.0).empty


def test_both_paths_are_marked_at_one_place(run: Run) -> None:
    points, bins = whole(run).marked(run.datasets, 65, 0.4)
    chosen = points[points["current"]]
    assert set(chosen["alpha"]) == {0.4} and set(chosen["size"].dropna()) == {65}
    assert len(chosen.groupby(["dataset", "path"])) == 4 and len(bins) == 4 * 15
    lines = points[~points["current"]]
    assert lines.groupby(["dataset", "path"])["alpha"].nunique().eq(11).all()
