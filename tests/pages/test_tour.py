"""Tests of the tour: every step with its control and its question, on stored numbers and live on a tiny pair; its
address, reset and presenter mode; and its messages for missing content. The right answers follow from the data, and may
be "no clear difference"."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.core.metrics import ece
from skillviz.live.client import Client
from skillviz.runs.record import Estimate, Scores, TaskNote
from skillviz.runs.run import Run
from skillviz.runs.store import Store, shipped_root
from skillviz.show.briefs import brief_of, hero
from skillviz.show.glossary import GLOSSARY
from skillviz.ui import cache
from skillviz.ui.pages.tour import questions, steps
from skillviz.ui.pages.tour.questions import (
    SEARCHED,
    UNTOLD,
    calibrated,
    graft_or_finetuned,
    half_way,
    more_often,
    share_recovered,
    without_region,
)
from skillviz.ui.pages.tour.tour_page import CONTROLS, STEPS
from skillviz.ui.presenter import UNDER
from tests.fake_run import fake_run
from tests.jobs.conftest import ended
from tests.pages.test_pages import explained
from tests.tour_runs import SKILLED, skilled, skilled_runs
from tests.ui.driven import button, charts, figures, lacks, link, links, opened, pressed, said
from tests.ui.shared_store import SMALL

LAST = len(STEPS)
EVERY = range(1, LAST + 1)
HIDDEN = 7
"""The number of the step on a hidden skill."""
RIGHT = {1: "finetuned", 4: "less", 5: "grafted", 6: "grafted"}  # on the stand-in run, from its stored intervals


def answered(test: AppTest, choice: str) -> AppTest:
    return pressed(test.radio[0].set_value(choice).run(), "Reveal")


def told(test: AppTest) -> str:
    """Return the progress text, for example `Step 3 of 8 · 1 of 2 answers right`."""
    return test.get("progress")[0].proto.text


def metrics(test: AppTest) -> list[tuple[str, str]]:
    return [(metric.label, metric.value) for metric in test.metric]


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("step", EVERY)
def test_every_step_has_a_short_text_a_control_a_figure_and_a_question(step: int, skilled: Run) -> None:
    test = opened("tour", step=step)
    assert f"## {STEPS[step - 1].title}" in said(test) and told(test) == f"Step {step} of {LAST}"
    figures = 0 if step in (1, LAST) else 1  # the stand-in has no texts to begin with
    assert {figures} <= explained(test) <= {figures, 0} and len([c for c in charts(test) if c.proto.alt]) == figures
    assert [one.value for one in test.radio] == [None] and "answer:" not in said(test)
    assert test.query_params.get("step", "1") == str(step) and not test.error and not test.warning
    assert dict(zip(EVERY, CONTROLS, strict=False))[step] not in test.query_params, "it stands at its beginning"


@pytest.mark.nightly
@pytest.mark.parametrize("step", [s for s in EVERY if s < LAST])
def test_one_choice_is_right_and_every_choice_is_explained(step: int, skilled: Run) -> None:
    test, verdicts = opened("tour", step=step), {}
    for name in _names(test):
        text = said(answered(test, name))
        verdicts[name] = "**Right.**" in text
        assert verdicts[name] != ("**Not quite:**" in text)
    assert len(verdicts) == len(test.radio[0].options) and [*verdicts.values()].count(True) == 1
    assert step not in RIGHT or verdicts[RIGHT[step]]
    assert told(test) == f"Step {step} of {LAST} · {int(verdicts[name])} of 1 answer right", "the last one given counts"


def _names(test: AppTest) -> list[str]:
    """Return the names of the choices, in order."""
    shares = list(questions.SHARES)
    names = {1: ["pretrained", "finetuned"], 2: list(questions.PARTS), 4: shares, HIDDEN: shares}
    step = int(test.query_params.get("step", "1"))
    return [*names.get(step, ["grafted", "finetuned"]), *([] if step == HIDDEN else [questions.UNTOLD])]


def figure(test: AppTest) -> tuple[str, dict[str, Any]]:
    (chart,) = charts(test)
    return chart.proto.alt, json.loads(chart.proto.spec)["layout"]


def ends(test: AppTest) -> dict[str, tuple[str, str]]:
    """Return path -> its first and last value in the figure."""
    lines = re.findall(r"(WiSE-\w+) on [^;]*? from (\S+%) to (\S+%)", figure(test)[0])
    return {path: (first, last) for path, first, last in lines}


@pytest.mark.parametrize(("step", "path", "paths"), [(2, "WiSE-FT", 1), (6, "WiSE-Graft", 2)])
def test_a_path_ends_at_the_slider_until_the_answer_is_revealed(step: int, path: str, paths: int, skilled: Run) -> None:
    test = opened("tour", step=step)
    at_first, layout = ends(test), figure(test)[1]
    assert at_first == {path: (at_first[path][0],) * 2}, "the slider's own point alone"
    half = ends(test.select_slider[0].set_value(40).run())
    assert list(half) == [path] and half[path][1] in dict(metrics(test)).values(), "up to what the cards say"
    every = ends(pressed(test, "Reveal"))
    assert len(every) == paths and every[path][0] == half[path][0] and every[path][1] != half[path][1]
    assert figure(test)[1]["yaxis"]["range"] == layout["yaxis"]["range"], "the axis stays as it is"


def test_the_fine_tuned_models_level_comes_with_the_answer(skilled: Run) -> None:
    test = opened("tour", step=3)
    before = figure(test)[1]["xaxis"]["range"]
    for is_told in (False, True):
        if is_told:
            pressed(test, "Reveal")
        alt, layout = figure(test)
        found = {"Fine-tuned" in dict(metrics(test)), "fine-tuned" in str(layout), "of the gain" in said(test)}
        assert found == {is_told} == {"10.0%" in alt}, "sizes up to the slider's"
        assert layout["xaxis"]["range"] == before


def test_how_many_answers_are_right_comes_with_the_answer(skilled: Run) -> None:
    test = opened("tour", step=5)
    assert [value for label, value in metrics(test) if label == "Right"] == ["?", "?"]
    assert "Right, 95%" not in said(test) and "wrong" not in charts(test)[0].proto.spec
    pressed(test, "Reveal")
    assert all(value.endswith("%") for _, value in metrics(test)) and said(test).count("Right, 95%") == 2
    assert "wrong" in charts(test)[0].proto.spec
    pressed(test, "Start over")
    assert "?" in dict(metrics(opened("tour", step=5))).values()


def test_what_was_found_comes_with_the_answer(skilled: Run) -> None:
    test = opened("tour", step=HIDDEN)
    assert "true among" not in figure(test)[0] and "finds most" not in said(test)
    before = test.radio[0].label
    test.selectbox[0].set_value("random 3×").run()
    assert link(test)["tour.around"] == "random 3×" and not test.exception and test.radio[0].label
    assert test.selectbox[0].set_value("random 1×").run().radio[0].label == before
    assert "true among" in figure(pressed(test, "Reveal"))[0] and "Kept out of the true region" in said(test)


def test_answers_stay_while_the_reader_goes_on_and_back(skilled: Run) -> None:
    test = opened("tour")
    assert [button(test, label).disabled for label in ("Back", "Next")] == [True, False]
    pressed(answered(test, "finetuned"), "Next")
    assert told(test) == f"Step 2 of {LAST} · 1 of 1 answer right" and test.radio[0].value is None
    assert pressed(test, "Back").radio[0].value == "finetuned" and "**Right.**" in said(test)
    unchecked = test.radio[0].set_value("pretrained").run()
    assert "**Right.**" not in said(unchecked), "what is not checked yet is not judged"
    assert button(opened("tour", step=LAST), "Next").disabled


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize(
    ("step", "name", "value"),
    [(2, "way", "30"), (3, "size", "65"), (4, "keep", "layer-1"), (5, "sure", "75"), (6, "shift", "80")],
)
def test_a_link_opens_the_same_view(step: int, name: str, value: str, skilled: Run) -> None:
    test = opened("tour", step=step, **{f"tour.{name}": value})
    copy = opened("tour", **link(test))
    assert (metrics(copy), said(copy)) == (metrics(test), said(test))
    assert metrics(opened("tour", step=step)) != metrics(test) or step == 4, "the control counts"


@pytest.mark.parametrize("query", [{"step": "nine"}, {"step": 0}, {"step": 2, "tour.way": "x"}])
def test_nonsense_in_the_address_is_passed_over(query: dict[str, object], skilled: Run) -> None:
    test = opened("tour", **query)
    assert told(test) == f"Step {1 + ('tour.way' in query)} of {LAST}" and not test.exception


def test_the_numbers_follow_the_slider(skilled: Run) -> None:
    test = opened("tour", step=5)
    assert "600 of 600 answers" in said(test), "it starts at its small end"
    every = metrics(test)
    test.slider[0].set_value(90).run()
    assert metrics(test) != every and "600 of 600 answers" not in said(test) and link(test)["tour.sure"] == "90"


def test_start_over_clears_answers_choices_and_step(skilled: Run) -> None:
    test = pressed(answered(opened("tour", step=5, tour__sure=75, present="yes"), "grafted"), "Start over")
    assert told(test) == f"Step 1 of {LAST}" and test.radio[0].value is None
    assert link(test) == {"present": "yes"}, "the next class sees it as large"
    test.query_params["step"] = "5"
    assert test.run().slider[0].value == 50 and not test.exception


@pytest.mark.nightly
def test_presenter_mode_is_large_and_can_be_left(skilled: Run) -> None:
    def is_large(test: AppTest) -> tuple[bool, bool]:
        return "clamp(" in str([block.proto for block in test.get("html")]), link(test).get("present") == "yes"

    small, test = opened("tour", step=4), opened("tour", step=4, present="yes")
    assert [is_large(each) for each in (small, test)] == [(False, False), (True, True)]
    low, high = (figures(each)[0]["layout"]["height"] for each in (small, test))
    assert high == pytest.approx(low + UNDER, abs=1), "it has the place of what a room does not see"
    assert is_large(pressed(test, "Leave presenter mode")) == (False, False)
    assert is_large(pressed(test, "Present")) == (True, True)


def test_it_shows_the_opening_run_whatever_run_is_chosen(skilled: Run) -> None:
    other = fake_run(Store(cache.user_store().root), sizes=("5%",), **SMALL)
    test = opened("tour", step=3, run=other.id)
    assert "600 test sentences" in said(test) and link(test)["run"] == other.id, "kept for the other pages"


def test_the_complement_the_null_and_the_rivals_are_one_choice_away(skilled: Run) -> None:
    test = opened("tour", step=4)
    offered = test.selectbox[0].options
    assert offered[:4] == ["the whole region", "everything but the region", *list(steps.RIVALS.values())[::2]]
    assert steps.OTHERS[steps.NULL] not in offered, "the stand-in has no null"
    whole = metrics(test)
    assert metrics(test.selectbox[0].select("rest").run()) != whole and "everything but the region" in said(test)
    text = said(pressed(test, "Reveal"))
    assert re.search(r"It recovers .* not the only place|no clear gain is left", text)
    assert not lacks(text, "Beyond the null: not measured.", "top movement")


@pytest.mark.nightly
@pytest.mark.parametrize(("step", "control"), [(3, {"tour.size": 140}), (4, {"tour.keep": "layer-0"})])
def test_without_weights_a_step_goes_on_with_what_is_stored(
    step: int, control: dict[str, object], skilled: Run
) -> None:
    test = opened("tour", step=step, **control)
    assert SKILLED["base"] in said(test) and len(test.warning) == 1 and len(charts(test)) == 1
    assert any("**Right.**" in said(answered(test, name)) for name in _names(test))


def test_without_weights_a_typed_sentence_says_what_is_missing(skilled: Run) -> None:
    test = opened("tour", tour__sentence="a fine film")
    assert SKILLED["base"] in said(test) and len(test.warning) == len(test.radio) == 1


@pytest.mark.slow
def test_a_worker_that_dies_is_told_of_and_the_tour_goes_on(alive: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = (sys.executable, "-c", "raise SystemExit('no room')")
    monkeypatch.setattr("skillviz.ui.live.Client", lambda root, **settings: Client(root, command=dead, **settings))
    test = opened("tour", tour__sentence="a fine film")
    assert "no room" in said(test, "warning") and button(test, "Try again")
    assert "**Right.**" in said(answered(test, "finetuned"))


@pytest.mark.nightly
def test_every_live_control_asks_the_models(alive: Run) -> None:
    """One session goes through the live steps: a typed sentence, a size between two stored ones, a part."""
    test = opened("tour")
    first = test.text_area[0].value
    assert len(charts(test)) == 1 and "Stored scores" in said(test)
    assert pressed(test, "Another example").text_area[0].value != first and "Stored scores" in said(test)
    assert "Computed live." in said(test.text_area[0].input("the film was fine").run()) and not test.warning
    assert re.search(r"Pre-trained \*\*[^*]+\*\* \([\d.]+%\); fine-tuned \*\*[^*]+\*\*", said(test))
    stored = sorted(int(size) for size in alive.curve()["size"].unique())
    between = next(size for size in steps.options(stored, True) if size not in stored)
    for step, kind, value in (("3", "select_slider", between), ("4", "selectbox", "attention")):
        test.query_params["step"] = step
        assert "Computed live" in said(test.run().get(kind)[0].set_value(value).run()) and not test.warning, step
    assert re.search(r"[\d,]+ of [\d,]+ parameters", said(test))


@pytest.fixture
def store(alive: Run) -> Iterator[Store]:
    """Return the user's store; jobs still alive at the end are cancelled."""
    found = Store(alive.path.parent)
    yield found
    for job in jobs.list(found):
        if job.is_open:
            jobs.cancel(found, job.run_id)


