"""The tour's questions: what is right follows from the data, also that it cannot be told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.metrics import ece
from skillviz.runs.library import shipped_root
from skillviz.runs.record import Estimate, RunRecord, Scores, TaskNote
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.show.entries import demo_choice, entry_of
from skillviz.tasks.demo_world import read_world
from skillviz.ui.pages.tour.questions import (
    SEARCHED,
    UNTOLD,
    Question,
    best_choice,
    calibrated,
    graft_or_finetuned,
    half_way,
    more_often,
    share_recovered,
)
from tests.demo_world.miniature import skilled, skilled_runs

__all__ = ["skilled", "skilled_runs"]

TASK = TaskNote(name="t", labels=("a", "b"))
LABELS = np.arange(200) % 2
LOGITS = np.eye(2)[LABELS] * 2.0


def wrong(share: float) -> np.ndarray:
    """Logits that are wrong on the first examples, so many of them."""
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
    """Points of a way, and the paired difference of its beginning to its end."""
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
    """Its ends alone say that there is a gain, not where; and without their difference not even that."""
    assert half_way(line([0.5, 0.9], gained), "accuracy") is None
    assert half_way(line([0.5, 0.7, 0.9], None), "accuracy") is None


@pytest.mark.parametrize(
    ("errors", "answer"),
    [((0.1, 0.3, 0.4), SEARCHED), ((0.3, 0.1, 0.4), "movement"), ((0.1, 0.1, 0.4), UNTOLD), ((0.1, 0.3, 0.1), UNTOLD)],
)
def test_the_best_choice_of_parameters_beats_every_other_one(errors: tuple[float, ...], answer: str) -> None:
    names = (SEARCHED, "movement", "random")
    gains = dict.fromkeys(names, Estimate(value=0.5, low=0.4, high=0.6))
    found = best_choice(dict(zip(names, map(wrong, errors), strict=True)), LABELS, gains, TASK)
    assert found.answer == answer and list(found.choices) == [*names, UNTOLD]
    assert plain(found.why).count("50% (40") == 3 and f"{100 * (errors[1] - errors[0]):.1f} points" in plain(found.why)


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
    turned = Estimate(value=-middle.value, low=-ends[1], high=-ends[0])  # more accuracy is better, more ECE worse
    scores = Scores(
        n=100, states=states, differences={"ece": middle, "accuracy": turned}, scaled_differences={"ece": middle}
    )
    assert calibrated(scores).answer == answer and "temperature-scaled" in calibrated(scores).why
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
    assert share_recovered(record).answer == answer
    flat = {**scores.states, "finetuned": scores.states["pretrained"]}
    without = scores.model_copy(update={"states": flat, "recovered": Estimate(value=None)})
    assert share_recovered(record.model_copy(update={"metrics": {"test": without}})).answer == UNTOLD


def test_before_the_run_there_is_nothing_to_check() -> None:
    assert share_recovered(None).answer is None and "finishes" in share_recovered(None).why


@pytest.mark.slow
def test_of_a_real_run_the_answers_agree_with_its_predictions(skilled: Run) -> None:
    """Recomputed from the logits, without any of the helpers."""
    logits = {state: skilled.logits(state) for state in ("pretrained", "grafted", "finetuned")}
    labels = logits["grafted"][1]
    right = {state: (z.argmax(1) == labels).mean() for state, (_, _, z) in logits.items()}
    found: Question = more_often(logits["pretrained"][2], logits["finetuned"][2], labels, skilled.record.task)
    assert right["finetuned"] > right["pretrained"] + 0.1 and found.answer == "finetuned"
    errors = {state: ece(logits[state][2], labels) for state in ("grafted", "finetuned")}
    assert errors["grafted"] < errors["finetuned"] - 0.02
    assert calibrated(skilled.record.metrics["test"]).answer == "grafted"


def test_on_the_run_that_ships_most_answers_are_decided() -> None:
    """Four of the six say what is better, one where half of the gain is; one shows that nothing is lost."""
    world = read_world()
    assert world is not None, "the demo world ships; `python -m skillviz demo build` makes it"
    runs = {name: Store(shipped_root()).open(name) for name in world.runs}
    chosen = demo_choice([entry_of(run, is_of_user=False) for run in runs.values()])
    assert chosen is not None
    run, own = runs[chosen.id], [run for run in runs.values() if entry_of(run, is_of_user=False).pair == chosen.pair]
    alike = {one.spec.localizer: one for one in own if (one.record.size, one.spec.seed) == (chosen.size, chosen.seed)}
    record, (_, labels, graft) = run.record, run.logits("grafted")
    scores, metric = record.metrics["test"], record.task.metric
    before, after = (run.logits(state)[2] for state in ("pretrained", "finetuned"))
    path = run.interpolation()
    others = {name: alike[name].logits("grafted")[2] for name in ("movement", "random")}
    gains = {name: alike[name].record.metrics["test"].recovered for name in others}
    answers = [
        more_often(before, after, labels, record.task).answer,
        half_way(path[(path["dataset"] == record.task.name) & (path["path"] == "wise-ft")], metric).answer,
        graft_or_finetuned("", scores, metric).answer,
        best_choice({SEARCHED: graft, **others}, labels, gains, record.task).answer,
        calibrated(scores).answer,
        graft_or_finetuned("", record.transfers[0].scores, metric).answer,
    ]
    assert scores.n >= 4000 and record.transfers[0].scores.n >= 4000
    assert [answers[0], *answers[3:]] == ["finetuned", SEARCHED, "grafted", "grafted"]
    assert answers[2] == UNTOLD and answers.count(UNTOLD) == 1
    assert scores.recovered.value >= 0.95 and gains["random"].high < 0.05 and gains["movement"].high < 0.6
