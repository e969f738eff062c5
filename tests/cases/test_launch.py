"""Tests of Launch: a default follows what it depends on until it is touched, the form shows the run's notes before the
start, and Enter takes the best match of a box, or else the typed text."""

import ast
import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.errors import BadLabelWord, LiveError
from skillviz.layout import KEY, LAYOUT
from skillviz.live.operations import answer
from skillviz.live.request import Worker
from skillviz.runs.plan import planned
from skillviz.runs.store import library
from skillviz.show import text
from skillviz.tasks.project import PROJECT
from skillviz.ui import cache
from skillviz.ui.cache import PAIR, encoding_notes  # the function itself, as most tests replace it
from tests.cases.build import RunSpec, Session, task_file, tiny_pair, tiny_rows, tiny_task
from tests.e2e.conftest import visit
from tests.e2e.server import served, settle
from tests.pages.conftest import paper
from tests.pages.test_launch import FILMS, GADGETS, LABELS, alone, chosen, opened, shipped, small
from tests.ui import driven
from tests.ui.conftest import nobody_waits
from tests.ui.driven import box, button, said

with_examples = pytest.mark.usefixtures("shipped", "paper")


def own_pair(test: AppTest, models: Path) -> AppTest:
    box(box(test, "Models from").set_value("own").run(), "Pre-trained").select(str(models / "base")).run()
    assert "The two fit" in said(box(test, "Fine-tuned").select(str(models / "finetuned")).run())
    return test


def task_box(test: AppTest) -> Any:
    return next(one for one in test.selectbox if one.label == "Task")


@with_examples
def test_an_own_pair_does_not_keep_the_examples_task_and_others(small: Path) -> None:
    test = opened()
    for _ in range(2):
        others = box(test, "Score on other tasks").value
        assert (task_box(test).value, others, button(test, "Start").disabled) == (FILMS, [GADGETS], False)
        own_pair(test, small / "models")
        assert button(test, "Start").disabled and "Not yet: Choose a task." in said(test)
        assert box(test, "Score on other tasks").value == [] and "new.also" not in test.query_params
        assert "films" not in said(test).lower()
        box(test, "Models from").set_value("example").run()


@with_examples
@pytest.mark.parametrize(("source", "task"), [("known", "sst2"), ("example", GADGETS)])
def test_no_task_is_chosen_for_an_own_pair(small: Path, source: str, task: str) -> None:
    """No list records the task a pair was fine-tuned for; the first entry of a list would be a guess."""
    test = box(own_pair(opened(), small / "models"), "Task from").set_value(source).run()
    assert button(test, "Start").disabled and "Not yet: Choose a task." in said(test)
    assert task_box(test).value == "none" and task_box(test).options[0] == "choose a task"
    task_box(test).select(task).run()
    assert "Choose a task." not in said(test)


@with_examples
def test_what_the_user_touched_stays(small: Path) -> None:
    test = opened()
    task_box(box(test, "Region sizes").set_value(["5%"]).run()).select(GADGETS).run()
    own_pair(test, small / "models")
    assert box(test, "Region sizes").value == ["5%"] and test.query_params["new.size"] == "5%"
    box(test, "Models from").set_value("example").run()
    assert box(test, "Region sizes").value == ["5%"] and task_box(test).value == GADGETS
    for task in (GADGETS, FILMS):  # touched back to the default, too
        task_box(test).select(task).run()
        for pair in ("of-gadgets", "of-films"):
            assert task_box(box(test, "Pair").select(pair).run()).value == task


@with_examples
@pytest.mark.parametrize(
    ("query", "label", "value"),
    [({"size": "3%"}, "Region sizes", ["3%"]), ({"lean": "yes", "dtype": "float32"}, "Weights held as", "float32")],
)
def test_a_link_is_a_choice(small: Path, query: dict[str, str], label: str, value: object) -> None:
    assert box(opened(**chosen(small, **query)), label).value == value