def test_without_a_choice_there_is_no_guess_to_keep(skilled: Run) -> None:
    test = opened("tour", step=LAST)
    waits, kept = "There is no answer until your run finishes.", "Your guess is kept. "
    assert waits in said(pressed(test, "Reveal")) and "guess is kept" not in said(test)
    assert kept + waits in said(answered(test, "all"))


@pytest.mark.nightly
def test_the_last_step_starts_a_job_and_checks_the_guess_by_its_run(alive: Run, store: Store) -> None:
    test = answered(opened("tour", step=LAST), "all")
    assert not lacks(said(test), "Your guess is kept", "Continue with the run of this tour")
    assert told(test) == f"Step {LAST} of {LAST}"
    name = link(pressed(test, "Find a region"))["tour.job"]
    assert f"`{name}`" in said(test) and not test.warning
    job = ended(store, name)
    assert (job.status, job.spec.base, job.spec.nulls) == ("finished", alive.spec.base, "none"), job.error
    text = said(test.run())
    assert re.search(r"\*\*(Right|Not quite)", text) and told(test).count("1 answer right") == 1
    assert not lacks(text, "Continue with your own run", "Beyond the null: not measured.")
    assert not button(test, "Find a region").disabled
    ways = [one.proto for one in test.get("page_link")]
    assert "overview" in [way.page for way in ways] and len(ways) >= 6
    assert all(name in way.query_string for way in ways[-6:])
    later, answer = opened("tour", step=LAST, tour__job=name), r"It recovers|did not improve"
    assert "Make your guess" in said(later) and not re.search(answer, said(later)), "the answer waits for its question"
    assert re.search(answer, said(answered(later, "all")))


