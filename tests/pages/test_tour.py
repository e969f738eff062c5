"""Tests of the tour: every step with its control and its question, on stored numbers and live on a tiny pair; its
address, reset and presenter mode; and its messages for missing content."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.live.client import Client
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.ui import cache
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.tour.steps import NULL, OTHERS, RIVALS, options
from skillviz.ui.pages.tour.tour_page import CONTROLS, STEPS
from skillviz.ui.presenter import UNDER
from tests.jobs.conftest import ended
from tests.live.conftest import lived, own_workers
from tests.pages.test_pages import charts
from tests.tour_runs import SKILLED, skilled, skilled_runs

__all__ = ["lived", "own_workers", "skilled", "skilled_runs"]
LAST = len(STEPS)
EVERY = range(1, LAST + 1)
HIDDEN = 7
"""The number of the step on a hidden skill."""
CONTROL = dict(zip(EVERY, CONTROLS, strict=False))
RIGHT = {1: "finetuned", 4: "less", 5: "grafted", 6: "grafted"}  # on the stand-in run, from its stored intervals


def opened(**query: str | int) -> AppTest:
    """Return the page after its first script run, with these parameters in the address."""
    test = AppTest.from_file(str(PAGES["tour"].path), default_timeout=300)
    for key, value in query.items():
        test.query_params[key.replace("__", ".")] = str(value)
    return test.run()


def said(test: AppTest) -> str:
    parts = (*test.markdown, *test.caption, *test.info, *test.warning, *test.success, *test.code)
    return "\n".join(str(part.value) for part in parts).replace("\N{NO-BREAK SPACE}", " ")


def button(test: AppTest, label: str):
    return next(b for b in test.button if b.label == label)


def answered(test: AppTest, choice: str) -> AppTest:
    """Return the page after a choice was checked."""
    test.radio[0].set_value(choice).run()
    return button(test, "Reveal").click().run()


def told(test: AppTest) -> str:
    """Return the progress text, for example `Step 3 of 8 · 1 of 2 answers right`."""
    return test.get("progress")[0].proto.text


def asked(test: AppTest, name: str) -> str:
    """Return a value of the address."""
    found = test.query_params[name]
    return found[0] if isinstance(found, list) else found


def metrics(test: AppTest) -> list[tuple[str, str]]:
    return [(metric.label, metric.value) for metric in test.metric]


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("step", EVERY)
def test_every_step_has_a_short_text_a_control_a_figure_and_a_question(step: int, skilled: Run) -> None:
    test = opened(step=step)
    assert not test.exception and not test.error and not test.warning
    assert f"## {STEPS[step - 1].title}" in said(test) and told(test) == f"Step {step} of {LAST}"
    text = test.markdown[1].value.replace("\N{NO-BREAK SPACE}", " ")
    assert 1 <= len(re.findall(r"[.?!:]\W*(?= [A-Z*]|$)", text)) <= 5, text
    assert len(charts(test)) == (0 if step in (1, LAST) else 1), "the stand-in has no texts to begin with"
    assert all(chart.proto.alt for chart in charts(test))
    assert len([c for c in test.caption if c.value.startswith("How to read this:")]) == len(charts(test))
    assert len(test.radio) == 1 and test.radio[0].value is None and "answer:" not in said(test)
    assert test.query_params.get("step", "1") == str(step)
    assert CONTROL[step] not in test.query_params, "it stands at its beginning"


@pytest.mark.nightly
@pytest.mark.parametrize("step", [s for s in EVERY if s < LAST])
def test_one_choice_is_right_and_every_choice_is_explained(step: int, skilled: Run) -> None:
    test = opened(step=step)
    choices = list(test.radio[0].options)
    verdicts = []
    for number in range(len(choices)):
        answered(test, _names(test)[number])
        verdicts.append("**Right.**" in said(test))
        assert verdicts[-1] != ("**Not quite:**" in said(test)) and not test.exception
    assert sum(verdicts) == 1
    if step in RIGHT:
        assert _names(test)[verdicts.index(True)] == RIGHT[step]
    assert told(test) == f"Step {step} of {LAST} · {int(verdicts[-1])} of 1 answer right", "the last one given counts"


def _names(test: AppTest) -> list[str]:
    """Return the names of the choices, in order."""
    from skillviz.ui.pages.tour import questions

    step = int(test.query_params.get("step", "1"))
    if step == HIDDEN:
        return list(questions.SHARES)
    names = {1: ["pretrained", "finetuned"], 2: list(questions.PARTS), 4: list(questions.SHARES)}
    return [*names.get(step, ["grafted", "finetuned"]), questions.UNTOLD]


def figure(test: AppTest) -> tuple[str, dict]:
    """Return the figure's alt text and its layout."""
    (chart,) = charts(test)
    return chart.proto.alt, json.loads(chart.proto.spec)["layout"]


