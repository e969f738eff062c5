"""Tests of task files, names and definitions: the allowed content, one sentence for each error, untrusted YAML."""

from __future__ import annotations

import os
import re
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.comparison import Comparison
from skillviz.core.draws import LARGEST_SEED
from skillviz.errors import BadData, BadInput, UnknownTask
from skillviz.live import operations, request
from skillviz.models.finetune.training_config import TrainingConfig
from skillviz.regular_file import MOST_BYTES, read_text
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.score import read_score_spec
from skillviz.runs.spec import Readout, RunSpec, read_spec
from skillviz.serving.visitor import refuse_variables
from skillviz.studies.finetuned_model import read_finetuned
from skillviz.tasks import registry, user_file
from skillviz.tasks.definition import APART, DESCRIPTIVE, KINDS, OF_DATA, OTHERS, compared, definition
from skillviz.tasks.project import expanded, located
from skillviz.tasks.readable_names import SHIPPED, readable, readable_name
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.splits import load, load_test, load_to_score
from skillviz.tasks.task import Files, Hub, LabelWords, Task, Template
from skillviz.tasks.template import parse, places
from skillviz.tasks.user_file import data_files, read_task, task_stamp
from skillviz.tasks.yaml_files import MOST_DEPTH, MOST_VALUES, parsed, read_yaml
from tests.refused import refused
from tests.tasks.make import ROWS, write_rows, write_task
from tests.tiny import tiny_task

ROOT = Path(__file__).parents[2]
BY_NAME = {"positive": "great", "negative": "bad"}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        (
            {"title": "Made up", "metric": "f1", "positive": "negative", "max_length": 20},
            {"name": "made", "title": "Made up", "text": ("text",), "labels": ("negative", "positive"), "metric": "f1",
             "positive": 0, "max_length": 20, "label_words.masked": ("terrible", "great"),
             "label_words.causal": ("terrible", "great"), "path.name": "task.yaml"},
        ),
        ({"template": None, "label_words": None, "label": None}, {"label": "label", "template.masked": None}),
        ({"template": "{text} <mask>"}, {"template.masked": "{text} <mask>"}),
        ({"template": "{text} is"}, {"template.causal": "{text} is"}),
        ({"label_words": BY_NAME}, {"label_words.masked": ("bad", "great")}),
        ({"label_words": {"masked": BY_NAME, "causal": ["sad", "glad"]}},
         {"label_words.masked": ("bad", "great"), "label_words.causal": ("sad", "glad")}),
        ({"labels": ["masked", "causal"], "label_words": {"masked": "hidden", "causal": "open"}},
         {"label_words.masked": ("hidden", "open")}),
    ],
    ids=["every field", "four keys", "masked template", "causal template", "words by name", "words by readout and name",
         "labels called masked and causal"],
)  # fmt: skip
def test_a_file_gives_the_task_it_says(tmp_path: Path, changes: dict[str, Any], facts: dict[str, Any]) -> None:
    found = task(write_task(tmp_path, **changes))
    assert {name: attrgetter(name)(found) for name in facts} == facts
    assert found.path == tmp_path / "task.yaml"


def test_a_task_may_have_test_examples_only_and_no_template(tmp_path: Path) -> None:
    alone = task(write_task(tmp_path, data={"test": "test.jsonl"}, template=None))
    assert data_files(alone) == {"test": tmp_path / "test.jsonl"} and not alone.has_training
    scored = load_to_score(alone, seed=0, max_test=None)
    assert len(scored.test) == len(load_test(alone)[0]) > 0 and scored.train.empty and scored.validation.empty
    with pytest.raises(BadData, match=r"task 'made' has test examples only.*score it beside another task \(--also\)"):
        load(alone)
    with pytest.raises(BadInput, match="has no masked template, which the prompt readout needs"):
        alone.wording("prompt")
    whole = task(write_task(tmp_path))
    assert load_to_score(whole, seed=0).fingerprint == load(whole).fingerprint


