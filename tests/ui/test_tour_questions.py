"""Tests of the tour's questions: the right answer follows from the data, and may be "no clear difference"."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.metrics import ece
from skillviz.runs.record import Estimate, RunRecord, Scores, TaskNote
from skillviz.runs.run import Run
from skillviz.runs.store import Store, shipped_root
from skillviz.show.entries import entry_of, hero
from skillviz.ui.pages.tour.questions import (
    SEARCHED,
    UNTOLD,
    Question,
    calibrated,
    graft_or_finetuned,
    half_way,
    more_often,
    share_recovered,
    without_region,
)
from tests.tour_runs import skilled, skilled_runs

__all__ = ["skilled", "skilled_runs"]

NULL = "The null is stored."
TASK = TaskNote(name="t", labels=("a", "b"))
LABELS = np.arange(200) % 2
LOGITS = np.eye(2)[LABELS] * 2.0


def wrong(share: float) -> np.ndarray:
    """Return logits that are wrong on the first examples, this share of them."""
    found = LOGITS.copy()
    found[: round(share * len(found))] *= -1
    return found


@pytest.mark.parametrize(
    ("before", "after", "answer"), [(0.4, 0.1, "finetuned"), (0.1, 0.4, "pretrained"), (0.2, 0.2, UNTOLD)]
)
def test_who_is_right_more_often(before: float, after: float, answer: str) -> None:
    found = more_often(wrong(before), wrong(after), LABELS, TASK)
    assert found.answer == answer and answer in found.choices and "200 test sentences" in found.asks


def test_a_difference_of_a_few_examples_cannot_be_told() -> None:
    one_more = wrong(0.2)
    one_more[-1] *= -1
    assert more_often(one_more, wrong(0.2), LABELS, TASK).answer == UNTOLD


def line(values: list[float], gained: tuple[float, float, float] | None) -> pd.DataFrame:
    """Return points of a path, and the paired difference between its start and its end."""
    ways = np.linspace(0, 1, len(values))
    rows = [
        {"alpha": a, "metric": "accuracy", "value": v, "low": v - 0.03, "high": v + 0.03}
        for a, v in zip(ways, values, strict=True)
    ]
    if gained:
        first = dict(zip(("value", "low", "high"), gained, strict=True))
        rows.append({"alpha": 0.0, "metric": "accuracy_difference", **first})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([0.5, 0.8, 0.9, 0.9, 0.9, 0.9], "early"),
        ([0.5, 0.5, 0.6, 0.8, 0.9, 0.9], "middle"),
        ([0.5, 0.5, 0.5, 0.5, 0.69, 0.9], "late"),
        ([0.5, 0.7, 0.5, 0.5, 0.5, 0.9], "early"),
    ],
)
def test_half_of_the_gain_on_the_way(values: list[float], answer: str) -> None:
    found = half_way(line(values, (-0.4, -0.45, -0.35)), "accuracy")
    assert found.answer == answer and "70.0" in found.why


@pytest.mark.parametrize("gained", [(-0.01, -0.05, 0.03), (0.0, 0.0, 0.0)])
def test_without_a_gain_there_is_no_half_of_it(gained: tuple[float, float, float]) -> None:
    assert half_way(line([0.5, 0.5, 0.51], gained), "accuracy").answer == UNTOLD


@pytest.mark.parametrize("gained", [(-0.4, -0.45, -0.35), None])
def test_of_a_way_that_is_not_stored_nothing_is_asked(gained: tuple[float, float, float] | None) -> None:
    """The ends alone show that there is a gain, but not its place; without their difference not even that."""
    assert half_way(line([0.5, 0.9], gained), "accuracy") is None
    assert half_way(line([0.5, 0.7, 0.9], None), "accuracy") is None


@pytest.mark.parametrize(
    ("ends", "answer", "finding"),
    [
        ((0.8, 0.9), "much", "not the only place"), ((0.96, 1.1), "all", "not the only place"),
        ((0.1, 0.3), "less", "not the only place"), ((-0.1, 0.1), "less", "no clear gain is left"),
    ],
)  # fmt: skip
def test_how_much_is_left_without_the_region(
    ends: tuple[float, float], answer: str, finding: str, skilled: Run
) -> None:
    left = Estimate(value=sum(ends) / 2, low=ends[0], high=ends[1])
    shares = {SEARCHED: Estimate(value=0.9, low=0.8, high=1.0), "movement": None}
    asked = without_region(left, shares, skilled.record, skilled.record.metrics["test"], NULL)
    assert asked.answer == answer and finding in asked.why
    assert "searched region 90% (80" in plain(asked.why) and "top movement" not in asked.why
    assert asked.why.endswith(NULL)
    assert without_region(None, shares, skilled.record, skilled.record.metrics["test"], NULL).answer is None


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")


@pytest.mark.parametrize(
    ("ends", "answer"),
    [((-0.05, -0.02), "grafted"), ((0.02, 0.05), "finetuned"), ((-0.01, 0.02), UNTOLD), ((0.0, 0.03), UNTOLD)],
)
def test_who_is_better_calibrated_and_who_is_right_elsewhere(ends: tuple[float, float], answer: str) -> None:
    middle = Estimate(value=sum(ends) / 2, low=ends[0], high=ends[1])
    values = {"ece": Estimate(value=0.1), "accuracy": Estimate(value=0.8)}
    states = {"grafted": values, "finetuned": values}
    turned = Estimate(value=-middle.value, low=-ends[1], high=-ends[0])  # higher accuracy is better, higher ECE worse
    scores = Scores(
        n=100, states=states, differences={"ece": middle, "accuracy": turned}, scaled_differences={"ece": middle}
    )
    assert calibrated(scores).answer == answer and "temperature scaling" in calibrated(scores).why
    elsewhere = graft_or_finetuned("Which one?", scores, "accuracy")
    assert elsewhere.answer == answer
    assert calibrated(Scores(n=100, states=states)).answer is None


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("value", "answer"), [(-0.2, "less"), (0.5, "much"), (0.95, "all"), (1.4, "all"), (None, None)]
)
def test_a_guess_is_checked_by_the_run(value: float | None, answer: str | None, skilled: Run) -> None:
    scores = skilled.record.metrics["test"].model_copy(
        update={"recovered": Estimate(value=value, low=value, high=value)}
    )
    record: RunRecord = skilled.record.model_copy(update={"metrics": {"test": scores}})
    assert share_recovered(record, NULL).answer == answer
    flat = {**scores.states, "finetuned": scores.states["pretrained"]}
    without = scores.model_copy(update={"states": flat, "recovered": Estimate(value=None)})
    assert share_recovered(record.model_copy(update={"metrics": {"test": without}}), NULL).answer == UNTOLD


def test_before_the_run_there_is_nothing_to_check() -> None:
    assert share_recovered(None, NULL).answer is None and "finishes" in share_recovered(None, NULL).why


@pytest.mark.nightly
def test_of_a_real_run_the_answers_agree_with_its_predictions(skilled: Run) -> None:
    """Recompute the answers from the logits, without any helper."""
    logits = {state: skilled.logits(state) for state in ("pretrained", "grafted", "finetuned")}
    labels = logits["grafted"][1]
    right = {state: (z.argmax(1) == labels).mean() for state, (_, _, z) in logits.items()}
    found: Question = more_often(logits["pretrained"][2], logits["finetuned"][2], labels, skilled.record.task)
    assert right["finetuned"] > right["pretrained"] + 0.1 and found.answer == "finetuned"
    errors = {state: ece(logits[state][2], labels) for state in ("grafted", "finetuned")}
    assert errors["grafted"] < errors["finetuned"] - 0.02
    assert calibrated(skilled.record.metrics["test"]).answer == "grafted"


def test_on_the_run_that_ships_every_question_has_an_answer() -> None:
    runs = {run.id: run for run in Store(shipped_root()).list()}
    chosen = hero([entry_of(run, is_of_user=False) for run in runs.values()])
    assert chosen is not None
    run, left = runs[chosen.id], runs[chosen.id].complement()
    record, scores = run.record, run.record.metrics["test"]
    row = left[(left["split"] == "test") & (left["metric"] == "recovered") & (left["size"] == record.size)].iloc[0]
    complement = Estimate(value=row["value"], low=row["low"], high=row["high"])
    path = run.interpolation()
    path = path[(path["dataset"] == record.task.name) & (path["path"] == "wise-ft")]
    before, after = (run.logits(state)[2] for state in ("pretrained", "finetuned"))
    asked = [
        more_often(before, after, run.logits("finetuned")[1], record.task),
        half_way(path, record.metric),
        graft_or_finetuned("", scores, record.metric),
        without_region(complement, {SEARCHED: scores.recovered}, record, scores, NULL),
        calibrated(scores),
        *(graft_or_finetuned("", note.scores, record.metric) for note in record.transfers[:1]),
    ]
    assert all(question is not None and question.answer in question.choices for question in asked)
    assert asked[0].answer == "finetuned" and scores.n >= 2000