def ends(test: AppTest) -> dict[str, tuple[str, str]]:
    """Return path -> its first and last value in the figure."""
    lines = re.findall(r"(WiSE-\w+) on [^;]*? from (\S+%) to (\S+%)", figure(test)[0])
    return {path: (first, last) for path, first, last in lines}


@pytest.mark.parametrize(("step", "path", "paths"), [(2, "WiSE-FT", 1), (6, "WiSE-Graft", 2)])
def test_a_path_ends_at_the_slider_until_the_answer_is_revealed(step: int, path: str, paths: int, skilled: Run) -> None:
    test = opened(step=step)
    at_first, layout = ends(test), figure(test)[1]
    assert list(at_first) == [path] and at_first[path][0] == at_first[path][1], "the slider's own point alone"
    test.select_slider[0].set_value(40).run()
    half = ends(test)
    assert list(half) == [path] and half[path][1] in dict(metrics(test)).values(), "up to what the cards say"
    button(test, "Reveal").click().run()
    every = ends(test)
    assert len(every) == paths and every[path][0] == half[path][0] and every[path][1] != half[path][1]
    assert figure(test)[1]["yaxis"]["range"] == layout["yaxis"]["range"], "the axis stays as it is"


def test_the_fine_tuned_models_level_comes_with_the_answer(skilled: Run) -> None:
    test = opened(step=3)
    alt, layout = figure(test)
    assert "Fine-tuned" not in dict(metrics(test)) and "fine-tuned" not in str(layout)
    assert "of the gain" not in said(test) and "10.0%" not in alt, "sizes up to the slider's"
    button(test, "Reveal").click().run()
    whole, after = figure(test)
    assert "Fine-tuned" in dict(metrics(test)) and "fine-tuned" in str(after)
    assert "of the gain" in said(test) and "10.0%" in whole
    assert after["xaxis"]["range"] == layout["xaxis"]["range"]


def test_how_many_answers_are_right_comes_with_the_answer(skilled: Run) -> None:
    test = opened(step=5)
    assert [value for label, value in metrics(test) if label == "Right"] == ["?", "?"] and "Right, 95%" not in said(
        test
    )
    assert "wrong" not in charts(test)[0].proto.spec
    button(test, "Reveal").click().run()
    assert all(value.endswith("%") for _, value in metrics(test)) and said(test).count("Right, 95%") == 2
    assert "wrong" in charts(test)[0].proto.spec
    button(test, "Start over").click().run()
    assert "?" in dict(metrics(opened(step=5))).values()


def test_what_was_found_comes_with_the_answer(skilled: Run) -> None:
    test = opened(step=HIDDEN)
    assert "true among" not in figure(test)[0] and "finds most" not in said(test)
    before = test.radio[0].label
    test.selectbox[0].set_value("random 3×").run()
    assert asked(test, "tour.around") == "random 3×" and not test.exception and test.radio[0].label
    test.selectbox[0].set_value("random 1×").run()
    assert test.radio[0].label == before
    button(test, "Reveal").click().run()
    assert "true among" in figure(test)[0] and "Kept out of the true region" in said(test)


def test_answers_stay_while_the_reader_goes_on_and_back(skilled: Run) -> None:
    test = opened()
    assert button(test, "Back").disabled and not button(test, "Next").disabled
    answered(test, "finetuned")
    button(test, "Next").click().run()
    assert told(test) == f"Step 2 of {LAST} · 1 of 1 answer right" and test.radio[0].value is None
    button(test, "Back").click().run()
    assert test.radio[0].value == "finetuned" and "**Right.**" in said(test)
    test.radio[0].set_value("pretrained").run()
    assert "**Right.**" not in said(test), "what is not checked yet is not judged"
    assert button(opened(step=LAST), "Next").disabled


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize(
    ("step", "value"), [(2, "30"), (3, "65"), (4, "layer-1"), (5, "75"), (6, "80")]
)  # fmt: skip
def test_a_link_opens_the_same_view(step: int, value: str, skilled: Run) -> None:
    test = opened(step=step, **{CONTROL_NAMES[step]: value})
    copy = opened(**{name.replace(".", "__"): asked(test, name) for name in test.query_params})
    assert metrics(copy) == metrics(test) and said(copy) == said(test)
    assert metrics(opened(step=step)) != metrics(test) or step == 4, "the control counts"
    assert not copy.exception