def test_yes_and_no_stay_words(tmp_path: Path) -> None:
    path = write_task(tmp_path)
    path.write_text(path.read_text().replace("- terrible\n- great", "- No\n- Yes"))
    assert "- No\n" in path.read_text() and task(path).label_words.masked == ("No", "Yes")


def test_paths_are_relative_to_the_file_and_variables_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP_FOLDER", str(tmp_path))
    data = {"train": "../train.jsonl", "test": "${MADE_UP_FOLDER}/test.jsonl"}
    path = tmp_path / "deep" / "task.yaml"
    path.parent.mkdir()
    write_task(tmp_path, data=data).rename(path)
    assert {s: p.resolve() for s, p in data_files(task(path)).items()} == {
        "train": tmp_path / "train.jsonl",
        "test": tmp_path / "test.jsonl",
    }
    monkeypatch.delenv("MADE_UP_FOLDER")
    assert read_task(path).name == "made"
    with pytest.raises(BadInput, match=r"data.test of task 'made'\) names .* MADE_UP_FOLDER, which is not set"):
        task(path)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lables": ["a", "b"]}, "unknown key 'lables'; known: name, title, data"),
        ({"labels": None}, "has no 'labels'; needed are name, data, text, labels"),
        ({"reference": "answer", "labels": None, "data": None}, r"has no 'data'; needed are name, data, text \(see"),
        ({"data": "train.jsonl"}, "'data' must name the files"),
        ({"data": {"train": "train.jsonl"}}, "'data' has no 'test'"),
        ({"data": {"train": "train.jsonl", "test": "test.jsonl", "dev": "x"}}, "unknown split 'dev'; known: train"),
        ({"data": {"train": ["train.jsonl"], "test": "test.jsonl"}}, "'data.train' must be the path of one file"),
        ({"text": ["a", "b", "c"]}, "'text' cannot be used"),
        ({"text": ["text", "text"]}, "must be different columns"),
        ({"text": {"a": "b"}}, "'text' must be a list of names"),
        ({"labels": ["only"]}, "labels must be two or more different names, not 'only'"),
        ({"labels": ["a", "a"]}, "labels must be two or more different names"),
        ({"label_words": ["one"]}, "1 masked label words for 2 labels"),
        ({"label_words": ["one", "one"]}, "must be different"),
        ({"label_words": {"negative": "bad"}}, "one word for each label; 'positive' does not match"),
        ({"label_words": {"negative": "bad", "positive": "good", "odd": "x"}}, "'odd' does not match"),
        ({"template": {"prompt": "{text}"}}, "'template' must be a text, or a mapping of masked and causal"),
        ({"template": "{txt} <mask>"}, "'{txt}' in the template"),
        ({"metric": "accuarcy"}, "'metric' cannot be used: .*'accuracy', 'f1', 'exact_match' or 'perplexity'"),
        ({"metric": "f1", "labels": ["a", "b", "c"], "label_words": None}, "f1 needs two labels"),
        ({"positive": "good"}, "positive is 'good', which is not one of the labels 'negative', 'positive'"),
        ({"max_length": "long"}, "'max_length' cannot be used"),
        ({"max_length": 2}, "'max_length' cannot be used"),
        ({"name": "my task"}, "a name has no spaces"),
    ],
)
def test_a_wrong_file_gives_one_sentence(tmp_path: Path, changes: dict, says: str) -> None:
    with pytest.raises(BadInput, match=re.compile(says)) as error:
        task(write_task(tmp_path, **changes))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"name: x\nlabels: [a, b\ntext: y\n", "cannot be read as YAML: .* in line 3"),
        (b"name: x\nname: y\n", "the key name is given twice in line 2"),
        (b"- a\n- b\n", "must be a mapping"),
        (b"", "must be a mapping"),
        (b"name: !!python/object/apply:os.system ['true']\n", "as YAML: could not determine a constructor"),
        (b"\xff\xfe\x00name", "is not UTF-8 text"),
    ],
)
def test_what_is_not_a_task_file_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "task.yaml").write_bytes(content)
    with pytest.raises(BadInput, match=says):
        task(tmp_path / "task.yaml")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tset.jsonl", r"there is no file .*tset\.jsonl \(data\.test\)"),
        ("test.pkl", r"data\.test is test\.pkl; allowed: \.jsonl, \.json, \.csv, \.tsv"),
        ("${MADE_UP_SECRET}", r"\$\{MADE_UP_SECRET\}"),
        ("$MADE_UP_SECRET.jsonl", r"\$MADE_UP_SECRET\.jsonl"),
    ],
)
def test_a_data_file_that_cannot_be_read_is_named_without_what_variables_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.setenv("MADE_UP_SECRET", "hunter2")
    (tmp_path / "test.pkl").write_bytes(b"")
    with pytest.raises(BadData, match=says) as caught:
        task(write_task(tmp_path, data={"train": "train.jsonl", "test": name}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("pair", [False, True])
def test_the_tiny_tasks_of_the_other_tests_are_read(tmp_path: Path, pair: bool) -> None:
    train = load(task(tiny_task(tmp_path, rows=8, labels=3, pair=pair))).train
    assert len(train) == 8 and ("text_b" in train) == pair


def test_the_documents_example_is_true(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "add-a-task.md").read_text(), re.DOTALL)
    assert example is not None
    (tmp_path / "reviews.yaml").write_text(example[1])
    rows = [{"review": row["text"], "stars": row["label"]} for row in ROWS]
    named = [{**row, "stars": ("negative", "positive")[row["stars"]]} for row in rows]
    for name, content in (("train.jsonl", rows), ("dev.csv", named), ("test.parquet", rows)):
        write_rows(tmp_path / name, content)
    found = task(tmp_path / "reviews.yaml")
    splits = load(found)
    assert list(splits.train["label"]) == list(splits.validation["label"]) == list(splits.test["label"])
    assert found.wording("prompt")[1] == ("terrible", "great") and found.wording("causal")[1] == ("unhappy", "happy")


@pytest.mark.parametrize("name", ["task.yaml", "train.jsonl", "test.jsonl"])
def test_every_file_of_a_task_counts_by_size_and_time(tmp_path: Path, name: str) -> None:
    path, file = tiny_task(tmp_path), tmp_path / name
    before, time = task_stamp(registry.task(path)), file.stat().st_mtime_ns
    assert task_stamp(registry.task(path)) == before and len(before) == 4
    file.write_text(file.read_text() + "\n")
    os.utime(file, ns=(time, time))
    longer = task_stamp(registry.task(path))
    assert longer != before, "its size alone"
    os.utime(file, ns=(time + 1, time + 1))
    assert task_stamp(registry.task(path)) != longer, "its time alone"


def test_data_of_a_hub_are_told_by_name_and_the_worker_has_no_rule_of_its_own() -> None:
    assert task_stamp(registry.task("sst2")) == [["sst2"]]
    assert request.task_stamp is operations.task_stamp is task_stamp and request.file_stamp is user_file.file_stamp


RUN = {"base": "b", "finetuned": "f", "task": "t"}
MEMBER = {"base": "b", "tasks": ("t",)}

WRONG: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
    (read_finetuned, MEMBER, {"lr": 0}, "'lr' of the fine-tuned model cannot be used: it is 0, and must be above 0."),
    (read_finetuned, MEMBER, {"lr": float("nan")}, "it is nan, and must be a finite number."),
    (read_finetuned, MEMBER, {"lr": "fast"}, "it is 'fast', and must be a number."),
    (read_finetuned, MEMBER, {"seed": LARGEST_SEED + 1}, "must be 4,294,967,295 or less."),
    (read_finetuned, MEMBER, {"tasks": ()}, "must not be empty."),
    (read_finetuned, MEMBER, {"head": "linear", "readout": "prompt"}, "the prompt readout has no classification head"),
    (read_finetuned, MEMBER, {"tasks": ("t", "t"), "recipe": "multi-task"}, "the task 't' is given twice"),
    (read_spec, RUN, {"steps": 0}, "'steps' of the run cannot be used: it is 0, and must be 1 or more."),
    (read_spec, RUN, {"steps": 1.5}, "it is 1.5, and must be a whole number."),
    (read_spec, RUN, {"device": "gpu"}, "it is 'gpu', and must be auto, cpu, cuda"),
    (read_spec, RUN, {"readout": "x" * 200}, "x..., and must be one of 'prompt', 'head' or 'causal'."),
    (read_spec, RUN, {"sizes": []}, "give at least one size."),
    (read_spec, {"base": "b", "task": "t"}, {}, "'finetuned' of the run cannot be used: it must be given."),
    (read_spec, RUN, {"seed": LARGEST_SEED + 1}, "'seed' of the run cannot be used: it is 4294967296"),
    (read_spec, RUN, {"data_seed": 2**70}, "must be 4,294,967,295 or less."),
    (read_spec, RUN, {"interpolation": "perhaps"}, "must be true or false."),
    (read_spec, RUN, {"options": [1]}, "must be a mapping of names to values."),
    (
        read_score_spec,
        RUN,
        {"max_test": -1},
        "'max_test' of the scores cannot be used: it is -1, and must be 1 or more",
    ),
]


