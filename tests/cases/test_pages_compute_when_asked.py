"""Tests that opening a page never runs the models: a button says what it scores and on how many examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.store import Store
from skillviz.ui import live
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages import tasks as tasks_view
from tests.fake_run import fake_run
from tests.studies.fake_study import fake_study
from tests.ui.conftest import ids, made, nobody_waits
from tests.ui.shared_store import SMALL

__all__ = ["ids", "made", "nobody_waits"]

Asked = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Record the operations that pages request from the models; both models are present and give no answer."""
    asked: Asked = []

    def ask(run: Any, operation: str, **arguments: Any) -> None:
        asked.append((operation, arguments))

    monkeypatch.setattr(live, "ask", ask)
    monkeypatch.setattr(live, "has_models", lambda run: True)
    return asked


def opened(page: str, **query: str) -> AppTest:
    test = AppTest.from_file(str(PAGES[page].path), default_timeout=120)
    for name, value in query.items():
        test.query_params[name] = value
    test.run()
    assert not test.exception
    return test


def button(test: AppTest, label: str) -> Any:
    return next(one for one in test.button if one.label == label)


def captions(test: AppTest) -> str:
    return "\n".join(str(caption.value) for caption in test.caption)


RUN_PAGES = [page for page in PAGES if page not in ("home", "launch", "jobs", "studies", "runs", "tour")]


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("page", RUN_PAGES)
@pytest.mark.parametrize("name", ["stagewise0", "paraphrase"])
def test_opening_a_page_asks_for_nothing(page: str, name: str, ids: dict[str, str], questions: Asked) -> None:
    opened(page, run=ids[name])
    assert questions == []


def test_surgery_scores_a_region_when_asked_and_another_one_when_asked_again(
    ids: dict[str, str], questions: Asked
) -> None:
    test = opened("surgery", run=ids["movement"], sample="50")
    assert "2 random regions of its size on 50 of 120 test examples" in captions(test) and not questions
    button(test, "Score this graft").click().run()
    assert [operation for operation, _ in questions] == ["evaluate_region"] and questions[0][1]["sample"] == 50
    assert test.query_params["score"] == "yes"
    questions.clear()
    test.selectbox(key="surgery.field.how").select("parts").run()
    test.multiselect(key="surgery.field.layers").select(1).run()
    assert not questions and "score" not in test.query_params and button(test, "Score this graft")
    next(box for box in test.selectbox if box.label == "Localizer").select("random").run()
    assert not questions, "another run is another question"


def test_a_link_to_scores_brings_them(ids: dict[str, str], questions: Asked) -> None:
    opened("surgery", run=ids["movement"], score="yes")
    assert [operation for operation, _ in questions] == ["evaluate_region"]


def test_transfer_scores_a_task_when_asked(ids: dict[str, str], questions: Asked) -> None:
    test = opened("transfer", run=ids["paraphrase"], also="qqp", **{"map.qqp.duplicate": "yes"})
    for box in test.selectbox:  # this choice's labels have other names
        if box.label in ("duplicate", "not duplicate", "equivalent", "not equivalent"):
            box.select("yes").run()
    assert not questions and "Scores the base, the graft" in captions(test)
    button(test, "Score this task").click().run()
    assert [operation for operation, _ in questions] == ["transfer"]


def test_a_union_of_tasks_is_scored_when_asked(empty: Path, questions: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_study(empty, "figure8", tables=("overlap", "isolation", "gain", "stability", "scores", "note"))
    tasks = ("sst2_sentences", "cr", "ag_news", "qnli")
    runs = {task: fake_run(Store(empty), seed=seed, sizes=("5%",), **SMALL) for seed, task in enumerate(tasks)}
    monkeypatch.setattr(tasks_view, "regions_of", lambda tables: {task: runs[task] for task in tables.tasks})
    test = opened("tasks", union="sst2_sentences~ag_news")
    assert not questions and "The union of SST-2 sentences and AG News is not stored." in captions(test)
    assert "the test sets of 4 tasks, 480 examples in all" in captions(test)
    button(test, "Score this union").click().run()
    assert [operation for operation, _ in questions] == ["union"]


def test_paths_that_were_asked_for_on_one_run_are_not_computed_on_another(
    ids: dict[str, str], questions: Asked
) -> None:
    test = opened("interpolation", run=ids["movement"])
    button(test, "Score the paths").click().run()
    assert [operation for operation, _ in questions] == ["wise_grid"]
    questions.clear()
    next(box for box in test.selectbox if box.label == "Localizer").select("random").run()
    assert test.query_params["run"] == ids["random"] and not questions