def test_a_pair_that_is_gone_is_refused_with_a_sentence(skilled: Run) -> None:
    test = pressed(opened("tour", step=LAST), "Find a region")
    assert said(test, "warning") and "tour.job" not in test.query_params


SENTENCE = re.compile(r"[.?!:]\W*(?= [A-Z*]|$)")
TOLD_OF_NULL = "The null is stored."
LABELS = np.arange(200) % 2


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_step_says_at_most_four_short_sentences(number: int, skilled: Run) -> None:
    sentences = [part for part in SENTENCE.split(STEPS[number].says(steps.OpeningRun(skilled))) if part.strip(" *")]
    assert 2 <= len(sentences) <= 5, sentences  # the live control adds one
    assert max(len(sentence.split()) for sentence in sentences) <= 32, sentences
    assert {*STEPS[number].words} <= {*GLOSSARY}


def test_there_are_eight_steps_at_most() -> None:
    assert 2 <= len(STEPS) <= 8 and len({step.title for step in STEPS}) == len(STEPS)


def test_the_captions_have_the_runs_numbers(skilled: Run) -> None:
    opening = steps.OpeningRun(skilled)
    assert opening.other is not None and f"{opening.other.scores.n:,} sentences" in steps.text_other(opening.other)
    dropped = [steps.text_other(opening.other.model_copy(update={"dropped": count})) for count in (None, 4)]
    assert ["left out" in text for text in dropped] == [False, True] and "4 left out" in dropped[1]
    assert f"{opening.record.d:,}" in steps.text_paper(opening)
    assert steps.text_source(opening) == "", "its task's file is not here"


