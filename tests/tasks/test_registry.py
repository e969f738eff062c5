"""Tests of the registry: complete rows, readable names, names that can be found, and variables in paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.errors import BadInput, UnknownTask
from skillviz.serving.visitor import refuse_variables
from skillviz.tasks.project import expanded, located
from skillviz.tasks.readable_names import SHIPPED, readable, readable_name
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.task import Hub, Task
from skillviz.tasks.template import parse, places
from tests.refused import refused
from tests.tasks.make import write_task

PAPER = ["sst2", "cr", "mr", "mpqa", "trec", "ag_news", "subj", "qnli", "snli", "mnli", "rte", "mrpc", "qqp"]


def test_the_papers_tasks_and_its_other_sets_are_all_there() -> None:
    assert list(TASKS) == [*PAPER, "imdb", "yelp", "amazon", "mnli_01", "snli_01"]
    f1 = {name: row.labels[row.positive] for name, row in TASKS.items() if row.metric == "f1"}
    assert f1 == {"mrpc": "equivalent", "qqp": "duplicate"}, "F1 is about paraphrases and duplicates"


@pytest.mark.parametrize("row", TASKS.values(), ids=TASKS)
def test_every_row_has_all_fields_for_all_readouts(row: Task) -> None:
    assert isinstance(row.data, Hub) and row.data.train and row.data.test != row.data.train
    assert row.title and "not verified" in row.source
    for readout in ("prompt", "causal"):
        template, words = row.wording(readout)
        assert len(words) == len(set(words)) == len(row.labels)
        assert {place.field for place in places(parse(template, row.text))} == set(range(len(row.text)))
    assert set(row.classes.values()) == set(row.labels) and not set(row.drop) & set(row.classes)
    assert row.limit("causal") == 256 and row.limit("prompt") in (128, 256)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("subj", {"subjective": "subjective", "objective": "objective"}),
        ("trec", {"abbreviation": "Expression"}),
        ("snli", {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}),
        ("qqp", {"not_duplicate": "No", "duplicate": "Yes"}),
    ],
)
def test_words_stand_for_their_own_class(name: str, words: dict[str, str]) -> None:
    assert words.items() <= dict(zip(TASKS[name].labels, TASKS[name].label_words.masked or (), strict=True)).items()


@pytest.mark.parametrize("field", ["labels", "template", "label_words"])
@pytest.mark.parametrize(
    ("name", "like"), [("imdb", "sst2"), ("yelp", "mpqa"), ("mnli_01", "qnli"), ("snli_01", "qnli")]
)
def test_sets_out_of_distribution_are_asked_like_the_task_tuned_on(name: str, like: str, field: str) -> None:
    assert getattr(TASKS[name], field) == getattr(TASKS[like], field)


@pytest.mark.parametrize("name", ["sst2", "SST2", "ag-news", " mnli_01 "])
def test_names_are_found_as_people_write_them(name: str) -> None:
    assert task(name) is TASKS[name.strip().lower().replace("-", "_")]


NO_FILES = ("~nobody-has-this-name/y.yaml", "x" * 280 + ".yaml", "/" + "x" * 280 + ".yml")
test_what_is_no_task_is_refused = refused(
    UnknownTask,
    (r"'sst' is not a task; known: ag_news, .*, yelp\. Add one: docs/add-a", task, "sst"),
    (r"there is no task file .*absent\.yaml", task, Path("/nowhere/absent.yaml")),
    *(("there is no task file", task, text) for text in NO_FILES),
)


def test_a_path_a_task_and_a_variable_are_taken_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = task(str(write_task(tmp_path)))
    assert found.name == "made" and task(found) is found
    monkeypatch.setenv("MADE_UP", str(tmp_path))
    assert task("${MADE_UP}/task.yaml").path == found.path
    with pytest.raises(UnknownTask, match=str(tmp_path)):
        task("${MADE_UP}/absent.yaml")


@pytest.mark.parametrize("text", NO_FILES)
def test_a_name_that_can_be_no_file_is_none(text: str) -> None:
    assert not located(text).exists() and not (located(text) / "config.json").is_file()


def test_variables_and_the_home_folder_are_filled_in_or_refused_with_their_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MADE_UP", "/elsewhere")
    written = ("${MADE_UP}/a", "$MADE_UP/a", "~/a", "${NOT_MADE_UP}/a")
    assert [*map(expanded, written)] == ["/elsewhere/a", "/elsewhere/a", str(Path.home() / "a"), "${NOT_MADE_UP}/a"]
    with pytest.raises(BadInput, match=r"\(base\) names the environment variable NOT_MADE_UP, which is not set; set"):
        expanded("${NOT_MADE_UP}/a", "base")


test_a_page_names_no_variable_but_the_projects = refused(
    BadInput,
    *(
        ("only variables whose names begin with SKILLVIZ_", refuse_variables, text)
        for text in ("${HOME}/x", "$HOME", "a/${SKILLVIZ_REAL}/${PATH}")
    ),
)


@pytest.mark.parametrize("text", ["", "~/x", "${SKILLVIZ_REAL}/x", "costs 5 $", "a$/b"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert refuse_variables(text) == text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ag_news", "AG News"),
        ("sst2_sentences", "SST-2 sentences"),
        ("yelp_reviews", "Yelp reviews"),
        ("mnli_01", "MNLI without neutral"),
        *((own, own) for own in ("film-reviews", "film_reviews", "COVID-19", "e-SNLI", "mr-bean", "cr-reviews", "_")),
    ],
)
def test_a_name_is_readable(name: str, said: str) -> None:
    assert readable_name(name) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cr + film-reviews", "CR + film-reviews"),
        ("sst2_sentences+cr (multi-task, seed 0)", "SST-2 sentences+CR (multi-task, seed 0)"),
        ("qnli to mnli_01, computed live", "QNLI to MNLI without neutral, computed live"),
        ("no share of a gain is told on rte: it gains nothing", "no share of a gain is told on RTE: it gains nothing"),
        *((own, own) for own in ("mr-bean", "my_cr", "data/cr", "cr.yaml", "cr:2", "org/sst2@cr", "--cr", "`cr`")),
    ],
)
def test_words_name_tasks_readably_and_leave_files_options_and_own_names(words: str, said: str) -> None:
    assert readable(words) == said


def test_no_two_built_in_tasks_are_called_the_same_and_none_by_its_id() -> None:
    names = {readable_name(name) for name in TASKS}
    assert len(names) == len(TASKS) and not names & set(SHIPPED.values()) and not names & set(TASKS)