@with_examples
def test_the_dtype_follows_lean_mode(small: Path) -> None:
    test = opened(**chosen(small))
    assert box(test, "Weights held as").value == "float32"
    box(test, "Lean mode").set_value(True).run()
    assert box(test, "Weights held as").value == "own" and "--dtype own" in test.code[1].value
    box(box(test, "Weights held as").set_value("bfloat16").run(), "Lean mode").set_value(False).run()
    assert box(test, "Weights held as").value == "bfloat16"


@with_examples
@pytest.mark.parametrize(
    ("label", "is_refused"), [(LABELS[0], False), ("elsewhere", True)], ids=["the same labels", "other labels"]
)
def test_other_data_that_do_not_fit_the_task_are_refused(
    small: Path, tmp_path: Path, label: str, is_refused: bool
) -> None:
    own = shutil.copytree(small / "task", tmp_path / "task") / "task.yaml"
    own.write_text(own.read_text().replace(LABELS[0], label).replace("name: tiny", "name: other"))
    test = opened(**chosen(small, also=own))
    assert button(test, "Start").disabled is ("only tasks with the same labels" in said(test)) is is_refused
    assert is_refused or not test.error


@with_examples
def test_the_readout_follows_the_pair(small: Path) -> None:
    test = own_pair(opened(**{"from": "own", "source": "file", "file": small / "task" / "task.yaml"}), small / "models")
    assert box(test, "How class").options[0] == "automatic: classification head"
    own_pair(box(test, "How class").set_value("head").run(), small / "models" / "words")
    field = box(test, "How class")
    assert (field.options[0], field.value, button(test, "Start").disabled) == (
        "automatic: label words at the mask", "auto", False,
    )  # fmt: skip


def script() -> None:
    import streamlit as st

    from skillviz.ui import controls, form

    pair = st.text_input("pair", "demo", key="pair")
    first = {"demo": "a", "own": "b"}.get(pair, "c")
    if pair != "without":
        st.json(
            {
                "select": controls.select("s", "Select", ["a", "b", "c"], first, follows=True),
                "segments": controls.segments("g", "Segments", ["a", "b", "c"], first, follows=True),
                "box": form.box("b", "Box", ["a", "b", "c"], first, follows=True),
                "several": "".join(form.any_of("m", "Several", ["a", "b", "c"], [first], follows=True)),
                "kept": controls.select("k", "Kept", ["a", "b", "c"], first),
            }
        )


def shown(test: AppTest, pair: str = "") -> str:
    """Return what the select, segments, box, several and the kept field hold, after another pair if given."""
    for each in [pair] * bool(pair):
        test.text_input[0].input(each).run()
    assert not test.exception
    return "".join(json.loads(test.json[0].value).values()) if test.json else ""


@with_examples
def test_each_kind_of_field_follows_until_it_is_touched() -> None:
    test = driven.opened(script)
    assert (shown(test), shown(test, "own")) == ("aaaaa", "bbbba")
    assert not set("sgbm") & set(test.query_params), "a default stands in no address"
    next(one for one in test.selectbox if one.label == "Select").select("c").run()
    test.multiselect[0].set_value(["a"]).run()
    assert [shown(test, pair)[:4] for pair in ("demo", "without", "own")] == ["caaa", "", "cbba"], "drawn or not"


