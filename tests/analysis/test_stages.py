"""Tests of the stages of continual learning: values and paired changes by hand; a planted change is rejected."""

import re

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.answers import Answers
from skillviz.analysis.stages import difference, refuse_changed, stages, unseen_answers
from skillviz.core.intervals import wilson
from skillviz.errors import BadData
from skillviz.runs.record import TaskNote
from tests.refused import refused

TASK = TaskNote(name="a", labels=("no", "yes"))


def told(right: str) -> Answers:
    """Return the answers of a model that is right (1) or wrong (0) on each example; all labels are "yes"."""
    logits = np.array([[0.0, 1.0] if sign == "1" else [1.0, 0.0] for sign in right])
    return Answers(
        np.array([f"test-{number}" for number in range(len(right))], dtype=object),
        np.ones(len(right), np.int64),
        logits,
    )


def rows_of(found: dict[tuple[int, str], Answers]) -> pd.DataFrame:
    """Return the rows of these answers, by metric, stage and task."""
    return stages(
        {"naive": found}, ["a", "b"], {name: TaskNote(name=name, labels=("no", "yes")) for name in ("a", "b")}
    ).set_index(["metric", "stage", "task"])


def test_every_task_after_every_stage_with_the_change_since_its_own() -> None:
    rows = rows_of({(1, "a"): told("1111"), (2, "a"): told("1100"), (2, "b"): told("10")})
    found = rows.loc["accuracy"]
    later, own = found.loc[(2, "a")], found.loc[(1, "a")]
    assert found["value"].to_dict() == {(1, "a"): 1.0, (2, "a"): 0.5, (2, "b"): 0.5}
    assert [*own[["change", "change_high"]], later["change"]] == [0.0, 0.0, pytest.approx(-0.5)]
    assert later["change_low"] < -0.5 < later["change_high"]
    assert later[["change_gained", "change_lost", "stage_task"]].tolist() == [0, 2, "b"]
    assert rows.loc["ece", ["change_gained", "change_lost"]].isna().all(axis=None)
    assert set(found["stage_task"]) == {"a", "b"} and set(rows.index.get_level_values(0)) == {"accuracy", "ece"}


def test_intervals_are_wilsons_for_accuracy_and_about_the_debiased_value_for_calibration() -> None:
    rows = rows_of({(1, "a"): told("1100" * 20), (2, "a"): told("1101" * 20)})
    first, error = rows.loc[("accuracy", 1, "a")], rows.loc[("ece", 2, "a")]
    assert first["value"] == 0.5 and first["low"] == pytest.approx(wilson(40, 80)[0]) and np.isnan(first["debiased"])
    assert error["low"] <= error["debiased"] <= error["high"]
    assert error["change_low"] <= error["change_debiased"] <= error["change_high"] < 0


def test_equal_answers_pass_and_a_planted_change_is_refused() -> None:
    same = {(1, "a"): told("1101"), (2, "a"): told("1101"), (2, "b"): told("11")}
    refuse_changed(same, ["a", "b"])
    last_bit = told("1101")
    last_bit.logits[1, 1] = np.nextafter(last_bit.logits[1, 1], 2)
    for changed, words in ((told("1100"), "of 'a' otherwise"), (last_bit, "(other logits; 0 other predictions)")):
        with pytest.raises(BadData, match=f"answers 1 of 4 test examples .*{re.escape(words)}"):
            refuse_changed({**same, (2, "a"): changed}, ["a", "b"])


test_stages_of_other_examples_are_not_compared = refused(
    BadData,
    ("same test examples", lambda: difference(told("11"), told("111"), "accuracy", TASK)),
)


def test_answers_leave_out_what_another_task_trained_on() -> None:
    frame = pd.DataFrame(
        {
            "example_id": ["test-0", "test-1", "test-1", "test-2"], "dataset": "a",
            "split": ["test", "test", "test", "validation"],
            "state": ["finetuned", "finetuned", "pretrained", "finetuned"],
            "label": 1, "logit_no": 0.0, "logit_yes": [1.0, 2.0, 3.0, 4.0],
        }
    )  # fmt: skip
    found = unseen_answers(frame, TASK, frozenset({"test-0"}))
    assert found.ids.tolist() == ["test-1"] and found.logits.tolist() == [[0.0, 2.0]]