CONTROL_NAMES = {2: "tour__way", 3: "tour__size", 4: "tour__keep", 5: "tour__sure", 6: "tour__shift"}


def test_nonsense_in_the_address_is_passed_over(skilled: Run) -> None:
    assert (
        told(opened(step="nine")) == f"Step 1 of {LAST}" == told(opened(step=0))
        and not opened(step=2, tour__way="x").exception
    )


def test_the_numbers_follow_the_slider(skilled: Run) -> None:
    test = opened(step=5)
    assert not test.exception and "600 of 600 answers" in said(test), "it starts at its small end"
    every = metrics(test)
    test.slider[0].set_value(90).run()
    assert metrics(test) != every and "600 of 600 answers" not in said(test) and asked(test, "tour.sure") == "90"


def test_start_over_clears_answers_choices_and_step(skilled: Run) -> None:
    test = answered(opened(step=5, tour__sure=75, present="yes"), "grafted")
    button(test, "Start over").click().run()
    assert told(test) == f"Step 1 of {LAST}" and test.radio[0].value is None and "tour.sure" not in test.query_params
    assert asked(test, "present") == "yes", "the next class sees it as large"
    test.query_params["step"] = "5"
    assert test.run().slider[0].value == 50 and not test.exception


def styles(test: AppTest) -> str:
    return str([block.proto for block in test.get("html")])


@pytest.mark.nightly
def test_presenter_mode_is_large_and_can_be_left(skilled: Run) -> None:
    small, test = opened(step=4), opened(step=4, present="yes")
    assert "clamp(" in styles(test) and "clamp(" not in styles(small)
    heights = [float(re.search(r'"height":([\d.]+)', charts(t)[0].proto.spec)[1]) for t in (small, test)]
    assert heights[1] == pytest.approx(heights[0] + UNDER, abs=1), "it has the place of what a room does not see"
    button(test, "Leave presenter mode").click().run()
    assert "present" not in test.query_params and "clamp(" not in styles(test)
    button(test, "Present").click().run()
    assert asked(test, "present") == "yes" and "clamp(" in styles(test)


def test_without_a_run_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path / "empty"))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")
    test = opened(step=3)
    assert not test.exception and not test.radio and "Localize a pair" in test.info[0].value


def test_it_shows_the_opening_run_whatever_run_is_chosen(skilled: Run) -> None:
    from tests.fake_run import fake_run
    from tests.ui.shared_store import SMALL

    other = fake_run(Store(cache.user_store().root), sizes=("5%",), **SMALL)
    test = opened(step=3, run=other.id)
    assert not test.exception and asked(test, "run") == other.id, "kept for the other pages"
    assert "600 test sentences" in said(test)


def test_the_complement_the_null_and_the_rivals_are_one_choice_away(skilled: Run) -> None:
    test = opened(step=4)
    offered = test.selectbox[0].options
    assert offered[:4] == ["the whole region", "everything but the region", *list(RIVALS.values())[::2]]
    assert OTHERS[NULL] not in offered, "the stand-in has no null"
    whole = metrics(test)
    test.selectbox[0].select("rest").run()
    assert metrics(test) != whole and "everything but the region" in said(test) and not test.exception
    button(test, "Reveal").click().run()
    assert re.search(r"It recovers .* not the only place|no clear gain is left", said(test))
    assert "Beyond the null: not measured." in said(test) and "top movement" in said(test)


@pytest.mark.nightly
@pytest.mark.parametrize(("step", "control"), [(3, {"tour__size": 140}), (4, {"tour__keep": "layer-0"})])
def test_without_weights_a_step_goes_on_with_what_is_stored(step: int, control: dict[str, int], skilled: Run) -> None:
    test = opened(step=step, **control)
    assert not test.exception and len(test.warning) == 1 and SKILLED["base"] in said(test)
    assert len(charts(test)) == 1 and _right(test)


def _right(test: AppTest) -> str:
    """Return the right choice, found by trying each."""
    for name in _names(test):
        if "**Right.**" in said(answered(test, name)):
            return name
    raise AssertionError("no choice is right")


