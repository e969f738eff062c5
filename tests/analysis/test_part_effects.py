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


@pytest.fixture(scope="module")
def made() -> tuple[pd.DataFrame, dict, np.ndarray]:
    """Return the predictions of two parts, one of them without controls; the logits by name; and the labels."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, N)
    ids = [f"test-{n}" for n in range(N)]

    def logits(skill: float) -> np.ndarray:
        z = generator.normal(size=(N, 2))
        z[np.arange(N), labels] += skill
        return z.astype(np.float32)

    known = {"pretrained": logits(0), "grafted": logits(2), "a": logits(1.5), "a-": logits(1), "b": logits(0.2)}
    known |= {"b-": logits(2), "a1": logits(0), "a2": logits(0.1), "a-1": logits(1.8), "a-2": logits(1.7)}
    one = RegionPart(0, "value", None, np.arange(5))
    two = RegionPart(None, "bias", None, np.arange(7))
    frames = [
        end_rows(known, 12, ids, labels, NAMES),
        part_rows(
            one, [(ALONE, 0), (WITHOUT, 0), (ALONE, 1), (WITHOUT, 1), (ALONE, 2), (WITHOUT, 2)],
            np.stack([known[k] for k in ("a", "a-", "a1", "a-1", "a2", "a-2")]), ids, labels, NAMES,
        ),
        part_rows(two, [(ALONE, 0), (WITHOUT, 0)], np.stack([known["b"], known["b-"]]), ids, labels, NAMES),
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True), known, labels


@pytest.mark.parametrize("metric", ["accuracy", "nll", "f1"])
def test_effects_are_paired_differences_to_base_and_graft(made, metric: str) -> None:
    frame, known, labels = made
    effects = part_effects(frame, TASK, metric)
    assert tuple(effects.columns) == COLUMNS and len(effects) == 4
    for layer, condition, name, end in (
        (0, ALONE, "a", "pretrained"), (0, WITHOUT, "a-", "grafted"), (None, ALONE, "b", "pretrained"),
    ):  # fmt: skip
        same = effects["layer"].isna() if layer is None else (effects["layer"] == layer).fillna(False)
        row = effects[same & (effects["condition"] == condition)].iloc[0]
        wanted = metric_difference(known[name], known[end], labels, metric)
        assert (row["value"], row["low"], row["high"]) == pytest.approx(wanted[:3])
        assert (row["gained"], row["lost"]) == wanted[4:] if metric == "accuracy" else pd.isna(row["gained"])
        assert row["n"] == N


def test_controls_are_averaged_and_missing_ones_stay_missing(made) -> None:
    frame, known, labels = made
    effects = part_effects(frame, TASK, "accuracy")
    row = effects[(effects["layer"] == 0).fillna(False) & (effects["condition"] == ALONE)].iloc[0]
    right = {name: float((z.argmax(1) == labels).mean()) for name, z in known.items()}
    assert row["draws"] == 2 and row["size"] == 5
    assert row["control"] == pytest.approx((right["a1"] + right["a2"]) / 2 - right["pretrained"])
    assert row["excess"] == pytest.approx(right["a"] - (right["a1"] + right["a2"]) / 2)
    assert row["excess_low"] < row["excess"] < row["excess_high"]
    other = effects[effects["layer"].isna()]
    assert (other["draws"] == 0).all() and other[["control", "excess", "excess_low"]].isna().all().all()


def test_an_effect_of_the_wrong_end_is_seen(made) -> None:
    """Plant an error that the test above catches: measured from the graft, a part alone seems to lose."""
    frame, _, _ = made
    swapped = frame.assign(condition=frame["condition"].replace({"pretrained": "grafted", "grafted": "pretrained"}))
    right, wrong = part_effects(frame, TASK, "accuracy"), part_effects(swapped, TASK, "accuracy")
    assert (right["value"] != wrong["value"]).all()


def test_examples_out_of_step_and_no_rows(made) -> None:
    frame, _, _ = made
    turned = pd.concat([frame.iloc[:N], frame.iloc[N:][::-1]])
    with pytest.raises(ValueError, match="not scored on the same examples"):
        part_effects(turned, TASK, "accuracy")
    assert part_effects(frame.iloc[:0], TASK, "accuracy").empty


@pytest.mark.parametrize(
    ("place", "condition", "graft", "end"),
    [((0, "value", None), ALONE, "a", "pretrained"), ((None, "bias", pd.NA), WITHOUT, "b-", "grafted")],
)
def test_the_predictions_that_a_part_turns(made, place: tuple, condition: str, graft: str, end: str) -> None:
    frame, known, labels = made
    turned = changed_predictions(frame, TASK, place, condition)
    before, after = (known[name].argmax(axis=1) for name in (end, graft))
    assert set(turned["example_id"]) == {f"test-{n}" for n in np.flatnonzero(before != after)}
    by_id = turned.set_index("example_id")
    for n in np.flatnonzero(before != after):
        row = by_id.loc[f"test-{n}"]
        assert (row["label"], row["before"], row["after"]) == (labels[n], before[n], after[n])
    right = (turned["after"] == turned["label"]).tolist()
    assert right == sorted(right, reverse=True), "those set right come first"