def wrong(share: float, *more: int) -> np.ndarray:
    """Return logits that are wrong on the first examples, this share of them, and on these."""
    found = np.eye(2)[LABELS] * 2.0
    found[[*range(round(share * len(found))), *more]] *= -1
    return found


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        (wrong(0.4), wrong(0.1), "finetuned"), (wrong(0.1), wrong(0.4), "pretrained"), (wrong(0.2), wrong(0.2), UNTOLD),
        (wrong(0.2, -1), wrong(0.2), UNTOLD),
    ],
    ids=["gained", "lost", "equal", "a difference of one example"],
)  # fmt: skip
def test_who_is_right_more_often(before: np.ndarray, after: np.ndarray, answer: str) -> None:
    found = more_often(before, after, LABELS, TaskNote(name="t", labels=("a", "b")))
    assert found.answer == answer and answer in found.choices and "200 test sentences" in found.asks


def line(values: list[float], gained: tuple[float, float, float] | None) -> pd.DataFrame:
    """Return points of a path, and the paired difference between its start and its end."""
    rows = [(a, "accuracy", v, v - 0.03, v + 0.03) for a, v in zip(np.linspace(0, 1, len(values)), values, strict=True)]
    difference = [(0.0, "accuracy_difference", *gained)] if gained else []
    return pd.DataFrame([*rows, *difference], columns=["alpha", "metric", "value", "low", "high"])