@pytest.mark.parametrize(("read", "good", "bad", "says"), WRONG, ids=[says[:50] for *_, says in WRONG])
def test_a_wrong_field_is_one_sentence_of_ours(read: Any, good: Any, bad: Any, says: str) -> None:
    with pytest.raises(BadInput, match=re.escape(says)) as caught:
        read({**good, **bad})
    assert re.fullmatch(r"(?!.*Input should).*\.", str(caught.value))


def test_the_largest_seed_can_be_used_and_no_larger_one() -> None:
    assert read_spec({**RUN, "seed": LARGEST_SEED}).seed == read_finetuned({**MEMBER, "seed": LARGEST_SEED}).seed
    assert TrainingConfig(seed=LARGEST_SEED).settings().seed == LARGEST_SEED
    for seed in (-1, LARGEST_SEED + 1, 9223372036854775):
        with pytest.raises(BadInput, match="give a whole number from 0 to 4,294,967,295"):
            TrainingConfig(seed=seed).settings()
    assert RunSpec(**RUN, seed=LARGEST_SEED + 1).seed == LARGEST_SEED + 1, "a run that is stored can still be read"


KEYS = st.text("abc", min_size=1, max_size=2)
PLAIN = st.recursive(
    st.none() | st.integers() | st.booleans() | st.text("ab:é\n#- ", max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3),
    max_leaves=12,
)


