"""The known points between a run's models: stored, traced by the worker, or only the ends. No widgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from skillviz.core.calibration_error import BINS, equal_width_edges
from skillviz.core.interpolate import PATHS
from skillviz.core.metrics import metric_row
from skillviz.plots.figure import centers
from skillviz.runs.points import DIFFERENCE, Point, bin_rows
from skillviz.runs.record import Estimate, RunRecord, Scores
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix

FINETUNED, GRAFT = PATHS
POINT = ["path", "size", "alpha", "dataset"]
COLUMNS = [*POINT, "metric", "value", "debiased", "low", "high"]
BIN_COLUMNS = [*POINT, "bin", "count", "correct", "confidence"]
ENDS = (
    (FINETUNED, 0.0, "pretrained"),
    (FINETUNED, 1.0, "finetuned"),
    (GRAFT, 0.0, "pretrained"),
    (GRAFT, 1.0, "grafted"),
)


@dataclass(frozen=True)
class Grid:
    """`points` have the columns of interpolation.parquet, `bins` the columns of interpolation_bins.parquet.

    `between` lists the data sets with known points between the ends. `traced_on` has the number of examples, which may
    be a sample, for data sets traced by the models: none of their numbers is stored. `scored_on` has the number of
    examples of the stored scores.
    """

    points: pd.DataFrame
    bins: pd.DataFrame
    between: tuple[str, ...]
    traced_on: Mapping[str, int] = field(default_factory=dict)
    scored_on: Mapping[str, int] = field(default_factory=dict)

    def examples(self, dataset: str) -> int | None:
        """The number of examples on which the points of a data set are measured; None if it is not known."""
        return self.traced_on.get(dataset, self.scored_on.get(dataset))

    def sizes(self) -> list[int]:
        """The known region sizes of WiSE-Graft, smallest first."""
        return sorted(int(size) for size in self.points["size"].dropna().unique())

    def nearest(self, dataset: str, path: str, size: int, alpha: float) -> tuple[int | None, float] | None:
        """Size and alpha of the nearest known point, by size first; None if no point is known."""
        rows = self.points[(self.points["dataset"] == dataset) & (self.points["path"] == path)]
        if rows.empty:
            return None
        nearest_size: int | None = None
        if path == GRAFT:
            nearest_size = min((int(s) for s in rows["size"].unique()), key=lambda s: abs(math.log(s / size)))
            rows = rows[rows["size"] == nearest_size]
        return nearest_size, float(min(rows["alpha"].unique(), key=lambda a: (abs(a - alpha), a)))

    def best(self, dataset: str, metric: str) -> tuple[str, int | None, float] | None:
        """Path, size and alpha of the best known point on a data set, the first among equals; calibration errors are
        compared by their debiased value, which is the one shown."""
        rows = self.points[(self.points["dataset"] == dataset) & (self.points["metric"] == metric)]
        rows = rows.dropna(subset=["value"])
        if rows.empty:
            return None
        rows = rows.assign(read=centers(rows, 1.0))
        top = rows.sort_values("read", ascending=metric_row(metric).better == "lower", kind="stable").iloc[0]
        return str(top["path"]), None if pd.isna(top["size"]) else int(top["size"]), float(top["alpha"])

    def at(self, table: str, dataset: str, path: str, size: int | None, alpha: float | None = None) -> pd.DataFrame:
        """The rows of one point in `points` or `bins`; of the whole line if no alpha is given."""
        frame: pd.DataFrame = getattr(self, table)
        is_at = (frame["dataset"] == dataset) & (frame["path"] == path)
        is_at &= frame["size"].isna() if size is None else frame["size"].eq(size).fillna(False).astype(bool)
        if alpha is not None:
            is_at &= (frame["alpha"] - alpha).abs() < 1e-9
        return frame[is_at].reset_index(drop=True)

    def marked(self, datasets: Sequence[str], size: int, alpha: float) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The lines of these data sets at the size nearest to this one, with the points nearest to `alpha` as
        further rows (`current`), and those points' histograms."""
        points, bins = [], []
        for dataset in datasets:
            for path in PATHS:
                nearest = self.nearest(dataset, path, size, alpha)
                if nearest is not None:
                    points.append(self.at("points", dataset, path, nearest[0]).assign(current=False))
                    points.append(self.at("points", dataset, path, *nearest).assign(current=True))
                    bins.append(self.at("bins", dataset, path, *nearest))
        return pd.concat(points, ignore_index=True), with_edges(pd.concat(bins, ignore_index=True))

    def traced(self, answer: Mapping[str, Any]) -> Grid:
        """The grid in which the worker's results for one data set replace the known ones."""
        dataset = str(answer["dataset"])
        points, bins = (_typed(pd.DataFrame(answer[name])) for name in ("rows", "bins"))
        other_points, other_bins = (frame[frame["dataset"] != dataset] for frame in (self.points, self.bins))
        return replace(
            self,
            points=_joined([other_points, points[COLUMNS]], COLUMNS),
            bins=_joined([other_bins, bins[BIN_COLUMNS]], BIN_COLUMNS),
            between=(*self.between, dataset),
            traced_on={**self.traced_on, dataset: int(answer["n"])},
        )


