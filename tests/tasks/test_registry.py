"""Tests of the registry: complete rows, and names that can be found."""

from pathlib import Path

import pytest

from skillviz.errors import UnknownTask
from skillviz.tasks.project import located
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.task import Hub, Task
from skillviz.tasks.template import parse, places
from tests.tasks.make import write_task

PAPER = ["sst2", "cr", "mr", "mpqa", "trec", "ag_news", "subj", "qnli", "snli", "mnli", "rte", "mrpc", "qqp"]


def test_the_papers_tasks_and_its_other_sets_are_all_there() -> None:
    assert list(TASKS) == [*PAPER, "imdb", "yelp", "amazon", "mnli_01", "snli_01"]


@pytest.mark.parametrize("row", TASKS.values(), ids=TASKS)
def test_every_row_has_all_fields_for_all_readouts(row: Task) -> None:
    assert isinstance(row.data, Hub) and row.data.train and row.data.test != row.data.train
    assert row.title and "not verified" in row.source
    for readout in ("prompt", "causal"):
        template, words = row.wording(readout)
        assert len(words) == len(set(words)) == len(row.labels)
        assert {place.field for place in places(parse(template, row.text))} == set(range(len(row.text)))
    assert set(row.classes.values()) == set(row.labels)
    assert not set(row.drop) & set(row.classes)
    assert row.limit("causal") == 256 and row.limit("prompt") in (128, 256)


def test_words_stand_for_their_own_class() -> None:
    by_class = {name: dict(zip(row.labels, row.label_words.masked or (), strict=True)) for name, row in TASKS.items()}
    assert by_class["subj"] == {"subjective": "subjective", "objective": "objective"}
    assert by_class["trec"]["abbreviation"] == "Expression"
    assert by_class["snli"] == {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}
    assert by_class["qqp"] == {"not_duplicate": "No", "duplicate": "Yes"}


@pytest.mark.parametrize(
    ("name", "like"), [("imdb", "sst2"), ("yelp", "mpqa"), ("mnli_01", "qnli"), ("snli_01", "qnli")]
)
def test_sets_out_of_distribution_are_asked_like_the_task_tuned_on(name: str, like: str) -> None:
    for field in ("labels", "template", "label_words"):
        assert getattr(TASKS[name], field) == getattr(TASKS[like], field)


def test_f1_is_about_paraphrases_and_duplicates() -> None:
    f1 = {name: row.labels[row.positive] for name, row in TASKS.items() if row.metric == "f1"}
    assert f1 == {"mrpc": "equivalent", "qqp": "duplicate"}


@pytest.mark.parametrize("name", ["sst2", "SST2", "ag-news", " mnli_01 "])
def test_names_are_found_as_people_write_them(name: str) -> None:
    assert task(name) is TASKS[name.strip().lower().replace("-", "_")]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownTask, match=r"'sst' is not a task; known: ag_news, .*, yelp\. Add one: docs/add-a"):
        task("sst")


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UnknownTask, match="there is no task file"):
        task(tmp_path / "absent.yaml")


def test_a_path_and_a_task_are_taken_too(tmp_path: Path) -> None:
    found = task(str(write_task(tmp_path)))
    assert found.name == "made" and task(found) is found


def test_a_task_file_may_be_named_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLVIZ_TEST_FOLDER", str(tmp_path))
    with pytest.raises(UnknownTask, match=str(tmp_path)):
        task("${SKILLVIZ_TEST_FOLDER}/absent.yaml")


@pytest.mark.parametrize("text", ["~nobody-has-this-name/y.yaml", "x" * 280 + ".yaml", "/" + "x" * 280 + ".yml"])
def test_a_name_that_can_be_no_file_is_no_task(text: str) -> None:
    assert not located(text).exists() and not (located(text) / "config.json").is_file()
    with pytest.raises(UnknownTask, match="there is no task file"):
        task(text)
