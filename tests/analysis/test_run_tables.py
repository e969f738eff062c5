"""Tests of tables over runs: means by hand, mirrored pairs, and comparisons that are not allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.run_tables import (
    DIFFERENCES,
    TABLE,
    differences,
    joined,
    sampled,
    table_of_runs,
)
from skillviz.analysis.seeds import apart, difference_over_seeds, mean_over_seeds
from skillviz.core.seeds_interval import mean_of_intervals
from skillviz.errors import BadInput
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from tests.fake_run import fake_run

TINY = {"n": {"validation": 20, "test": 60}, "layers": 1, "width": 8, "steps": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Runs of stagewise with three seeds and of movement with one, each at two sizes."""
    store, pairs = Store(tmp_path_factory.mktemp("runs")), [*(("stagewise", n) for n in range(3)), ("movement", 0)]
    return [
        fake_run(store, localizer=name, seed=seed, sizes=(size,), **TINY)
        for name, seed in pairs
        for size in ("1%", "10%")
    ]  # fmt: skip


def of(runs: list[Run], localizer: str, size: str = "1%") -> list[Run]:
    return [r for r in runs if r.spec.localizer == localizer and r.spec.sizes == (size,)]


def values(runs: list[Run], metric: str) -> np.ndarray:
    return np.array([r.record.metrics["test"].states["grafted"][metric].value for r in runs])


def rows_of(runs: list[Run], localizer: str) -> pd.DataFrame:
    """Return the table's rows of a localizer at the smaller size, by metric."""
    return table_of_runs(runs).query("localizer == @localizer and share < 0.05").set_index("metric")


@pytest.mark.nightly
def test_means_and_deviations_over_seeds(runs: list[Run]) -> None:
    assert table_of_runs(runs).dtypes.astype(str).to_dict() == TABLE
    for metric in ("accuracy", "ece", "nll"):
        row, expected = rows_of(runs, "stagewise").loc[metric], values(of(runs, "stagewise"), metric)
        assert tuple(row[["mean", "sd", "seeds"]]) == pytest.approx((expected.mean(), expected.std(ddof=1), 3))
        assert row["low"] <= (row["debiased"] if metric == "ece" else row["mean"]) <= row["high"]
        wide = 2 * 1.96 * expected.std(ddof=1) / np.sqrt(3)
        assert row["high"] - row["low"] > wide, "the examples count too"


def test_one_seed_says_nothing_about_seeds(runs: list[Run]) -> None:
    row = rows_of(runs, "movement").loc["accuracy", ["mean", "low", "high", "sd"]]
    one = of(runs, "movement")[0].record.metrics["test"].states["grafted"]["accuracy"]
    assert row.tolist() == pytest.approx([one.value, one.low, one.high, np.nan], nan_ok=True), "Wilson's"


def test_metrics_of_several_models_join_the_intervals_of_the_runs(runs: list[Run]) -> None:
    frame, stored = rows_of(runs, "stagewise"), [r.record.metrics["test"].agreement for r in of(runs, "stagewise")]
    wanted = mean_of_intervals(*np.array([(one.value, one.low, one.high) for one in stored if one]).T)
    assert tuple(frame.loc["agreement", ["low", "high"]]) == pytest.approx(wanted[1:3])
    assert frame.loc["recovered", ["low", "mean", "high"]].is_monotonic_increasing
    assert np.isnan(frame.loc["confidence", "low"]), "its row of metrics has no interval"


def test_other_sizes_of_a_run_have_the_intervals_that_it_stored(tmp_path: Path) -> None:
    frame = table_of_runs([fake_run(Store(tmp_path), sizes=("5%", "1%"), **TINY)]).set_index("metric")
    errors = frame.loc["ece", ["low", "debiased", "high"]].to_numpy(float)
    assert frame.loc["accuracy", "low"].notna().all() and errors.shape == (2, 3) and (np.diff(errors) >= 0).all()


def test_nothing_gives_empty_tables_with_their_columns() -> None:
    assert (list(table_of_runs([]).columns), len(table_of_runs([])), list(differences([]).columns)) == (
        list(TABLE),
        0,
        list(DIFFERENCES),
    )


def test_each_pair_at_equal_size_and_its_mirror(runs: list[Run]) -> None:
    frame = differences(runs, metrics=("accuracy", "nll"))
    assert len(frame) == 2 * 2 * 2 and (frame["n"] == 60).all()
    for _, row in frame.iterrows():
        other = frame.query("a == @row.b and size == @row['size'] and metric == @row.metric").iloc[0]
        ends = (-other["value"], -other["high"], -other["low"])
        assert (row["value"], row["low"], row["high"]) == pytest.approx(ends)
        same = [r for r in runs if r.record.size == row["size"]]
        a, b = (values([r for r in same if r.spec.localizer == row[side]], row["metric"]).mean() for side in "ab")
        assert row["value"] == pytest.approx(a - b) and row["low"] <= row["value"] <= row["high"]