def of_run(run: Run, stored: pd.DataFrame, bins: pd.DataFrame, predictions: Callable[[str], pd.DataFrame]) -> Grid:
    """The known points of a run: its stored grid, and, for data sets without one, the ends from its scores and
    predictions.

    `predictions` returns the predictions on a data set.
    """
    record, between, every = run.record, tuple(dict.fromkeys(stored["dataset"])), scores_of(run.record)
    scores = {name: dataset_scores for name, dataset_scores in every.items() if name not in between}
    points = [
        pd.DataFrame(_end_rows(dataset_scores, name, record.size or 0), columns=COLUMNS)
        for name, dataset_scores in scores.items()
    ]
    drawn = set(run.datasets) if record.has_reference else set(bins["dataset"])
    ends = [
        _end_bins(run, name, predictions(name))
        for name in run.datasets
        if name not in drawn and name in (*scores, *between)
    ]
    return Grid(
        _joined([stored, *points], COLUMNS),
        _joined([bins, *ends], BIN_COLUMNS),
        between,
        scored_on={name: dataset_scores.n for name, dataset_scores in every.items()},
    )


def scores_of(record: RunRecord) -> dict[str, Scores]:
    """The scores on each data set's test examples, the run's own task first."""
    first = {record.task.name: record.metrics["test"]} if record.task and "test" in record.metrics else {}
    return first | {transfer.name: transfer.scores for transfer in record.transfers}


def point_of(answer: Mapping[str, Any], dataset: str, path: str, size: int | None, alpha: float) -> tuple[Any, Any]:
    """Rows of `points` and of `bins` for one point computed by the worker."""
    common = {"path": path, "size": size, "alpha": alpha, "dataset": dataset}
    rows = [{**common, "metric": metric, **values} for metric, values in answer["metrics"].items()]
    bins = pd.DataFrame({**answer["bins"]}).assign(**common)
    return _typed(pd.DataFrame(rows).reindex(columns=COLUMNS)), _typed(bins)[BIN_COLUMNS]


def with_edges(bins: pd.DataFrame) -> pd.DataFrame:
    """The histogram with the ends of each bin, for figures."""
    edges = equal_width_edges(BINS)
    number = bins["bin"].to_numpy(dtype=int)
    return bins.assign(lower=edges[number], upper=edges[number + 1])


def estimate(rows: pd.DataFrame, metric: str) -> Estimate | None:
    """The metric of a point; None if it is not known."""
    row = rows[rows["metric"] == metric]
    if row.empty:
        return None
    found = {name: row[name].iloc[0] for name in ("value", "debiased", "low", "high") if name in row}
    defined: dict[str, Any] = {name: float(x) for name, x in found.items() if pd.notna(x)}
    return Estimate(**{"value": None} | defined)


def _end_rows(scores: Scores, dataset: str, size: int) -> list[dict[str, Any]]:
    """The ends of both paths as rows of the grid, with the graft's stored differences from the fine-tuned model."""
    rows = []
    for path, alpha, state in ENDS:
        common = {"path": path, "size": size if path == GRAFT else None, "alpha": alpha, "dataset": dataset}
        values = dict(scores.states.get(state, {}))
        if state == "grafted":
            values |= {name + DIFFERENCE: value for name, value in scores.differences.items()}
        if state == "finetuned":
            zero: dict[str, Any] = {"value": 0.0, "low": 0.0, "high": 0.0}
            values |= {
                name + DIFFERENCE: Estimate(**zero, debiased=None if one.debiased is None else 0.0)
                for name, one in scores.differences.items()
            }
        rows += [{**common, "metric": metric, **value.columns()} for metric, value in values.items()]
    return rows


def _end_bins(run: Run, dataset: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The histograms of the ends, from the stored predictions."""
    frame = frame[frame["split"] == "test"]
    points: list[Point] = []
    labels = None
    for path, alpha, state in ENDS:
        rows = frame[frame["state"] == state].sort_values("example_id", kind="stable")
        if rows.empty:
            return pd.DataFrame(columns=BIN_COLUMNS)
        labels = rows["label"].to_numpy()
        size = run.record.size if path == GRAFT else None
        place = {"path": path, "size": size, "alpha": alpha, "dataset": dataset}
        points.append((place, score_matrix(rows, run.labels)))
    assert labels is not None
    return bin_rows(points, labels)[BIN_COLUMNS]


def _joined(parts: Sequence[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """The parts as one table."""
    filled = [_typed(part[columns]) for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else _typed(pd.DataFrame(columns=columns))


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the tables' own dtypes, which missing values may have changed."""
    floats = ("alpha", "value", "debiased", "low", "high", "confidence")
    kinds = {"size": "Int64", **dict.fromkeys(floats, "float64"), "count": "int64", "correct": "int64", "bin": "int64"}
    return frame.astype({name: kind for name, kind in kinds.items() if name in frame})
