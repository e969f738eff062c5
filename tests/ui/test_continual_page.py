"""Tests of the sentences on sequences: lost, gained, unchanged or undecided, from paired intervals."""

from __future__ import annotations

import pandas as pd

from skillviz.ui.pages import continual
from tests.tables import plain
from tests.ui.test_chip import chips

ORDER = ("a", "b")


def stages(change: tuple[float, float, float], metric: str = "accuracy") -> pd.DataFrame:
    rows = []
    for mode, own in (("naive", change), ("grafting", (0.0, 0.0, 0.0))):
        for stage, task, moved in ((1, "a", (0.0, 0.0, 0.0)), (2, "a", own), (2, "b", (0.0, 0.0, 0.0))):
            rows.append((mode, stage, ORDER[stage - 1], task, metric, 0.8, *moved))
    columns = ["mode", "stage", "stage_task", "task", "metric", "value", "change", "change_low", "change_high"]
    return pd.DataFrame(rows, columns=columns)


NONE = pd.DataFrame(columns=["a", "b", "metric", "task", "value", "low", "high"])


def since(stages: pd.DataFrame, metric: str = "accuracy") -> str:
    """Return the sentence on each mode's effect on the earlier tasks, with ordinary spaces."""
    return plain(continual.since_learned(stages, metric))


def beside(stages: pd.DataFrame, told: pd.DataFrame, metric: str) -> str:
    """Return the sentence on the distance to a model of one task, with chips as plain words."""
    return chips(plain(continual.beside_words(stages, told, metric)))


def test_the_headline_has_one_verdict_on_the_task_learned_first() -> None:
    rows = [("continual_graft", "continual_naive", "accuracy", task, 0.2, 0.1, 0.3) for task in "ba"]
    frame, told = stages((-0.1, -0.15, -0.05)), pd.DataFrame(rows, columns=list(NONE))
    said = continual.summary(frame, told, "accuracy")
    assert said.count("-badge[") == 1 and chips(plain(said)) == (
        "Accuracy on the first task after all were learned, training within regions vs naive training: "
        "**a** better +20.0 points (95%: 10.0–30.0)."
    )
    rest = beside(frame, told, "accuracy")
    assert (
        "**Training within regions** vs naive training. Accuracy: **b** better" in rest and "**a** better" not in rest
    )
    assert "No paired comparison" in continual.summary(frame, NONE, "accuracy")
    assert "Fewer than two stages" in continual.summary(frame[frame["stage"] == 1], told, "accuracy")


def test_a_loss_is_told_with_its_interval_and_grafting_as_unchanged() -> None:
    said = since(stages((-0.1, -0.15, -0.05)))
    assert said == (
        "- **Naive training**, accuracy since each task was learned: a **lost** 10.0 points (5.0–15.0).\n"
        "- **Training within regions**, accuracy since each task was learned: a is unchanged, prediction by prediction."
    )


def test_a_gain_and_an_open_change() -> None:
    assert "a **gained** 10.0 points" in since(stages((0.1, 0.05, 0.15)))
    assert "a −10.0 points (−20.0 to 1.0), no clear difference." in since(stages((-0.1, -0.2, 0.01)))
    assert "a **rose** by 10.0 points" in since(stages((0.1, 0.05, 0.15), "ece"), "ece")


def test_nothing_compared_is_nothing_said() -> None:
    assert "better" not in (said := beside(stages((-0.1, -0.15, -0.05)), NONE, "accuracy")) and "worse" not in said


def test_tasks_are_judged_beside_a_model_of_one_task_with_their_intervals() -> None:
    rows = [("continual_naive", "independent", "accuracy", t, value, value - 0.05, value + 0.05) for t, value in
            (("a", -0.15), ("b", 0.01), ("c", 0.15), ("d", -0.2))]  # fmt: skip
    told = pd.DataFrame(rows, columns=list(NONE)[:2] + ["metric", "task", "value", "low", "high"])
    said = beside(stages((-0.1, -0.15, -0.05)), told, "accuracy")
    assert (
        "\n- **Naive training** vs one model per task. Accuracy: **a** worse −15.0 points (−20.0 to −10.0); "
        "**c** better +15.0 points (10.0–20.0); **d** worse −20.0 points (−25.0 to −15.0); **b** no clear difference\n"
    ) in said
    assert "**Training within regions** vs" not in said, "it was not compared"


def test_more_ece_is_worse() -> None:
    told = NONE.copy()
    told.loc[0] = ["continual_naive", "independent", "ece", "a", 0.1, 0.05, 0.15]
    assert "ECE: **a** worse +10.0 points" in beside(stages((0.1, 0.05, 0.15), "ece"), told, "ece")


def test_comparisons_are_counted_and_an_ece_is_told_with_its_debiased_change() -> None:
    frame = stages((0.1, 0.05, 0.15), "ece").assign(change_debiased=0.09)
    rows = [("continual_naive", "independent", "ece", task, 0.1, 0.05, 0.15, 0.08) for task in "ab"]
    told = pd.DataFrame(rows, columns=["a", "b", "metric", "task", "value", "low", "high", "debiased"])
    assert "by 9.0 points" in since(frame, "ece")
    said = beside(frame, told, "ece")
    assert "+8.0 points (5.0–15.0)" in said
    assert said.endswith(
        "Of 4 comparisons, 3 exclude zero; chance alone would give about 0.2. 3 hold at a false discovery rate of 5%."
    )
