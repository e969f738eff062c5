"""Tests of task files and of fields of other inputs: the allowed content, and one sentence for each error."""

from __future__ import annotations

import os
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillviz.core.draws import LARGEST_SEED
from skillviz.errors import BadData, BadInput
from skillviz.live import operations, request
from skillviz.models.finetune.training_config import TrainingConfig
from skillviz.runs.score import read_score_spec
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.studies.finetuned_model import read_finetuned
from skillviz.tasks import registry, user_file
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load, load_test, load_to_score
from skillviz.tasks.user_file import data_files, read_task, task_stamp
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
