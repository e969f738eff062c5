"""Tests of the effect of a region's part, from stored predictions: by hand, and against intervals of single models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.part_effects import COLUMNS, changed_predictions, part_effects
from skillviz.core.intervals import metric_difference
from skillviz.core.region_parts import ALONE, WITHOUT, RegionPart
from skillviz.runs.part_scores import end_rows, part_rows
from skillviz.runs.record import TaskNote

NAMES = ("negative", "positive")
TASK = TaskNote(name="sst2", labels=NAMES)
N = 60


SKILLS = {
    "pretrained": 0,
    "grafted": 2,
    "a": 1.5,
    "a-": 1,
    "b": 0.2,
    "b-": 2,
    "a1": 0,
    "a2": 0.1,
    "a-1": 1.8,
    "a-2": 1.7,
}


@pytest.fixture(scope="module")
def made() -> tuple[pd.DataFrame, dict, np.ndarray]:
    """Return the predictions of two parts, one of them without controls; the logits by name; and the labels."""
    generator = np.random.default_rng(0)
    labels, ids = generator.integers(0, 2, N), [f"test-{n}" for n in range(N)]
    known = {
        name: (generator.normal(size=(N, 2)) + skill * np.eye(2)[labels]).astype(np.float32)
        for name, skill in SKILLS.items()
    }
    value = {"a": (ALONE, 0), "a-": (WITHOUT, 0), "a1": (ALONE, 1), "a-1": (WITHOUT, 1), "a2": (ALONE, 2)}
    parts = (
        (RegionPart(0, "value", None, np.arange(5)), {**value, "a-2": (WITHOUT, 2)}),
        (RegionPart(None, "bias", None, np.arange(7)), {"b": (ALONE, 0), "b-": (WITHOUT, 0)}),
    )
    frames = [
        part_rows(part, list(scored.values()), np.stack([known[name] for name in scored]), ids, labels, NAMES)
        for part, scored in parts
    ]
    return pd.concat([end_rows(known, 12, ids, labels, NAMES), *frames], ignore_index=True), known, labels


def effect(effects: pd.DataFrame, kind: str, condition: str) -> pd.Series:
    """Return the only row of this part and condition."""
    (row,) = effects[(effects["kind"] == kind) & (effects["condition"] == condition)].index
    return effects.loc[row]


@pytest.mark.parametrize("metric", ["accuracy", "nll", "f1"])
@pytest.mark.parametrize(
    ("kind", "condition", "name", "end"),
    [("value", ALONE, "a", "pretrained"), ("value", WITHOUT, "a-", "grafted"), ("bias", ALONE, "b", "pretrained")],
)
def test_effects_are_paired_differences_to_base_and_graft(
    made, metric: str, kind: str, condition: str, name: str, end: str
) -> None:
    frame, known, labels = made
    effects = part_effects(frame, TASK, metric)
    assert tuple(effects.columns) == COLUMNS and len(effects) == 4
    row, wanted = effect(effects, kind, condition), metric_difference(known[name], known[end], labels, metric)
    assert (row["value"], row["low"], row["high"], row["n"]) == pytest.approx((*wanted[:3], N))
    assert (row["gained"], row["lost"]) == wanted[4:] if metric == "accuracy" else pd.isna(row["gained"])


def test_controls_are_averaged_and_missing_ones_stay_missing(made) -> None:
    frame, known, labels = made
    effects = part_effects(frame, TASK, "accuracy")
    row, other = effect(effects, "value", ALONE), effects[effects["kind"] == "bias"]
    right = {name: float((z.argmax(1) == labels).mean()) for name, z in known.items()}
    control = (right["a1"] + right["a2"]) / 2
    wanted = (2, 5, control - right["pretrained"], right["a"] - control)
    assert tuple(row[["draws", "size", "control", "excess"]]) == pytest.approx(wanted)
    assert row["excess_low"] < row["excess"] < row["excess_high"]
    assert (other["draws"] == 0).all() and other[["control", "excess", "excess_low"]].isna().all(axis=None)


def test_an_effect_of_the_wrong_end_is_seen(made) -> None:
    """Plant an error that the test above catches: measured from the graft, a part alone seems to lose."""
    frame, *_ = made
    swapped = frame.assign(condition=frame["condition"].replace({"pretrained": "grafted", "grafted": "pretrained"}))
    right, wrong = (part_effects(one, TASK, "accuracy")["value"] for one in (frame, swapped))
    assert (right != wrong).all()


def test_examples_out_of_step_and_no_rows(made) -> None:
    frame, *_ = made
    with pytest.raises(ValueError, match="not scored on the same examples"):
        part_effects(pd.concat([frame.iloc[:N], frame.iloc[N:][::-1]]), TASK, "accuracy")
    assert part_effects(frame.iloc[:0], TASK, "accuracy").empty


@pytest.mark.parametrize(
    ("place", "condition", "graft", "end"),
    [((0, "value", None), ALONE, "a", "pretrained"), ((None, "bias", pd.NA), WITHOUT, "b-", "grafted")],
)
def test_the_predictions_that_a_part_turns(made, place: tuple, condition: str, graft: str, end: str) -> None:
    frame, known, labels = made
    turned = changed_predictions(frame, TASK, place, condition)
    before, after = (known[name].argmax(axis=1) for name in (end, graft))
    rows = turned.sort_index()[["example_id", "label", "before", "after"]].values.tolist()
    wanted = [[f"test-{n}", labels[n], before[n], after[n]] for n in np.flatnonzero(before != after)]
    assert sorted(rows) == sorted(wanted)
    assert (turned["after"] == turned["label"]).is_monotonic_decreasing, "those set right come first"
