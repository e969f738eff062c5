"""Tests of task files: the allowed content, and one sentence for each error."""

import os
import re
from pathlib import Path

import pytest
import yaml

from skillviz.errors import BadData, BadInput
from skillviz.live import operations, request
from skillviz.tasks import registry, user_file
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load, load_test, load_to_score
from skillviz.tasks.user_file import data_files, read_task, task_stamp
from tests.tasks.make import ROWS, write_rows, write_task
from tests.tiny import tiny_task

ROOT = Path(__file__).parents[2]


def test_a_file_gives_the_task_it_says(tmp_path: Path) -> None:
    found = task(write_task(tmp_path, title="Made up", metric="f1", positive="negative", max_length=20))
    assert (found.name, found.title, found.text) == ("made", "Made up", ("text",))
    assert found.labels == ("negative", "positive")
    assert (found.metric, found.positive, found.max_length) == ("f1", 0, 20)
    assert found.label_words.masked == found.label_words.causal == ("terrible", "great")
    assert found.path == tmp_path / "task.yaml"


def test_only_four_keys_are_needed(tmp_path: Path) -> None:
    found = task(write_task(tmp_path, template=None, label_words=None, label=None))
    assert found.label == "label" and found.template.masked is None
    with pytest.raises(BadInput, match="has no masked template, which the prompt readout needs"):
        found.wording("prompt")


def test_one_template_text_is_masked_where_it_has_a_mask(tmp_path: Path) -> None:
    assert task(write_task(tmp_path, template="{text} <mask>")).template.masked == "{text} <mask>"
    assert task(write_task(tmp_path, template="{text} is")).template.causal == "{text} is"


def test_label_words_by_name_are_put_in_the_order_of_the_labels(tmp_path: Path) -> None:
    by_name = {"positive": "great", "negative": "bad"}
    assert task(write_task(tmp_path, label_words=by_name)).label_words.masked == ("bad", "great")
    nested = {"masked": by_name, "causal": ["sad", "glad"]}
    words = task(write_task(tmp_path, label_words=nested)).label_words
    assert (words.masked, words.causal) == (("bad", "great"), ("sad", "glad"))


def test_source_labels_are_mapped_by_classes_and_others_dropped(tmp_path: Path) -> None:
    """Three source labels: the second is dropped, and the last maps to the second class."""
    lines = [f'{{"text": "row {n}", "label": {n % 3}}}' for n in range(12)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    data = {"train": "a.jsonl", "test": "b.jsonl"}
    path = write_task(tmp_path, data=data, labels=["yes", "no"], classes={"0": "yes", "2": "no"}, drop=["1"],
                      label_words={"masked": ["great", "terrible"]}, metric="accuracy")  # fmt: skip
    found = load(task(path))
    assert found.test["label"].tolist() == [0, 1] * 4 and "4 rows with the label '1' left out" in "".join(found.notes)


def test_a_task_may_have_test_examples_only(tmp_path: Path) -> None:
    path = write_task(tmp_path, data={"test": "test.jsonl"})
    alone = task(path)
    assert data_files(alone) == {"test": tmp_path / "test.jsonl"} and not alone.has_training
    scored = load_to_score(alone, seed=0, max_test=None)
    assert len(scored.test) == len(load_test(alone)[0]) > 0 and scored.train.empty and scored.validation.empty
    with pytest.raises(BadData, match=r"task 'made' has test examples only.*score it beside another task \(--also\)"):
        load(alone)
    whole = task(write_task(tmp_path))
    assert load_to_score(whole, seed=0).fingerprint == load(whole).fingerprint


def test_labels_may_be_called_masked_and_causal(tmp_path: Path) -> None:
    words = {"masked": "hidden", "causal": "open"}
    found = task(write_task(tmp_path, labels=["masked", "causal"], label_words=words))
    assert found.label_words.masked == ("hidden", "open")


def test_yes_and_no_stay_words(tmp_path: Path) -> None:
    path = write_task(tmp_path)
    path.write_text(path.read_text().replace("- terrible\n- great", "- No\n- Yes"))
    assert "- No\n" in path.read_text()
    assert task(path).label_words.masked == ("No", "Yes")


def test_paths_are_relative_to_the_file_and_variables_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_task(tmp_path)
    (tmp_path / "deep").mkdir()
    monkeypatch.setenv("MADE_UP_FOLDER", str(tmp_path))
    data = {"train": "../train.jsonl", "test": "${MADE_UP_FOLDER}/test.jsonl"}
    path = tmp_path / "deep" / "task.yaml"
    path.write_text(yaml.safe_dump({"name": "x", "data": data, "text": "text", "labels": ["a", "b"]}))
    assert {s: p.resolve() for s, p in data_files(task(path)).items()} == {
        "train": tmp_path / "train.jsonl",
        "test": tmp_path / "test.jsonl",
    }
    monkeypatch.delenv("MADE_UP_FOLDER")
    assert read_task(path).name == "x"
    with pytest.raises(BadInput, match=r"data.test of task 'x'\) names .* MADE_UP_FOLDER, which is not set"):
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
    ("text", "says"),
    [
        ("name: x\nlabels: [a, b\ntext: y\n", "cannot be read as YAML: .* in line 3"),
        ("name: x\nname: y\n", "the key name is given twice in line 2"),
        ("- a\n- b\n", "must be a mapping"),
        ("", "must be a mapping"),
        (
            "name: !!python/object/apply:os.system ['true']\n",
            "as YAML: could not determine a constructor",
        ),
    ],
)
def test_what_is_not_a_task_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "task.yaml").write_text(text)
    with pytest.raises(BadInput, match=says):
        task(tmp_path / "task.yaml")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        task(tmp_path / "task.yaml")


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    path = write_task(tmp_path, data={"train": "train.jsonl", "test": "tset.jsonl"})
    with pytest.raises(BadData, match=r"there is no file .*tset\.jsonl \(data\.test\)"):
        task(path)


