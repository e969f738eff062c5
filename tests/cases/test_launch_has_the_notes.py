"""Tests of the notes on Launch: before the start it shows what preflight and --dry-run print and the run stores."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.errors import BadLabelWord, LiveError
from skillviz.layout import KEY, LAYOUT
from skillviz.live.operations import answer
from skillviz.live.request import Worker
from skillviz.runs.plan import planned
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import library
from skillviz.show import text
from skillviz.ui import cache
from skillviz.ui.cache import PAIR, encoding_notes
from tests.cases.build import task_file, tiny_rows
from tests.pages.test_launch import alone, opened, small
from tests.ui.conftest import nobody_waits
from tests.ui.driven import box, button, said

__all__ = ["alone", "nobody_waits", "small"]

SEEN = "the validation examples are train rows"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Return a task without a validation file; some test rows are train rows, and one text is long."""
    train, test = tiny_rows(64), tiny_rows(40, seed=1)
    long = {"text": " ".join([test[0]["text"]] * 20), "label": test[0]["label"]}
    return task_file(tmp_path / "mine", train, [*test[1:], long, *train[:5]], max_length=32)


def form(small: Path, task: Path, **query: object) -> AppTest:
    models = small / "models"
    pair = {"from": "own", "base": models / "base", "finetuned": models / "finetuned"}
    return opened(**{**pair, "source": "file", "file": task, "size": "5%", "device": "cpu", **query})


def spec_of(small: Path, task: Path, **fields: Any) -> RunSpec:
    models = small / "models"
    return RunSpec(
        base=str(models / "base"), finetuned=str(models / "finetuned"), task=str(task),
        **{"sizes": ("5%",), "device": "cpu", **fields},
    )  # fmt: skip


def listed(test: AppTest) -> list[str]:
    """Return the notes on the form, in order."""
    assert not test.exception
    (notes,) = [str(part.value) for part in test.markdown if str(part.value).startswith("**Notes**")]
    return [line.removeprefix("- ") for line in notes.splitlines() if line.startswith("- ")]


def from_worker(tmp_path: Path, spec: RunSpec) -> dict[str, list[str]]:
    """Return the worker's answer, computed in this process."""
    pair = spec.model_dump(mode="json")
    given = answer(Worker(tmp_path / "runs"), "encoded_texts", {"pair": pair})
    return {**given["notes"], PAIR: given["pair"]}


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
    def read(spec: RunSpec, client: object) -> Future[dict[str, list[str]]]:
        future = Future[dict[str, list[str]]]()
        future.set_result(from_worker(tmp_path, spec))
        return future

    monkeypatch.setattr(cache, "encoding_notes", read)
    expected = planned(spec_of(small, task, **fields), Session(), library()).notes
    test = form(small, task, **query)
    assert listed(test) == [text.plain(note) for note in expected] and not button(test, "Start").disabled
    for word in words:
        assert word in said(test)


def test_notes_on_the_pair_alone_come_before_a_task_is_chosen(small: Path) -> None:
    models = small / "models"
    test = opened(**{"from": "own", "base": models / "base", "finetuned": models / "finetuned"})
    assert "The base has no classification head" in said(test) and SEEN not in said(test)


def test_notes_on_texts_follow_and_nobody_waits_for_them(
    small: Path, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = Future[dict[str, list[str]]]()
    monkeypatch.setattr(cache, "encoding_notes", lambda spec, client: future)
    test = form(small, task)
    assert "Reading the texts as the models do: notes on them follow." in said(test) and SEEN in said(test)
    assert not button(test, "Start").disabled
    future.set_result({"test": ["3 of 40 texts were shortened."]})
    test.run()
    assert "test: 3 of 40 texts were shortened." in said(test) and "notes on them follow" not in said(test)


def test_what_is_not_known_is_said(small: Path, task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    future = Future[dict[str, list[str]]]()
    future.set_exception(LiveError("others use all 2 workers of this dashboard."))
    monkeypatch.setattr(cache, "encoding_notes", lambda spec, client: future)
    test = form(small, task)
    assert "Whether texts are shortened or changed is not known: others use all 2 workers" in said(test)
    assert SEEN in said(test) and not button(test, "Start").disabled


def test_what_the_run_would_refuse_is_refused_before_the_start(
    small: Path, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = Future[dict[str, list[str]]]()
    future.set_exception(BadLabelWord("the label word 'zebra' has three tokens."))
    monkeypatch.setattr(cache, "encoding_notes", lambda spec, client: future)
    test = form(small, task)
    assert "the label word 'zebra' has three tokens." in said(test) and button(test, "Start").disabled


def test_the_worker_is_asked_once_for_the_texts_of_one_pair_and_task(small: Path, task: Path) -> None:
    asked: list[dict[str, Any]] = []

    def ask(operation: str, pair: dict[str, Any]) -> dict[str, Any]:
        asked.append(pair)
        return {"notes": {"test": ["noted"]}, "pair": ["of the pair"]}

    client = SimpleNamespace(store=task.parent, ask=ask)
    for fields in ({}, {"sizes": ("1%",)}, {"localizer": "movement"}, {"seed": 3}, {"max_test": 10}):
        future = encoding_notes(spec_of(small, task, **fields), client)  # type: ignore[arg-type]
        assert future.result(10) == {"test": ["noted"], PAIR: ["of the pair"]}
    assert [pair["max_test"] for pair in asked] == [None, 10], "a size, a localizer or a seed changes no text"


def test_a_model_that_skillviz_fine_tuned_brings_its_task(small: Path, tmp_path: Path) -> None:
    models = tmp_path / "trained"
    shutil.copytree(small / "models" / "finetuned", models)
    (models / "finetune.json").write_text(json.dumps({KEY: LAYOUT, "task": "mrpc"}))
    test = opened(**{"from": "own", "base": small / "models" / "base", "finetuned": models})
    assert box(test, "Task").value == "mrpc" and box(test, "Task from").value == "known"
    records = ({KEY: LAYOUT, "task": ["mrpc"]}, {KEY: LAYOUT, "task": "mine"}, {"task": "mrpc"})
    for content in (*map(json.dumps, records), "[", "[]"):
        (models / "finetune.json").write_text(content)
        test = opened(**{"from": "own", "base": small / "models" / "base", "finetuned": models})
        assert box(test, "Task from").value == "file" and button(test, "Start").disabled