SEEN = "the validation examples are train rows"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Return a task without a validation file; some test rows are train rows, and one text is long."""
    train, test = tiny_rows(64), tiny_rows(40, seed=1)
    long = {"text": " ".join([test[0]["text"]] * 20), "label": test[0]["label"]}
    return task_file(tmp_path / "mine", train, [*test[1:], long, *train[:5]], max_length=32)


def spec_of(small: Path, task: Path, **fields: Any) -> RunSpec:
    models = {"base": str(small / "models" / "base"), "finetuned": str(small / "models" / "finetuned")}
    return RunSpec(**{**models, "task": str(task), "sizes": ("5%",), "device": "cpu", **fields})


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("query", "fields", "words"),
    [
        ({}, {}, (SEEN, "have the text of a training example", "because the task has no validation split")),
        ({"method": "learned"}, {"localizer": "learned"}, (SEEN, "sets its own size")),
        ({"max_test": 10, "k_shot": 4}, {"max_test": 10, "k_shot": 4}, ("test: 10 of 45 rows", "4-shot")),
    ],
)
def test_the_form_lists_what_the_run_will_store(
    query: dict[str, object], fields: dict[str, Any], words: tuple[str, ...], small: Path, task: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def notes(spec: RunSpec, client: object) -> Future[dict[str, list[str]]]:
        """Return the worker's answer, computed in this process."""
        given = answer(Worker(tmp_path / "runs"), "encoded_texts", {"pair": spec.model_dump(mode="json")})
        noted = Future[dict[str, list[str]]]()
        noted.set_result({**given["notes"], cache.PAIR: given["pair"]})
        return noted

    monkeypatch.setattr(cache, "encoding_notes", notes)
    expected = planned(spec_of(small, task, **fields), Session(), library()).notes
    test = opened(**{"from": "own"}, **chosen(small, file=task, **query))
    (shown,) = [str(part.value) for part in test.markdown if str(part.value).startswith("**Notes**")]
    listed = [line.removeprefix("- ") for line in shown.splitlines() if line.startswith("- ")]
    assert listed == [text.plain(note) for note in expected] and not button(test, "Start").disabled
    assert [word for word in words if word not in said(test)] == []


def test_notes_on_the_pair_alone_come_before_a_task_is_chosen(small: Path) -> None:
    models = small / "models"
    test = opened(**{"from": "own", "base": models / "base", "finetuned": models / "finetuned"})
    assert "The base has no classification head" in said(test) and SEEN not in said(test)


@pytest.fixture
def future(monkeypatch: pytest.MonkeyPatch) -> Future[dict[str, list[str]]]:
    future = Future[dict[str, list[str]]]()
    monkeypatch.setattr(cache, "encoding_notes", lambda spec, client: future)
    return future


def test_notes_on_texts_follow_and_nobody_waits_for_them(small: Path, task: Path, future: Future[Any]) -> None:
    test = opened(**{"from": "own"}, **chosen(small, file=task))
    assert "Reading the texts as the models do: notes on them follow." in said(test) and SEEN in said(test)
    assert not button(test, "Start").disabled
    future.set_result({"test": ["3 of 40 texts were shortened."]})
    assert "test: 3 of 40 texts were shortened." in said(test.run()) and "notes on them follow" not in said(test)


@pytest.mark.parametrize(
    ("error", "words", "is_refused"),
    [
        (LiveError("others use all 2 workers."), "shortened or changed is not known: others use all 2", False),
        (BadLabelWord("the label word 'zebra' has three tokens."), "the label word 'zebra' has three tokens.", True),
    ],
)
def test_what_is_not_known_is_said_and_what_the_run_would_refuse_is_refused_before_the_start(
    error: Exception, words: str, is_refused: bool, small: Path, task: Path, future: Future[Any]
) -> None:
    future.set_exception(error)
    test = opened(**{"from": "own"}, **chosen(small, file=task))
    assert words in said(test) and (is_refused or SEEN in said(test)) and button(test, "Start").disabled is is_refused


def test_the_worker_is_asked_once_for_the_texts_of_one_pair_and_task(small: Path, task: Path) -> None:
    client = Mock(store=task.parent)
    client.ask.return_value = {"notes": {"test": ["noted"]}, "pair": ["of the pair"]}
    for fields in ({}, {"sizes": ("1%",)}, {"localizer": "movement"}, {"seed": 3}, {"max_test": 10}):
        found = encoding_notes(spec_of(small, task, **fields), client).result(10)
        assert found == {"test": ["noted"], PAIR: ["of the pair"]}
    asked = [call.kwargs["pair"]["max_test"] for call in client.ask.call_args_list]
    assert asked == [None, 10], "a size, a localizer or a seed changes no text"