GAINED = (-0.4, -0.45, -0.35)


@pytest.mark.parametrize(
    ("values", "gained", "answer"),
    [
        ([0.5, 0.8, 0.9, 0.9, 0.9, 0.9], GAINED, "early"), ([0.5, 0.5, 0.6, 0.8, 0.9, 0.9], GAINED, "middle"),
        ([0.5, 0.5, 0.5, 0.5, 0.69, 0.9], GAINED, "late"), ([0.5, 0.7, 0.5, 0.5, 0.5, 0.9], GAINED, "early"),
        ([0.5, 0.5, 0.51], (-0.01, -0.05, 0.03), UNTOLD), ([0.5, 0.5, 0.51], (0.0, 0.0, 0.0), UNTOLD),
        # The ends alone show that there is a gain, but not its place; without their difference not even that.
        ([0.5, 0.9], GAINED, None), ([0.5, 0.9], None, None), ([0.5, 0.7, 0.9], None, None),
    ],
)  # fmt: skip
def test_half_of_the_gain_on_the_way(
    values: list[float], gained: tuple[float, float, float] | None, answer: str | None
) -> None:
    found = half_way(line(values, gained), "accuracy")
    assert (found and found.answer) == answer and (answer in (None, UNTOLD) or "70.0" in found.why)


def between(low: float, high: float) -> Estimate:
    return Estimate(value=(low + high) / 2, low=low, high=high)


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
    shares, scores = {SEARCHED: between(0.8, 1.0), "movement": None}, skilled.record.metrics["test"]
    asked = without_region(between(*ends), shares, skilled.record, scores, TOLD_OF_NULL)
    why = asked.why.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")
    assert asked.answer == answer and not lacks(why, finding, "searched region 90% (80") and why.endswith(TOLD_OF_NULL)
    assert "top movement" not in why
    assert without_region(None, shares, skilled.record, scores, TOLD_OF_NULL).answer is None