@pytest.mark.parametrize("written", ["${MADE_UP_SECRET}", "$MADE_UP_SECRET.jsonl"])
def test_what_a_variable_holds_is_in_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("MADE_UP_SECRET", "hunter2")
    path = write_task(tmp_path, data={"train": "train.jsonl", "test": written})
    with pytest.raises(BadData) as caught:
        task(path)
    assert written in str(caught.value) and "hunter2" not in str(caught.value)


def test_only_known_formats_are_read(tmp_path: Path) -> None:
    (tmp_path / "test.pkl").write_bytes(b"")
    with pytest.raises(BadData, match=r"data\.test is test\.pkl; allowed: \.jsonl, \.json, \.csv, \.tsv"):
        task(write_task(tmp_path, data={"train": "train.jsonl", "test": "test.pkl"}))


def test_the_tiny_tasks_of_the_other_tests_are_read(tmp_path: Path) -> None:
    for pair in (False, True):
        splits = load(task(tiny_task(tmp_path / str(pair), rows=8, labels=3, pair=pair)))
        assert len(splits.train) == 8 and ("text_b" in splits.train) == pair


def test_the_documents_example_is_true(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "add-a-task.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example is not None
    (tmp_path / "reviews.yaml").write_text(example[1])
    rows = [{"review": row["text"], "stars": row["label"]} for row in ROWS]
    named = [{**row, "stars": ("negative", "positive")[row["stars"]]} for row in rows]
    write_rows(tmp_path / "train.jsonl", rows)
    write_rows(tmp_path / "dev.csv", named)
    write_rows(tmp_path / "test.parquet", rows)
    found = task(tmp_path / "reviews.yaml")
    splits = load(found)
    assert list(splits.train["label"]) == list(splits.validation["label"]) == list(splits.test["label"])
    assert found.wording("prompt")[1] == ("terrible", "great") and found.wording("causal")[1] == ("unhappy", "happy")


@pytest.mark.parametrize("name", ["task.yaml", "train.jsonl", "test.jsonl"])
def test_every_file_of_a_task_counts_by_size_and_time(tmp_path: Path, name: str) -> None:
    path = tiny_task(tmp_path)
    before = task_stamp(registry.task(path))
    assert task_stamp(registry.task(path)) == before and len(before) == 4
    time = (tmp_path / name).stat().st_mtime_ns
    (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    os.utime(tmp_path / name, ns=(time, time))
    longer = task_stamp(registry.task(path))
    assert longer != before, "its size alone"
    os.utime(tmp_path / name, ns=(time + 1, time + 1))
    assert task_stamp(registry.task(path)) != longer, "its time alone"


def test_data_of_a_hub_are_told_by_name() -> None:
    assert task_stamp(registry.task("sst2")) == [["sst2"]]


def test_the_worker_has_no_rule_of_its_own() -> None:
    assert all(module.task_stamp is task_stamp for module in (request, operations))
    assert request.file_stamp is user_file.file_stamp
