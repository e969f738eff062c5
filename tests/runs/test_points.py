"""Tests of scoring many models on the same examples: each number equals the score of the model alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.intervals import metric_difference
from skillviz.core.metrics import ece
from skillviz.runs.metrics import metrics
from skillviz.runs.points import MOST_SIZES, bin_rows, grid_sizes, metric_rows
from skillviz.runs.record import TaskNote


def drawn(labels: int, n: int = 60) -> tuple[list, np.ndarray]:
    """Return three models of growing strength, and the labels."""
    rng = np.random.default_rng(labels)
    y = rng.integers(0, labels, n)
    noise = rng.normal(size=(n, labels))
    return [({"alpha": s}, (2 * s * np.eye(labels)[y] + noise).astype(np.float32)) for s in (0.0, 0.5, 1.0)], y


@pytest.mark.parametrize(("labels", "metric"), [(2, "accuracy"), (2, "f1"), (3, "accuracy"), (14, "accuracy")])
def test_every_metric_is_that_of_the_model_alone(labels: int, metric: str) -> None:
    points, y = drawn(labels)
    task = TaskNote(
        name="t", labels=tuple(map(str, range(labels))), metric=metric, positive=0 if metric == "f1" else None
    )
    rows = metric_rows(points, y, task, points[-1][1])
    for common, logits in points:
        found = {row["metric"]: row for row in rows if row["alpha"] == common["alpha"]}
        for name, wanted in metrics(logits, y, task).items():
            assert {key: found[name][key] for key in ("value", "debiased", "low", "high")} == wanted.columns(), name
        compared = {name.removesuffix("_difference") for name in found if name.endswith("_difference")}
        assert compared == {metric, "accuracy", "ece", "nll"}
        for name in compared:
            wanted = metric_difference(logits, points[-1][1], y, name, 0 if metric == "f1" else 1)
            row = found[f"{name}_difference"]
            assert (row["value"], row["low"], row["high"]) == pytest.approx(wanted[:3], abs=1e-12)


def test_bins_add_up_to_all_examples_and_to_the_calibration_error() -> None:
    points, y = drawn(3)
    bins = bin_rows(points, y)
    assert len(bins) == 3 * 15 and bins.groupby("alpha")["count"].sum().tolist() == [60, 60, 60]
    for common, logits in points:
        own = bins[bins["alpha"] == common["alpha"]]
        assert own["correct"].sum() == (logits.argmax(1) == y).sum() and (own["correct"] <= own["count"]).all()
        gap = (own["confidence"].fillna(0) * own["count"] - own["correct"]).abs().sum() / len(y)
        assert gap == pytest.approx(ece(logits, y))
        assert not np.isclose(gap, ece(logits, np.roll(y, 1))), "other labels would be seen"
    assert pd.isna(own.loc[own["count"] == 0, "confidence"]).all()


def test_at_most_five_sizes_the_main_one_among_them() -> None:
    assert grid_sizes((30, 10, 20)) == (10, 20, 30)
    assert grid_sizes((60, 50, 40, 30, 20, 10)) == (20, 30, 40, 50, 60) and MOST_SIZES == 5
