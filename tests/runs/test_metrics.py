"""Tests of metrics by hand, of intervals that contain the value, of missing numbers, and of many models at once."""

import numpy as np
import pytest

from skillviz.core.intervals import Interval, metric_difference, wilson
from skillviz.core.metrics import COMPARED, WITHOUT_INTERVAL, ece, metric_names
from skillviz.runs.held_out import fitted
from skillviz.runs.metrics import SCALED, curve_rows, estimate, graft_row, graft_row_of, metrics, split_scores
from skillviz.runs.points import MOST_SIZES, bin_rows, grid_sizes, metric_rows
from skillviz.runs.record import TaskNote

TASK = TaskNote(name="t", labels=("no", "yes"))


def data(n: int = 80, classes: int = 2, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return logits of the four states, the fine-tuned one accurate but overconfident, and the labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    strengths = {"pretrained": (0.2, 1), "finetuned": (1.5, 6), "grafted": (1.4, 2), "complement": (0.4, 1)}
    return {
        state: (sure * (strength * np.eye(classes)[labels] + rng.normal(size=(n, classes)))).astype(np.float32)
        for state, (strength, sure) in strengths.items()
    }, labels


LOGITS, LABELS = data()
GRAFTED = LOGITS["grafted"]


def test_every_value_lies_in_its_interval() -> None:
    found = metrics(GRAFTED, LABELS, TASK)
    ends = {name: one for name, one in found.items() if (one.low, one.high) != (None, None)}
    assert (ends.keys(), {name: one for name, one in ends.items() if not one.low <= one.value <= one.high}) == (
        found.keys() - set(WITHOUT_INTERVAL),
        {},
    )


def test_accuracy_has_wilsons_interval() -> None:
    found = metrics(np.array([[1.0, 0.0]] * 7 + [[0.0, 1.0]] * 3), np.zeros(10, dtype=int), TASK)["accuracy"]
    assert (found.value, found.low, found.high) == (0.7, *wilson(7, 10))


def test_f1_is_there_for_two_labels_only() -> None:
    three, labels = data(classes=3)
    assert "f1" not in metrics(three["grafted"], labels, TaskNote(name="t", labels=("a", "b", "c")))
    assert "f1" in metrics(GRAFTED, LABELS, TASK)


def test_differences_are_grafted_less_finetuned() -> None:
    found = split_scores(
        LOGITS, LABELS, TASK.model_copy(update={"metric": "f1", "positive": 1}), fitted(LOGITS, LABELS, True).value
    )
    values = {state: {name: one.value for name, one in scores.items()} for state, scores in found.states.items()}
    assert list(found.differences) == metric_names("f1", COMPARED)
    for name, difference in found.differences.items():
        assert (
            difference.value == pytest.approx(values["grafted"][name] - values["finetuned"][name])
            and difference.low <= difference.value <= difference.high
        )
    assert (
        found.scaled_differences["nll"].value == pytest.approx(values["grafted"]["nll"] - values[SCALED]["nll"])
        and found.differences["ece"].value < 0
    ), "the fine-tuned model here is very overconfident"


def test_a_temperature_changes_calibration_and_nothing_else() -> None:
    temperature = fitted(LOGITS, LABELS, True).value
    found = split_scores(LOGITS, LABELS, TASK, temperature).states
    assert temperature is not None
    assert temperature > 1
    assert found[SCALED]["accuracy"] == found["finetuned"]["accuracy"]
    assert found[SCALED]["nll"].value < found["finetuned"]["nll"].value
    assert SCALED not in split_scores(LOGITS, LABELS, TASK).states


def test_what_is_known_is_not_scored_again() -> None:
    known = {"finetuned": metrics(GRAFTED, LABELS, TASK)}
    assert split_scores(LOGITS, LABELS, TASK, known=known).states["finetuned"] == known["finetuned"]


@pytest.mark.parametrize(
    ("changes", "agreement", "recovered"),
    [
        ({"grafted": LOGITS["finetuned"]}, 1, 1), ({"grafted": LOGITS["pretrained"]}, None, 0),
        ({"pretrained": LOGITS["finetuned"]}, None, None),
    ],
    ids=["the fine-tuned model", "the base", "no gain of fine-tuning"],
)  # fmt: skip
def test_agreement_and_recovered_gain_of_the_ends(
    changes: dict[str, np.ndarray], agreement: int | None, recovered: int | None
) -> None:
    found = split_scores({**LOGITS, **changes}, LABELS, TASK)
    assert found.recovered.value == recovered
    assert ({(d.value, d.low, d.high) for d in found.differences.values()} == {(0, 0, 0)}) == (agreement == 1)
    assert recovered is not None or found.recovered.low is None
    assert agreement is None or found.agreement.value == agreement


def test_what_is_undefined_is_not_a_number() -> None:
    assert estimate(Interval(float("nan"), 0.0, float("inf"))).model_dump() == {"value": None, "low": 0.0, "high": None}
    found = split_scores({"pretrained": LOGITS["pretrained"]}, LABELS, TASK)
    assert (found.differences, found.agreement, found.recovered) == ({}, None, None)


def test_the_curve_says_the_same_by_both_ways() -> None:
    row = graft_row(LOGITS, LABELS, TASK)
    assert row == graft_row_of(split_scores(LOGITS, LABELS, TASK))
    rows = curve_rows(row, size=5)
    assert {r["metric"] for r in rows} >= {"accuracy", "ece", "agreement", "recovered"} and {
        r["size"] for r in rows
    } == {5}


def three_models(labels: int) -> tuple[list[tuple[dict[str, float], np.ndarray]], np.ndarray]:
    rng = np.random.default_rng(labels)
    y = rng.integers(0, labels, 60)
    noise = rng.normal(size=(60, labels))
    return [({"alpha": s}, (2 * s * np.eye(labels)[y] + noise).astype(np.float32)) for s in (0.0, 0.5, 1.0)], y


@pytest.mark.parametrize(("labels", "metric"), [(2, "accuracy"), (2, "f1"), (3, "accuracy"), (14, "accuracy")])
def test_every_metric_of_many_models_is_that_of_the_model_alone(labels: int, metric: str) -> None:
    points, y = three_models(labels)
    task = TaskNote(
        name="t", labels=tuple(map(str, range(labels))), metric=metric, positive=(0 if metric == "f1" else None)
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
    points, y = three_models(3)
    bins = bin_rows(points, y)
    assert len(bins) == 3 * 15
    assert bins.groupby("alpha")["count"].sum().tolist() == [60, 60, 60]
    assert (bins["correct"] <= bins["count"]).all()
    assert bins.loc[bins["count"] == 0, "confidence"].isna().all()
    for common, logits in points:
        own = bins[bins["alpha"] == common["alpha"]].fillna({"confidence": 0})
        gap = (own["confidence"] * own["count"] - own["correct"]).abs().sum() / len(y)
        assert (own["correct"].sum(), gap) == (
            (logits.argmax(1) == y).sum(),
            pytest.approx(ece(logits, y)),
        ) and not np.isclose(gap, ece(logits, np.roll(y, 1))), "other labels would be seen"


def test_at_most_five_sizes_the_main_one_among_them() -> None:
    assert (grid_sizes((30, 10, 20)), MOST_SIZES, grid_sizes((60, 50, 40, 30, 20, 10))) == (
        (10, 20, 30),
        5,
        (20, 30, 40, 50, 60),
    )