@pytest.mark.parametrize(
    ("ends", "answer"),
    [((-0.05, -0.02), "grafted"), ((0.02, 0.05), "finetuned"), ((-0.01, 0.02), UNTOLD), ((0.0, 0.03), UNTOLD)],
)
def test_who_is_better_calibrated_and_who_is_right_elsewhere(ends: tuple[float, float], answer: str) -> None:
    values = {"ece": Estimate(value=0.1), "accuracy": Estimate(value=0.8)}
    states, error = {"grafted": values, "finetuned": values}, between(*ends)
    turned = between(-ends[1], -ends[0])  # higher accuracy is better, higher ECE worse
    scores = Scores(
        n=100, states=states, differences={"ece": error, "accuracy": turned}, scaled_differences={"ece": error}
    )
    asked = [calibrated(scores), graft_or_finetuned("Which one?", scores, "accuracy")]
    assert [question.answer for question in asked] == [answer] * 2 and "temperature scaling" in asked[0].why
    assert calibrated(Scores(n=100, states=states)).answer is None


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("value", "answer"), [(-0.2, "less"), (0.5, "much"), (0.95, "all"), (1.4, "all"), (None, None)]
)
def test_a_guess_is_checked_by_the_run(value: float | None, answer: str | None, skilled: Run) -> None:
    scores = skilled.record.metrics["test"]
    flat = {**scores.states, "finetuned": scores.states["pretrained"]}
    told = [{"recovered": Estimate(value=value, low=value, high=value)},
            {"recovered": Estimate(value=None), "states": flat}]  # fmt: skip
    records = [skilled.record.model_copy(update={"metrics": {"test": scores.model_copy(update=of)}}) for of in told]
    assert [share_recovered(record, TOLD_OF_NULL).answer for record in records] == [answer, UNTOLD]


def test_before_the_run_there_is_nothing_to_check() -> None:
    asked = share_recovered(None, TOLD_OF_NULL)
    assert asked.answer is None and "finishes" in asked.why


@pytest.mark.nightly
def test_of_a_real_run_the_answers_agree_with_its_predictions(skilled: Run) -> None:
    """Recompute the answers from the logits, without any helper."""
    logits = {state: skilled.logits(state)[2] for state in ("pretrained", "grafted", "finetuned")}
    labels = skilled.logits("grafted")[1]
    right = {state: (z.argmax(1) == labels).mean() for state, z in logits.items()}
    assert right["finetuned"] > right["pretrained"] + 0.1
    assert more_often(logits["pretrained"], logits["finetuned"], labels, skilled.record.task).answer == "finetuned"
    assert ece(logits["grafted"], labels) < ece(logits["finetuned"], labels) - 0.02
    assert calibrated(skilled.record.metrics["test"]).answer == "grafted"


def test_on_the_run_that_ships_every_question_has_an_answer() -> None:
    runs = {run.id: run for run in Store(shipped_root()).list()}
    run = runs[hero([brief_of(run, is_of_user=False) for run in runs.values()]).id]  # type: ignore[union-attr]
    record, scores, left = run.record, run.record.metrics["test"], run.complement()
    row = left[(left["split"] == "test") & (left["metric"] == "recovered") & (left["size"] == record.size)].iloc[0]
    complement = Estimate(value=row["value"], low=row["low"], high=row["high"])
    path = run.interpolation()
    path = path[(path["dataset"] == record.task.name) & (path["path"] == "wise-ft")]
    before, after = (run.logits(state)[2] for state in ("pretrained", "finetuned"))
    asked = [
        more_often(before, after, run.logits("finetuned")[1], record.task),
        half_way(path, record.metric),
        graft_or_finetuned("", scores, record.metric),
        without_region(complement, {SEARCHED: scores.recovered}, record, scores, TOLD_OF_NULL),
        calibrated(scores),
        *(graft_or_finetuned("", note.scores, record.metric) for note in record.transfers[:1]),
    ]
    assert [question for question in asked if question is None or question.answer not in question.choices] == []
    assert asked[0].answer == "finetuned" and scores.n >= 2000