def test_a_run_against_itself_differs_by_exactly_nothing(runs: list[Run]) -> None:
    one = of(runs, "movement")
    for metric, sides in sampled({"a": one, "b": one}, ("accuracy", "ece")).by_metric.items():
        assert difference_over_seeds(sides["a"], sides["b"], metric)[:3] == (0, 0, 0)


def test_pairing_narrows_the_interval(runs: list[Run]) -> None:
    both = {"a": of(runs, "stagewise"), "b": of(runs, "stagewise", "10%")}
    for metric, sides in sampled(both, ("accuracy", "nll", "ece")).by_metric.items():
        pair = difference_over_seeds(sides["a"], sides["b"], metric)
        loose = apart(*(mean_over_seeds(side, metric) for side in sides.values()))
        assert pair.value == pytest.approx(loose.value) and pair.high - pair.low < loose.high - loose.low


def test_predictions_are_joined_by_example_and_not_by_row(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    two, real, order = of(runs, "movement") * 2, Run.logits, np.random.default_rng(3)

    def shuffled(self: Run, *asked: Any, **more: Any) -> tuple[np.ndarray, ...]:
        rows = order.permutation(60)
        return tuple(column[rows] for column in real(self, *asked, **more))

    logits, labels = joined(two, "test")
    monkeypatch.setattr(Run, "logits", shuffled)
    again, same = joined(two, "test")
    assert np.array_equal(logits, again) and np.array_equal(labels, same)


def test_runs_on_other_examples_cannot_be_compared(runs: list[Run], tmp_path: Path) -> None:
    other = fake_run(Store(tmp_path), sizes=("1%",), **{**TINY, "n": {"validation": 20, "test": 50}})
    with pytest.raises(BadInput, match="same test examples"):
        sampled({"a": runs[:1], "b": [other]}, ["accuracy"])


def test_other_tasks_and_pairs_are_kept_apart(runs: list[Run], tmp_path: Path) -> None:
    both = [*runs, fake_run(Store(tmp_path), task="cr", sizes=("1%",), **TINY)]
    assert set(table_of_runs(both)["task"]) == {"sst2", "cr"} and "cr" not in set(differences(both)["task"])


def test_f1_is_compared_where_it_is_the_metric(tmp_path: Path) -> None:
    common = {"metric": "f1", "sizes": ("5%",), **TINY}
    two = [fake_run(Store(tmp_path), localizer=name, **common) for name in ("movement", "random")]
    assert "f1" in set(differences(two)["metric"])


def asked(run: Run, **changes: Any) -> Run:
    """Return the run as if these fields of its settings had been requested."""
    return Run(run.path, run.record.model_copy(update={"spec": run.spec.model_copy(update=changes)}))


@pytest.mark.parametrize(
    "changes", [{"dtype": "bfloat16"}, {"autocast": "bfloat16"}, {"readout": "head"}, {"device": "cuda"}, {"k_shot": 4},
                {"options": {"start_share": 0.5}}, {"steps": 7}, {"cuda_graphs": True}],
)  # fmt: skip
def test_another_setting_is_no_further_seed(runs: list[Run], changes: dict[str, Any]) -> None:
    first, second, *_ = of(runs, "stagewise")
    (name, value), *_ = (changes.get("options") or changes).items()
    for other in (first, second):
        frame = table_of_runs([first, asked(other, **changes)]).query("metric == 'accuracy'")
        assert list(frame["seeds"]) == [1, 1] and frame["localizer"].nunique() == 2
        assert f"stagewise {name}={str(value).lower()}" in set(frame["localizer"])


def test_the_same_seed_twice_is_one_seed(runs: list[Run]) -> None:
    own = of(runs, "stagewise")
    frame = table_of_runs([*own, asked(own[0], base="elsewhere/tiny-base")]).query("metric == 'accuracy'")
    assert list(frame["seeds"]) == [3]


def test_a_size_that_two_runs_share_is_told_once(tmp_path: Path) -> None:
    pair = [fake_run(Store(tmp_path), sizes=sizes, **TINY) for sizes in (("5%", "1%"), ("1%",))]
    frame = table_of_runs(pair).query("metric == 'accuracy'")
    assert len(frame) == 2 and not frame.duplicated(["localizer", "size"]).any()
    assert frame["low"].notna().all(), "of two rows the one with an interval is kept"


def test_two_pairs_of_one_task_are_told_apart(tmp_path: Path) -> None:
    one = fake_run(Store(tmp_path), finetuned="demo/one", sizes=("1%",), **TINY)
    two = asked(one, finetuned="demo/two")
    other = two.record.finetuned.model_copy(update={"fingerprint": "another"})
    pair = [one, Run(two.path, two.record.model_copy(update={"finetuned": other}))]
    assert set(table_of_runs(pair)["finetuned"]) == {"one", "two"}