def test_without_weights_a_typed_sentence_says_what_is_missing(skilled: Run) -> None:
    test = opened(tour__sentence="a fine film")
    assert not test.exception and SKILLED["base"] in said(test) and len(test.warning) == len(test.radio) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("own_workers")
def test_a_worker_that_dies_is_told_of_and_the_tour_goes_on(tiny: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = (sys.executable, "-c", "raise SystemExit('no room')")
    monkeypatch.setattr("skillviz.ui.live.Client", lambda root, **settings: Client(root, command=dead, **settings))
    test = opened(tour__sentence="a fine film")
    assert not test.exception and "no room" in test.warning[0].value and button(test, "Try again")
    assert "**Right.**" in said(answered(test, "finetuned"))


@pytest.fixture
def tiny(lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run of a tiny pair with weights and data; a copy of its store is the user's folder."""
    shutil.copytree(lived / "runs", tmp_path / "runs")
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")
    (run,) = Store(tmp_path / "runs").list()
    return run


@pytest.mark.nightly
@pytest.mark.usefixtures("own_workers")
def test_every_live_control_asks_the_models(tiny: Run) -> None:
    """One session goes through the live steps: a typed sentence, a size between two stored ones, a part."""
    test = opened()
    assert not test.exception and len(charts(test)) == 1 and "Stored scores" in said(test)
    first = test.text_area[0].value
    button(test, "Another example").click().run()
    assert test.text_area[0].value != first and "Stored scores" in said(test)
    test.text_area[0].input("the film was fine").run()
    assert not test.warning and "Computed live." in said(test)
    assert re.search(r"Pre-trained \*\*[^*]+\*\* \([\d.]+%\); fine-tuned \*\*[^*]+\*\*", said(test))
    test.query_params["step"] = "3"
    test.run()
    stored = sorted(int(size) for size in tiny.curve()["size"].unique())
    test.select_slider[0].set_value(next(size for size in options(stored, True) if size not in stored)).run()
    assert not test.warning and "Computed live" in said(test)
    test.query_params["step"] = "4"
    test.run()
    test.selectbox[0].select("attention").run()
    assert not test.warning and not test.exception and "Computed live" in said(test)
    assert re.search(r"[\d,]+ of [\d,]+ parameters", said(test))


@pytest.fixture
def store(tiny: Run) -> Iterator[Store]:
    """Return the user's store; jobs still alive at the end are cancelled."""
    found = Store(tiny.path.parent)
    yield found
    for job in jobs.list(found):
        if job.is_open:
            jobs.cancel(found, job.run_id)


def test_without_a_choice_there_is_no_guess_to_keep(skilled: Run) -> None:
    test = opened(step=LAST)
    button(test, "Reveal").click().run()
    assert "There is no answer until your run finishes." in said(test) and "guess is kept" not in said(test)
    test.radio[0].set_value("all").run()
    button(test, "Reveal").click().run()
    assert "Your guess is kept. There is no answer until your run finishes." in said(test)


@pytest.mark.nightly
def test_the_last_step_starts_a_job_and_checks_the_guess_by_its_run(tiny: Run, store: Store) -> None:
    test = answered(opened(step=LAST), "all")
    assert "Your guess is kept" in said(test) and told(test) == f"Step {LAST} of {LAST}"
    assert "Continue with the run of this tour" in said(test)
    button(test, "Find a region").click().run()
    assert not test.exception and not test.warning
    name = asked(test, "tour.job")
    assert f"`{name}`" in said(test)
    job = ended(store, name)
    assert job.status == "finished" and job.spec.base == tiny.spec.base and job.spec.nulls == "none", job.error
    test.run()
    assert re.search(r"\*\*(Right|Not quite)", said(test)) and told(test).count("1 answer right") == 1
    assert not button(test, "Find a region").disabled
    links = [link.proto for link in test.get("page_link")]
    assert "overview" in [link.page for link in links] and len(links) >= 6
    assert "Continue with your own run" in said(test) and all(name in link.query_string for link in links[-6:])
    assert "Beyond the null: not measured." in said(test)
    later, answer = opened(step=LAST, tour__job=name), r"It recovers|did not improve"
    assert "Make your guess" in said(later) and not re.search(answer, said(later)), "the answer waits for its question"
    assert re.search(answer, said(answered(later, "all")))


def test_a_pair_that_is_gone_is_refused_with_a_sentence(skilled: Run) -> None:
    test = opened(step=LAST)
    button(test, "Find a region").click().run()
    assert not test.exception and "tour.job" not in test.query_params and test.warning[0].value