@given(PLAIN)
def test_reads_what_yaml_writes(content: object) -> None:
    assert parsed(yaml.safe_dump(content, allow_unicode=True)) == content


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!int s3cret", "does not match its tag"),
        ("a: 2026-99-99", "does not match its tag"),
        ("a: !!bool s3cret", "does not match its tag"),
        ("a: !!timestamp s3cret", "does not match its tag"),
        ("a: !!int ''", "does not match its tag"),
        ("a: *s3cret", "undefined alias in line 1"),
        ("s3cret: [1, 2", "in line 1"),
        ("a: b\n  s3cret: c: d", "in line 2"),
        ("a: \x07s3cret", "a character"),
        ("[" * 5000, "nested too deeply"),
        ("a: &a {<<: *a}", "refers to itself"),
        ("a: &a [*a]", "refers to itself"),
        ("a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}]\n" for n in range(MOST_DEPTH)), "nested too deeply"),
        ("? {s3cret: 1}\n: 2", "unhashable"),
    ],
)
def test_what_cannot_be_read_is_a_sentence_without_the_files_text(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(BadInput, match=reason) as caught:
        read_yaml(tmp_path / "x.yaml", "the file x.yaml")
    assert "s3cret" not in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize("doubled", ["[*a{0}, *a{0}]", "*a{0}"])
def test_merges_that_unfold_without_bound_are_refused_at_once(tmp_path: Path, doubled: str) -> None:
    levels = ["a0: &a0 {k: 1}"] + [f"a{n + 1}: &a{n + 1} {{<<: {doubled.format(n)}}}" for n in range(40)]
    text = "\n".join(levels)
    if doubled[0] == "[":
        with pytest.raises(ValueError, match=f"{MOST_VALUES:,}"):
            parsed(text)
    else:
        assert parsed(text)["a40"] == {"k": 1}  # a chain is harmless


@pytest.mark.slow
def test_a_file_of_too_many_values_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("[" + "{a: b}," * (MOST_VALUES // 3) + "{a: b}, *unknown]")
    with pytest.raises(BadInput, match=f"the file cannot be read as YAML: it holds more than {MOST_VALUES:,} values"):
        read_yaml(tmp_path / "x.yaml", "the file")


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), Path("/dev/null"), tmp_path):
        with pytest.raises((BadInput, IsADirectoryError)):
            read_text(path)
    (tmp_path / "long").write_text("a" * (MOST_BYTES + 1))
    with pytest.raises(BadInput, match="larger than 1 MiB"):
        read_text(tmp_path / "long")
    (tmp_path / "fits").write_text("é" * (MOST_BYTES // 2))
    assert read_text(tmp_path / "fits") == "é" * (MOST_BYTES // 2)


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


BASIC: dict[str, Any] = {
    "name": "mine",
    "data": Files(train="train.csv", test="test.csv"),
    "text": ("text",),
    "labels": ("neg", "pos"),
    "template": Template(masked="{text} It was {mask}.", causal="{text} It was"),
    "label_words": LabelWords(masked=("bad", "good"), causal=("awful", "great")),
    "max_length": 200,
}
ALL = frozenset(KINDS)


CHANGES: list[tuple[dict[str, Any], frozenset[str]]] = [
    ({"template": Template(masked="{text} All in all {mask}.", causal="{text} It was")}, frozenset({"prompt"})),
    ({"template": Template(masked="{text} It was {mask}.", causal="{text} All in all")}, frozenset({"causal"})),
    ({"template": Template(masked="{text} It was {mask}.")}, frozenset({"causal"})),
    ({"label_words": LabelWords(masked=("good", "bad"), causal=("awful", "great"))}, frozenset({"prompt"})),
    ({"label_words": LabelWords(masked=("bad", "good"), causal=("great", "awful"))}, frozenset({"causal"})),
    ({"text": ("other",), "template": Template(), "label_words": LabelWords()}, ALL),
    ({"labels": ("pos", "neg")}, ALL),
    ({"metric": "f1"}, ALL),
    ({"metric": "f1", "positive": 0}, ALL),
    ({"max_length": 64}, ALL),
    ({"max_length_causal": 32}, frozenset({"causal"})),
    ({"lmbff_exact": True}, frozenset({"prompt", "causal"})),
    ({"length_normalised": True}, frozenset({"causal"})),
    ({"max_new_tokens": 8}, frozenset({"causal"})),
    ({"stop": "newline"}, frozenset({"causal"})),
    ({"ignore_case": True}, frozenset({"causal"})),
    ({"ignore_punctuation": True}, frozenset({"causal"})),
]
"""(a change, the readouts whose definition it changes)."""
SAME: list[dict[str, Any]] = [
    {"title": "Mine", "name": "yours", "source": "somewhere", "path": Path("mine.yaml")},
    {"data": Files(train="data/train.csv", test="data/test.csv")},
    {"positive": 0},  # accuracy has no positive class
    {"max_length_causal": 200},  # equal to the default
]


def of(change: dict[str, Any]) -> Task:
    return Task(**{**BASIC, **change})


@pytest.mark.parametrize(("change", "readouts"), CHANGES)
def test_a_change_counts_for_the_readouts_that_look_at_it(change: dict[str, Any], readouts: frozenset[str]) -> None:
    assert {kind for kind in KINDS if definition(of(change), kind) != definition(of({}), kind)} == readouts


@pytest.mark.parametrize("readout", KINDS)
def test_every_change_that_counts_has_a_hash_of_its_own(readout: str) -> None:
    found = [definition(of(change), readout) for change, readouts in (({}, ALL), *CHANGES) if readout in readouts]
    assert len(set(found)) == len(found)


def test_the_longest_input_of_the_causal_readout_may_be_its_own() -> None:
    one, other = (of({"max_length_causal": 64, "max_length": most}) for most in (128, 256))
    assert definition(one, "causal") == definition(other, "causal")
    assert definition(one, "prompt") != definition(other, "prompt")


@pytest.mark.parametrize("readout", [None, *KINDS])
@pytest.mark.parametrize("change", SAME)
def test_what_only_names_or_describes_leaves_it(change: dict[str, Any], readout: str | None) -> None:
    assert definition(of(change), readout) == definition(of({}), readout)


def test_every_field_is_told_of_once() -> None:
    """A new field of a task is part of the definition unless it is listed as not."""
    asked = {name for change, _ in CHANGES for name in change}
    assert asked | OF_DATA | DESCRIPTIVE == set(Task.model_fields) and not OF_DATA & DESCRIPTIVE
    assert frozenset.union(APART, *OTHERS.values()) <= asked
    assert set(KINDS) == set(OTHERS) == set(get_args(Readout))


MASKED_ONLY = {"template": Template(masked="{text} It was {mask}."), "label_words": LabelWords(masked=("a", "b"))}
WITH_CAUSAL = {"template": BASIC["template"], "label_words": LabelWords(masked=("a", "b"), causal=("c", "d"))}
BARE = {"template": Template(), "label_words": LabelWords()}


@pytest.mark.parametrize(
    ("stored", "now", "is_same"),
    [
        (definition(of(MASKED_ONLY)), definition(of(WITH_CAUSAL)), True),  # a readout that is added
        (definition(of(WITH_CAUSAL)), definition(of(MASKED_ONLY)), True),
        (definition(of({})), definition(of({"max_length": 64})), False),
        # a note of all readouts is compared by the one that is asked
        (definition(of({})), definition(of(CHANGES[1][0]), "head"), True),
        (definition(of({})), definition(of(CHANGES[1][0]), "prompt"), True),
        (definition(of({})), definition(of(CHANGES[1][0]), "causal"), False),
        (definition(of({})), definition(of(CHANGES[1][0])), False),
        (definition(of({}), "prompt"), definition(of(BARE), "prompt"), False),  # its words are gone
        (definition(of({}), "prompt"), definition(of(BARE)), False),
        ("a", "a", True),
        ("a", "b", False),
        ("a", "head=a", False),
        *((stored, now, None) for stored, now in (("", "a"), (None, "a"), ("", ""), ("a", ""))),  # never the same
    ],
)
def test_definitions_are_the_same_another_or_unknown(stored: str | None, now: str, is_same: bool | None) -> None:
    wanted = {True: Comparison.SAME, False: Comparison.DIFFERENT, None: Comparison.UNKNOWN}
    assert compared(stored, now) is wanted[is_same]
    assert "causal" not in definition(of(MASKED_ONLY)) and "causal" in definition(of(WITH_CAUSAL))


def test_a_note_of_one_readout_tells_of_that_one() -> None:
    frame = pd.DataFrame({"label": [0, 1]})
    splits: Any = SimpleNamespace(train=frame, validation=frame, test=frame, fingerprint="f", words=1.0)
    assert task_note(of({}), splits, "prompt").definition == definition(of({}), "prompt")
    assert task_note(of({}), splits).definition == definition(of({}))


def test_a_definition_that_is_not_known_is_not_written() -> None:
    notes = [TaskNote(name="mine", labels=("a", "b"), **more) for more in ({}, {"definition": "x"})]
    assert [note.model_dump(mode="json").get("definition", "absent") for note in notes] == ["absent", "x"]
