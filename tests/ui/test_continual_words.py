"""What the page of sequences says: lost, gained, unchanged or open, by paired intervals."""

from __future__ import annotations

from typing import Any

import pandas as pd

from skillviz.ui import continual_words
from tests.ui.test_interpolation_words import plain

ORDER = ("a", "b")


def stages(change: tuple[float, float, float], metric: str = "accuracy") -> pd.DataFrame:
    rows = []
    for mode, own in (("naive", change), ("grafting", (0.0, 0.0, 0.0))):
        for stage, task, moved in ((1, "a", (0.0, 0.0, 0.0)), (2, "a", own), (2, "b", (0.0, 0.0, 0.0))):
            rows.append((mode, stage, ORDER[stage - 1], task, metric, 0.8, *moved))
    columns = ["mode", "stage", "stage_task", "task", "metric", "value", "change", "change_low", "change_high"]
    return pd.DataFrame(rows, columns=columns)


NONE = pd.DataFrame(columns=["a", "b", "metric", "task", "low", "high"])


def summary(*given: Any) -> str:
    """The page's sentence with ordinary spaces."""
    return plain(continual_words.summary(*given))


def test_a_loss_is_told_with_its_interval_and_grafting_as_unchanged() -> None:
    said = summary(stages((-0.1, -0.15, -0.05)), NONE, "accuracy")
    assert said.startswith("After 2 tasks, in accuracy:")
    assert "**Naive training**: a **lost** 10.0 points (95 %: 5.0–15.0)." in said
    assert "**Training within regions**: a is answered as before, example by example." in said


def test_a_gain_and_an_open_change() -> None:
    assert "a **gained** 10.0 points" in summary(stages((0.1, 0.05, 0.15)), NONE, "accuracy")
    assert "which may be none" in summary(stages((-0.1, -0.2, 0.01)), NONE, "accuracy")
    assert "a **rose** by +10.0 points" in summary(stages((0.1, 0.05, 0.15), "ece"), NONE, "ece")


def test_against_a_model_of_its_own_is_counted_from_intervals() -> None:
    rows = [("continual_naive", "independent", "accuracy", t, low, high) for t, low, high in
            (("a", -0.2, -0.1), ("b", -0.1, 0.1), ("c", 0.1, 0.2))]  # fmt: skip
    told = pd.DataFrame(rows, columns=["a", "b", "metric", "task", "low", "high"])
    said = summary(stages((-0.1, -0.15, -0.05)), told, "accuracy")
    assert "Against a model of its own, 1 of 3 tasks end worse, 1 better, and of 1 it cannot be told." in said


def test_one_stage_forgets_nothing() -> None:
    frame = stages((0.0, 0.0, 0.0))
    assert "nothing can have been forgotten" in summary(frame[frame["stage"] == 1], NONE, "accuracy")