@pytest.mark.parametrize(
    ("content", "source"),
    [
        (json.dumps({KEY: LAYOUT, "task": "mrpc"}), "known"),
        *((json.dumps(record), "file") for record in ({KEY: LAYOUT, "task": ["mrpc"]}, {KEY: LAYOUT, "task": "mine"},
                                                      {"task": "mrpc"})),
        ("[", "file"),
        ("[]", "file"),
    ],
)  # fmt: skip
def test_a_model_that_skillviz_fine_tuned_brings_its_task(
    small: Path, tmp_path: Path, content: str, source: str
) -> None:
    models = shutil.copytree(small / "models" / "finetuned", tmp_path / "trained")
    (models / "finetune.json").write_text(content)
    test = opened(**{"from": "own", "base": small / "models" / "base", "finetuned": models})
    assert box(test, "Task from").value == source
    assert box(test, "Task").value == "mrpc" if source == "known" else button(test, "Start").disabled


ONE, SEVERAL = "stSelectbox", "stMultiSelect"


def test_no_list_offers_a_choice_of_all_its_matches() -> None:
    """No list has a "select all matches" option: it is listed above the matches, so Enter would take it."""
    calls = [
        (file.name, *(ast.unparse(word.value) for word in call.keywords if word.arg == "select_all"))
        for file in (PROJECT / "skillviz" / "ui").rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "multiselect"
    ]
    assert len(calls) >= 7 and [call for call in calls if call[1:] != ("False",)] == []


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the form in a dashboard that finds two pairs of models."""
    folder = tmp_path_factory.mktemp("enter")
    for name in ("minilm-l6", "reviews"):
        tiny_pair(folder / "models" / name)
    tiny_task(folder / "task")
    environment = {
        "SKILLVIZ_RUNS": str(folder / "runs"), "SKILLVIZ_MODELS": str(folder / "models"), "HF_HUB_OFFLINE": "1",
        "SKILLVIZ_ROOTS": str(folder),
    }  # fmt: skip
    with served(PROJECT, folder, environment) as address:
        yield f"{address}/launch?new.from=own&new.source=file"


def typed(page: Any, label: str, text: str, *keys: str, kind: str = ONE, at_once: bool = False) -> str:
    """Return the box's value after a text, these keys and Enter; `at_once` gives the menu no time to open."""
    box = page.get_by_test_id(kind).filter(has_text=label).first.locator("input").first
    box.click()
    page.keyboard.insert_text(text) if at_once else page.keyboard.type(text, delay=15)
    if keys:  # an arrow moves the mark, after it is on the match
        box.evaluate("""async (input) => {
            const list = () => document.getElementById(input.getAttribute("aria-controls"));
            const added = () => list()?.querySelector("[role=option]")?.id;
            const isMarked = () => ![null, added()].includes(input.getAttribute("aria-activedescendant"));
            for (let look = 0; look < 100 && !isMarked(); look++) await new Promise((go) => setTimeout(go, 50));
        }""")
    for key in (*keys, "Enter"):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    settle(page)
    return str(box.input_value())


@pytest.mark.e2e
@pytest.mark.nightly
def test_enter_takes_the_best_match(launch: str, visit: Callable[..., Any]) -> None:
    page = visit(launch)
    assert typed(page, "Pre-trained", "minilm").startswith("minilm-l6/base (bert")
    assert typed(page, "Fine-tuned", "minilm", at_once=True).startswith("minilm-l6/finetuned (bert"), "a fast hand"
    assert typed(page, "Fine-tuned", "reviews/fine").startswith("reviews/finetuned (bert")
    assert "Add:" not in page.url and "/reviews/finetuned" in page.url.replace("%2F", "/")
    for name in ("org/no-such-model", "/no/minilm-l6"):
        assert typed(page, "Pre-trained", name) == name, "what nothing matches, and a path, is taken as it was typed"
    assert typed(page, "Pre-trained", "minilm", "ArrowUp") == "minilm", "one that is marked above the matches too"

    for size, at_once, sizes in (("1%", False, "0.1%25%2C1%25"), ("2%", True, "0.1%25%2C1%25%2C2%25")):
        typed(page, "Region sizes", size, kind=SEVERAL, at_once=at_once)
        assert f"new.size={sizes}" in page.url

    assert typed(page, "Localizer", "move") == "top movement"
    page.get_by_text("known task", exact=True).click()
    page.wait_for_timeout(500)
    settle(page)
    assert typed(page, "Task", "mnli").startswith("MNLI")
