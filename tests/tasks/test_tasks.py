"""Tests of tasks: files, names and definitions, with one sentence for each error; untrusted YAML; sampling that is
seeded, disjoint and reported; test texts that others train on; and the real data sets (benchmarks/tasks)."""

import itertools
import json
import os
import re
import time
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

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
from skillviz.runs.transfer import other_examples
from skillviz.serving.visitor import refuse_variables
from skillviz.studies.finetuned_model import read_finetuned
from skillviz.tasks import registry, user_file
from skillviz.tasks.definition import APART, DESCRIPTIVE, KINDS, OF_DATA, OTHERS, compared, definition
from skillviz.tasks.leaks import digests, plain, training_texts, unseen
from skillviz.tasks.project import expanded, located
from skillviz.tasks.readable_names import SHIPPED, readable, readable_name
from skillviz.tasks.splits import capped, fingerprint, k_shot_rows, load, load_test, load_to_score, tenth
from skillviz.tasks.task import Files, Hub, LabelWords, Task, Template
from skillviz.tasks.template import parse, places
from skillviz.tasks.user_file import data_files, read_task, task_stamp
from skillviz.tasks.yaml_files import MOST_DEPTH, MOST_VALUES, parsed, read_yaml
from tests.tasks.make import (
    ROWS,
    TASKS,
    by_hand,
    encode,
    refused,
    refused_in,
    refuses,
    task,
    write_rows,
    write_task,
)
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
    assert {name: attrgetter(name)(found) for name in facts} == facts and found.path == tmp_path / "task.yaml"


def test_a_task_may_have_test_examples_only_and_no_template(tmp_path: Path) -> None:
    alone = task(write_task(tmp_path, data={"test": "test.jsonl"}, template=None))
    assert (data_files(alone), alone.has_training) == ({"test": tmp_path / "test.jsonl"}, False)
    scored = load_to_score(alone, seed=0, max_test=None)
    assert [*map(len, (scored.test, scored.train, scored.validation))] == [len(load_test(alone)[0]), 0, 0] != [0] * 3
    refuses(BadData, r"task 'made' has test examples only.*score it beside another task \(--also\)", load, alone)
    refuses(BadInput, "has no masked template, which the prompt readout needs", alone.wording, "prompt")
    whole = task(write_task(tmp_path))
    assert load_to_score(whole, seed=0).fingerprint == load(whole).fingerprint


def test_yes_and_no_stay_words(tmp_path: Path) -> None:
    path = write_task(tmp_path)
    path.write_text(path.read_text().replace("- terrible\n- great", "- No\n- Yes"))
    assert "- No\n" in path.read_text() and task(path).label_words.masked == ("No", "Yes")


def test_paths_are_relative_to_the_file_and_variables_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP_FOLDER", str(tmp_path))
    path = tmp_path / "deep" / "task.yaml"
    path.parent.mkdir()
    write_task(tmp_path, data={"train": "../train.jsonl", "test": "${MADE_UP_FOLDER}/test.jsonl"}).rename(path)
    assert {s: p.resolve() for s, p in data_files(task(path)).items()} == {
        split: tmp_path / f"{split}.jsonl" for split in ("train", "test")
    }
    monkeypatch.delenv("MADE_UP_FOLDER")
    assert read_task(path).name == "made"
    refuses(BadInput, r"data.test of task 'made'\) names .* MADE_UP_FOLDER, which is not set", task, path)


def made_of(folder: Path, content: bytes) -> Task:
    (folder / "task.yaml").write_bytes(content)
    return task(folder / "task.yaml")


def test_several_files_are_one_split_without_training_texts_that_are_tested(tmp_path: Path) -> None:
    """The second file names its label by a word; `story 3` is tested, in other letters."""
    files = {
        "a.jsonl": [{"text": f"story {i}", "label": i % 2} for i in range(6)],
        "b.jsonl": [{"text": f"tale {i}", "label": ("negative", "positive")[i % 2], "more": 1} for i in range(4)],
        "test.jsonl": [{"text": "Story, 3!", "label": 1}, {"text": "fable", "label": 0}],
    }
    for name, rows in files.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def splits(train: object) -> Any:
        path = tmp_path / "task.yaml"
        values = {"name": "two", "text": "text", "labels": ["negative", "positive"]}
        path.write_text(yaml.safe_dump({**values, "data": {"train": train, "test": "test.jsonl"}}))
        return load(task(str(path)))

    found, one = splits(["a.jsonl", "b.jsonl"]), splits("a.jsonl")
    both = pd.concat([found.train, found.validation]).sort_values("example_id")
    texts = {f"train-{row}": f"story {row}" if row < 6 else f"tale {row - 6}" for row in range(10) if row != 3}
    assert dict(zip(both["example_id"], both["text_a"], strict=True)) == texts
    assert both["label"].tolist() == [int(name[-1]) % 2 for name in both["example_id"]]
    assert "train: 1 of 10 rows left out" in " ".join(found.notes) and "left out" not in " ".join(one.notes)
    assert len(one.train) + len(one.validation) == 6, "one file is read as it is"


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
    path = write_task(tmp_path, data={"train": "train.jsonl", "test": name})
    refuses(BadData, rf"(?s)\A(?!.*hunter2).*{says}", task, path)


@pytest.mark.parametrize("pair", [False, True])
def test_the_tiny_tasks_of_the_other_tests_are_read(tmp_path: Path, pair: bool) -> None:
    train = load(task(tiny_task(tmp_path, rows=8, labels=3, pair=pair))).train
    assert len(train) == 8 and ("text_b" in train) == pair


def test_the_documents_example_is_true(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "add-a-task.md").read_text(), re.DOTALL)
    (tmp_path / "reviews.yaml").write_text(example[1])
    rows = [{"review": row["text"], "stars": row["label"]} for row in ROWS]
    named = [{**row, "stars": ("negative", "positive")[row["stars"]]} for row in rows]
    for name, content in (("train.jsonl", rows), ("dev.csv", named), ("test.parquet", rows)):
        write_rows(tmp_path / name, content)
    found = task(tmp_path / "reviews.yaml")
    splits, words = load(found), [found.wording(readout)[1] for readout in ("prompt", "causal")]
    assert list(splits.train["label"]) == list(splits.validation["label"]) == list(splits.test["label"])
    assert words == [("terrible", "great"), ("unhappy", "happy")]


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


RUN = {"base": "b", "finetuned": "f", "task": "t"}
MEMBER = {"base": "b", "tasks": ("t",)}

test_a_wrong_field_is_one_sentence_of_ours = refused(
    BadInput,
    *(
        ("give a whole number from 0 to 4,294,967,295", TrainingConfig(seed=seed).settings)
        for seed in (-1, LARGEST_SEED + 1, 9223372036854775)
    ),
    *(
        (rf"\A(?!.*Input should)(?=.*{re.escape(says)}).*\.\Z", read, {**good, **bad})
        for read, good, bad, says in (
            (
                read_finetuned,
                MEMBER,
                {"lr": 0},
                "'lr' of the fine-tuned model cannot be used: it is 0, and must be above 0.",
            ),
            (read_finetuned, MEMBER, {"lr": float("nan")}, "it is nan, and must be a finite number."),
            (read_finetuned, MEMBER, {"lr": "fast"}, "it is 'fast', and must be a number."),
            (read_finetuned, MEMBER, {"seed": LARGEST_SEED + 1}, "must be 4,294,967,295 or less."),
            (read_finetuned, MEMBER, {"tasks": ()}, "must not be empty."),
            (
                read_finetuned,
                MEMBER,
                {"head": "linear", "readout": "prompt"},
                "the prompt readout has no classification head",
            ),
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
        )
    ),
)


def test_the_largest_seed_can_be_used_and_no_larger_one() -> None:
    assert {
        read_spec({**RUN, "seed": LARGEST_SEED}).seed,
        read_finetuned({**MEMBER, "seed": LARGEST_SEED}).seed,
        TrainingConfig(seed=LARGEST_SEED).settings().seed,
    } == {LARGEST_SEED}
    assert RunSpec(**RUN, seed=LARGEST_SEED + 1).seed == LARGEST_SEED + 1, "a run that is stored can still be read"


PLAIN = st.recursive(
    st.none() | st.integers() | st.booleans() | st.text("ab:é\n#- ", max_size=8),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inside, max_size=3)
    ),
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
    short_and_without_it = rf"(?s)\A(?!.*s3cret)(?=.*{reason}).{{0,199}}\Z"
    refuses(BadInput, short_and_without_it, read_yaml, tmp_path / "x.yaml", "the file x.yaml")


@pytest.mark.parametrize("doubled", ["[*a{0}, *a{0}]", "*a{0}"])
def test_merges_that_unfold_without_bound_are_refused_at_once(tmp_path: Path, doubled: str) -> None:
    text = "\n".join(["a0: &a0 {k: 1}"] + [f"a{n + 1}: &a{n + 1} {{<<: {doubled.format(n)}}}" for n in range(40)])
    if doubled[0] == "[":
        refuses(ValueError, f"{MOST_VALUES:,}", parsed, text)
    else:
        assert parsed(text)["a40"] == {"k": 1}  # a chain is harmless


@pytest.mark.slow
def test_a_file_of_too_many_values_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("[" + "{a: b}," * (MOST_VALUES // 3) + "{a: b}, *unknown]")
    refuses(
        BadInput,
        f"the file cannot be read as YAML: it holds more than {MOST_VALUES:,} values",
        read_yaml,
        tmp_path / "x.yaml",
        "the file",
    )


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), Path("/dev/null"), tmp_path):
        refuses((BadInput, IsADirectoryError), None, read_text, path)
    (tmp_path / "long").write_text("a" * (MOST_BYTES + 1))
    refuses(BadInput, "larger than 1 MiB", read_text, tmp_path / "long")
    (tmp_path / "fits").write_text("é" * (MOST_BYTES // 2))
    assert read_text(tmp_path / "fits") == "é" * (MOST_BYTES // 2)


@pytest.mark.parametrize("row", TASKS.values(), ids=TASKS)
def test_every_row_has_all_fields_for_all_readouts(row: Task) -> None:
    assert isinstance(row.data, Hub) and row.data.train and row.data.test != row.data.train
    assert row.title and "not verified" in row.source
    for template, words in map(row.wording, ("prompt", "causal")):
        fields = {place.field for place in places(parse(template, row.text))}
        assert (fields, len(words)) == (set(range(len(row.text))), len(set(words))) and len(words) == len(row.labels)
    assert set(row.classes.values()) == set(row.labels) and not set(row.drop) & set(row.classes)
    assert row.limit("causal") == 256 and row.limit("prompt") in (128, 256)


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
    refuses(UnknownTask, str(tmp_path), task, "${MADE_UP}/absent.yaml")


def test_variables_and_the_home_folder_are_filled_in_or_refused_with_their_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MADE_UP", "/elsewhere")
    assert [*map(expanded, ("${MADE_UP}/a", "$MADE_UP/a", "~/a", "${NOT_MADE_UP}/a"))] == [
        "/elsewhere/a",
        "/elsewhere/a",
        str(Path.home() / "a"),
        "${NOT_MADE_UP}/a",
    ]
    refuses(
        BadInput,
        r"\(base\) names the environment variable NOT_MADE_UP, which is not set; set",
        expanded,
        "${NOT_MADE_UP}/a",
        "base",
    )


test_a_page_names_no_variable_but_the_projects = refused(
    BadInput,
    *(
        ("only variables whose names begin with SKILLVIZ_", refuse_variables, text)
        for text in ("${HOME}/x", "$HOME", "a/${SKILLVIZ_REAL}/${PATH}")
    ),
)


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


@pytest.mark.parametrize("readout", KINDS)
def test_every_change_that_counts_has_a_hash_of_its_own(readout: str) -> None:
    found = [definition(of(change), readout) for change, readouts in (({}, ALL), *CHANGES) if readout in readouts]
    assert len(set(found)) == len(found)


def test_every_field_is_told_of_once() -> None:
    """A new field of a task is part of the definition unless it is listed as not."""
    asked = {name for change, _ in CHANGES for name in change}
    assert asked | OF_DATA | DESCRIPTIVE == set(Task.model_fields) and not OF_DATA & DESCRIPTIVE
    assert frozenset.union(APART, *OTHERS.values()) <= asked and set(KINDS) == set(OTHERS) == set(get_args(Readout))


MASKED_ONLY = {"template": Template(masked="{text} It was {mask}."), "label_words": LabelWords(masked=("a", "b"))}
WITH_CAUSAL = {"template": BASIC["template"], "label_words": LabelWords(masked=("a", "b"), causal=("c", "d"))}
BARE = {"template": Template(), "label_words": LabelWords()}
SHORT, LONG = ({"max_length_causal": 64, "max_length": most} for most in (128, 256))


EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tasks"


@pytest.fixture
def found(tmp_path: Path) -> Task:
    return task(write_task(tmp_path))


def test_without_validation_a_tenth_of_train_is_taken_and_said(found: Task) -> None:
    splits = load(found)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (27, 3, 30)
    assert {*splits.train["example_id"], *splits.validation["example_id"]} == {f"train-{n}" for n in range(30)}
    first, only = splits.notes
    assert first == "validation: 3 of the 30 train rows, drawn with seed 0, because the task has no validation split."
    assert only.startswith("validation: all 3 rows have the label 'positive'")


def test_the_tasks_own_validation_is_taken_but_k_shot_takes_both_from_train(tmp_path: Path) -> None:
    write_rows(tmp_path / "dev.jsonl", ROWS[:7])
    found = task(write_task(tmp_path, data={"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}))
    splits = load(found)
    assert (len(splits.train), [*splits.validation["example_id"]], splits.notes) == (
        30,
        [f"validation-{n}" for n in range(7)],
        (),
    )
    splits = load(found, k_shot=4, seed=13)
    assert list(np.bincount(splits.train["label"])) == list(np.bincount(splits.validation["label"])) == [4, 4]
    assert not set(splits.train["example_id"]) & set(splits.validation["example_id"])
    assert splits.notes[0] == (
        "4-shot, seed 13, both out of the train split: train 8 (negative 4, positive 4), "
        "validation 8 (negative 4, positive 4)."
    )


@pytest.mark.parametrize("arguments", [{"k_shot": 4}, {}, {"max_test": 5}])
def test_the_seed_decides(found: Task, arguments: dict[str, int]) -> None:
    first, again, other = (load(found, seed=seed, **arguments).fingerprint for seed in (21, 21, 42))
    assert first == again != other


def test_caps_keep_the_order_and_are_said(found: Task) -> None:
    splits = load(found, seed=3, max_train=10, max_validation=2, max_test=5)
    for frame, size in ((splits.train, 10), (splits.validation, 2), (splits.test, 5)):
        rows = [int(name.rpartition("-")[2]) for name in frame["example_id"]]
        assert len(rows) == size and rows == sorted(rows) and list(frame.index) == list(range(size))
    frame, notes = load_test(found, seed=3, max_test=5)
    assert frame.equals(splits.test), "the test frame alone is the same"
    assert notes == ("test: 5 of 30 rows, drawn with seed 3.",) and notes[0] in splits.notes
    assert load(found, max_train=1000).fingerprint == load(found).fingerprint, "a cap above the size"


test_one_row_is_not_enough = refused_in(
    BadData,
    ("has one row", lambda folder: load(task(write_task(folder, ROWS[:1])))),
    ("none is left for validation", lambda folder: load(task(write_task(folder, ROWS[:1])), k_shot=1)),
)
test_a_wrong_file_and_a_wrong_count_give_one_sentence = refused_in(
    BadInput,
    *(
        ("must be", lambda folder, wrong: load(task(write_task(folder)), **wrong), wrong)
        for wrong in ({"k_shot": 0}, {"max_train": 0}, {"max_test": -1}, {"seed": -1})
    ),
    *((rf"\A.*{says}.*\Z", lambda folder, changes: task(write_task(folder, **changes)), changes) for changes, says in (
        ({"lables": ["a", "b"]}, "unknown key 'lables'; known: name, title, data"),
        ({"labels": None}, "has no 'labels'; needed are name, data, text, labels"),
        ({"reference": "answer", "labels": None, "data": None}, r"has no 'data'; needed are name, data, text \(see"),
        ({"data": "train.jsonl"}, "'data' must name the files"),
        ({"data": {"train": "train.jsonl"}}, "'data' has no 'test'"),
        ({"data": {"train": "train.jsonl", "test": "test.jsonl", "dev": "x"}}, "unknown split 'dev'; known: train"),
        ({"data": {"train": {"a": "train.jsonl"}, "test": "test.jsonl"}}, "'data.train' must be the path of a file"),
        ({"data": {"train": ["train.jsonl", ["b"]], "test": "test.jsonl"}}, "'data.train' must be a list of names"),
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
    )),
    *((says, made_of, content) for content, says in (
        (b"name: x\nlabels: [a, b\ntext: y\n", "cannot be read as YAML: .* in line 3"),
        (b"name: x\nname: y\n", "the key name is given twice in line 2"),
        (b"- a\n- b\n", "must be a mapping"),
        (b"", "must be a mapping"),
        (b"name: !!python/object/apply:os.system ['true']\n", "as YAML: could not determine a constructor"),
        (b"\xff\xfe\x00name", "is not UTF-8 text"),
    )),
)  # fmt: skip


def test_the_fingerprint_sees_splits_ids_texts_and_labels(found: Task) -> None:
    frame = load(found).test
    parts = [{"test": frame}, {"train": frame}]
    for column, value in (("example_id", "test-99"), ("text_a", "other"), ("label", 1)):
        parts.append({"test": frame.assign(**{column: [value, *frame[column][1:]]})})
    assert len({fingerprint(part) for part in parts}) == 5 and len(fingerprint(parts[0])) == 64


@given(counts=st.lists(st.integers(1, 40), min_size=2, max_size=4), k=st.integers(1, 20), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_k_shot_is_exact_disjoint_and_sorted(counts: list[int], k: int, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    train, validation = k_shot_rows(labels, k, seed)
    assert not set(train) & set(validation) and np.all(np.diff(train) > 0) and np.all(np.diff(validation) > 0)
    for label, m in enumerate(counts):
        wanted = min(k, max(1, int(0.8 * m + 1e-9)))
        assert np.sum(labels[train] == label) == wanted and np.sum(labels[validation] == label) == min(k, m - wanted)


def leaked_rows(source: Task, other: Task) -> list[int]:
    return sorted(int(name.rpartition("-")[2]) for name in unseen([source, other])[other.name].leaked)


def of_texts(folder: Path, name: str, train: list[str], test: list[str]) -> Task:
    for split, texts in (("train", train), ("test", test)):
        write_rows(folder / f"{name}-{split}.jsonl", [{"text": text, "label": n % 2} for n, text in enumerate(texts)])
    return task(write_task(folder, name=name, data={split: f"{name}-{split}.jsonl" for split in ("train", "test")}))


@pytest.fixture
def three(tmp_path: Path) -> list[Task]:
    """Return three tasks; `b` tests on two texts of `a`'s training data, and `c` also trains on one of them."""
    return [
        of_texts(tmp_path, "a", ["A fine film .", "dull", "It's 9 of 10!"], ["alone", "too"]),
        of_texts(tmp_path, "b", ["own", "words"], ["a FINE film", "new", "its 9 of 10", "own words"]),
        of_texts(tmp_path, "c", ["a fine film!", "else"], ["dull.", "dull, not"]),
    ]


def test_what_others_trained_on_is_found_and_counted(three: list[Task]) -> None:
    found = unseen(three)
    assert {name: row.leaked for name, row in found.items()} == {"a": set(), "b": {"test-0", "test-2"}, "c": {"test-0"}}
    assert found["a"].sentence == "" and unseen(three[:1])["a"].leaked == frozenset(), "its own training data"
    assert dict(found["b"].by) == {"a": 2, "c": 1}, "a row that two tasks hold counts for both"
    assert "b: 2 of 4 test examples are left out" in found["b"].sentence and "2 of a, 1 of c" in found["b"].sentence
    assert leaked_rows(three[0], three[1]) == [0, 2] and leaked_rows(three[1], three[0]) == []


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize(
    ("name", "dropped"), [("cr", 0), ("uci_yelp", 0), ("uci_amazon", 3), ("uci_imdb", 1), ("subj", 696)]
)
def test_what_the_movie_reviews_were_trained_on_is_left_out_of_the_other_examples(name: str, dropped: int) -> None:
    """In the shipped files, sources write the same sentence with other punctuation and capitals."""
    source, other = (task(EXAMPLES / f"{one}.yaml") for one in ("mr", name))
    mapping = {"subjective": "negative", "objective": "positive"} if name == "subj" else None
    found = other_examples(source, other, "head", training_texts(source), mapping)
    assert found.dropped == dropped == found.rows - len(found.frame)


@pytest.mark.nightly
@pytest.mark.real
def test_the_list_that_came_with_the_data_is_found_again(real: Path) -> None:
    told = json.loads((real / "data" / "overlap.json").read_text(encoding="utf-8"))
    names = ("sst2", "mr", "subj", "mpqa", "cr", "qnli", "mnli", "snli", "ag_news")
    tasks = {name: task(FOLDER / f"{name}.yaml") for name in names}
    for a, b in itertools.permutations(names, 2):
        if f"{a}->{b}" in told or {a, b} <= {"qnli", "mnli", "snli", "cr"}:
            assert leaked_rows(tasks[a], tasks[b]) == told.get(f"{a}->{b}", []), (a, b)


FOLDER = Path(__file__).parents[2] / "benchmarks" / "tasks"
FILES = sorted(FOLDER.glob("*.yaml"))
NAMES_OF_REAL = {"sst2_sentences": "sst2", "yelp_reviews": "yelp"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_ask_like_the_registry(path: Path) -> None:
    found, row = read_task(path), TASKS[NAMES_OF_REAL.get(path.stem, path.stem)]
    assert (found.name, found.template, found.metric, found.labels[found.positive]) == (
        path.stem, row.template, row.metric, row.labels[row.positive],
    )  # fmt: skip
    for kind in ("masked", "causal"):
        assert dict(zip(found.labels, getattr(found.label_words, kind), strict=True)) == dict(
            zip(row.labels, getattr(row.label_words, kind), strict=True)
        )


@pytest.mark.cases(7, 6)
@pytest.mark.real
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_load(path: Path, real: Path) -> None:
    found = task(path)
    splits = load(found)
    for frame in (splits.train, splits.validation, splits.test):
        assert len(frame) and set(frame["label"]) == set(range(len(found.labels)))
    assert not set(splits.train["example_id"]) & set(splits.validation["example_id"])
    sizes = (len(splits.train), len(splits.validation), len(splits.test))
    assert sizes == {"sst2_sentences": (6908, 872, 1821), "trec": (4833, 536, 500), "snli": (9999, 2000, 2000)}.get(
        path.stem, sizes
    )


@pytest.mark.real
def test_small_classes_give_what_they_have(real: Path) -> None:
    """TREC has 84 abbreviations: 67 to train, 17 to validate; the other classes give 128 each."""
    splits = load(task(FOLDER / "trec.yaml"), k_shot=128, seed=13)
    assert (np.bincount(splits.train["label"]).tolist(), np.bincount(splits.validation["label"]).tolist()) == (
        [128, 128, 67, 128, 128, 128], [128, 128, 17, 128, 128, 128],
    )  # fmt: skip
    assert "classes with too few rows give fewer" in splits.notes[0]


@pytest.mark.cases(0, 1)
@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("readout", ["head", "prompt"])
def test_a_real_wordpiece_tokenizer(real: Path, readout: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(real / "models" / "minilm-l6")
    for name in ("sst2_sentences", "mnli", "trec", "mrpc"):
        found = task(FOLDER / f"{name}.yaml")
        encoded = encode(found, load(found, max_test=300).test, tokenizer, readout, max_length=48)
        assert encoded.lengths.max() == 48 if name in ("mnli", "mrpc") else encoded.lengths.max() <= 48
        assert readout == "head" or len(encoded.label_ids) == len(found.labels)


@pytest.mark.nightly
@pytest.mark.real
@pytest.mark.parametrize("model", ["stories260k", "babyllama-105"])
def test_real_causal_tokenizers_join_prompt_and_answer(real: Path, model: str) -> None:
    """The token ids of prompt and answer together equal the ids of the whole text, for every label."""
    tokenizer = AutoTokenizer.from_pretrained(real / "models" / model)
    for name in ("sst2_sentences", "rte", "ag_news"):
        found = task(FOLDER / f"{name}.yaml")
        encoded = encode(found, load(found, max_test=40).test, tokenizer, "causal")
        assert encoded.lengths.max() <= 256
        for ids, answers in zip(encoded.input_ids, encoded.answers, strict=True):
            end = tokenizer.decode(ids, skip_special_tokens=True)[-12:]
            for word, answer in zip(found.label_words.causal, answers, strict=True):
                assert (
                    answer.tolist() == tokenizer(f"{end} {word}", add_special_tokens=False)["input_ids"][-len(answer) :]
                )
                assert tokenizer.decode(answer).strip().lower() == word.lower() or model == "babyllama-105"


@pytest.mark.real
@pytest.mark.bench
def test_ten_thousand_pairs_of_real_texts_take_seconds(real: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(real / "models" / "minilm-l6")
    found = task(FOLDER / "mnli.yaml")
    train = load(found).train
    start = time.perf_counter()
    encode(found, train, tokenizer, "prompt", max_length=48)
    assert time.perf_counter() - start < 20


IS_SAME = {True: Comparison.SAME, False: Comparison.DIFFERENT, None: Comparison.UNKNOWN}
LABELLED = pd.DataFrame({"label": [0, 1]})
SPLITS: Any = SimpleNamespace(train=LABELLED, validation=LABELLED, test=LABELLED, fingerprint="f", words=1.0)
test_by_hand = by_hand(
    ("the paper's tasks and its other sets are all there",
     ["sst2", "cr", "mr", "mpqa", "trec", "ag_news", "subj", "qnli", "snli", "mnli", "rte", "mrpc", "qqp", "imdb",
      "yelp", "amazon", "mnli_01", "snli_01"], list, TASKS),
    ("F1 is about paraphrases and duplicates", {"mrpc": "equivalent", "qqp": "duplicate"},
     lambda: {name: row.labels[row.positive] for name, row in TASKS.items() if row.metric == "f1"}),
    ("no two built-in tasks are called the same", len(TASKS), lambda: len({readable_name(name) for name in TASKS})),
    ("and none by an id", set(),
     lambda: {readable_name(name) for name in TASKS} & {*SHIPPED.values(), *TASKS}),
    *((f"a change counts for the readouts that look at it: {change}", readouts,
       lambda change=change: {kind for kind in KINDS if definition(of(change), kind) != definition(of({}), kind)})
      for change, readouts in CHANGES),
    *((f"what only names or describes leaves the definition of {readout}: {change}", definition(of({}), readout),
       definition, of(change), readout) for change in SAME for readout in (None, *KINDS)),
    ("a note of one readout tells of that one", definition(of({}), "prompt"),
     lambda: task_note(of({}), SPLITS, "prompt").definition),
    ("a note of none tells of all", definition(of({})), lambda: task_note(of({}), SPLITS).definition),
    ("a definition that is not known is not written", ["absent", "x"],
     lambda: [TaskNote(name="mine", labels=("a", "b"), **more).model_dump(mode="json").get("definition", "absent")
              for more in ({}, {"definition": "x"})]),
    ("k-shot takes the first of each class of one shuffle", True,
     lambda: {*k_shot_rows(np.array([0, 1] * 50), 4, 7)[0]} < {*k_shot_rows(np.array([0, 1] * 50), 8, 7)[0]}),
    ("a tenth and the rest partition", ([23, 2], list(range(25))),
     lambda: ([*map(len, tenth(25, 0))], sorted(np.concatenate(tenth(25, 0)).tolist()))),
    ("of two rows each side has one", [1, 1], lambda: [*map(len, tenth(2, 0))]),
    *((f"a cap of {most} keeps all of five", [0, 1, 2, 3, 4], lambda most=most: capped(np.arange(5), most, 0).tolist())
      for most in (None, 5)),
    *((f"compared by letters and digits: {text}", same, plain, text) for text, same in (
        ("It's  9 of 10!", "its9of10"), ("its 9 OF 10", "its9of10"),
        ("??", "??"),  # a text without letters is itself
        ("Очень хорошо!", "оченьхорошо"))),
    *((f"{one} and {other} are one text: {is_same}", is_same, lambda one=one, other=other: plain(one) == plain(other))
      for one, other, is_same in (
        ("naïve", "nave", True), ("nave", "naive", False),  # sources write accents in different ways
        ("很好 2024", "不好 2024", False))),  # every script counts
    ("where one text ends counts", 2,
     lambda: len({*digests(pd.DataFrame({"text_a": ["ab", "a"], "text_b": ["c", "bc"]}))})),
    ("data of a hub are told by name", [["sst2"]], lambda: task_stamp(registry.task("sst2"))),
    ("the worker has no rule of its own", {task_stamp}, lambda: {request.task_stamp, operations.task_stamp}),
    ("nor for a file", user_file.file_stamp, lambda: request.file_stamp),
    *((f"words of {name} stand for their own class", words, lambda name=name, words=words: {
        label: word for label, word in zip(TASKS[name].labels, TASKS[name].label_words.masked or (), strict=True)
        if label in words})
      for name, words in (
        ("subj", {"subjective": "subjective", "objective": "objective"}),
        ("trec", {"abbreviation": "Expression"}),
        ("snli", {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}),
        ("qqp", {"not_duplicate": "No", "duplicate": "Yes"}))),
    *((f"{name}, out of distribution, has the {field} of {like}", getattr(TASKS[like], field), getattr, TASKS[name],
       field)
      for name, like in (("imdb", "sst2"), ("yelp", "mpqa"), ("mnli_01", "qnli"), ("snli_01", "qnli"))
      for field in ("labels", "template", "label_words")),
    *((f"a name as people write it: {name}", True,
       lambda name=name: task(name) is TASKS[name.strip().lower().replace("-", "_")])
      for name in ("sst2", "SST2", "ag-news", " mnli_01 ")),
    *((f"no file: {text[:9]}", (False, False),
       lambda text=text: (located(text).exists(), (located(text) / "config.json").is_file())) for text in NO_FILES),
    *((f"another text stays: {text}", text, refuse_variables, text)
      for text in ("", "~/x", "${SKILLVIZ_REAL}/x", "costs 5 $", "a$/b")),
    *((f"the name {name} is readable", said, readable_name, name) for name, said in (
        ("ag_news", "AG News"),
        ("sst2_sentences", "SST-2 sentences"),
        ("yelp_reviews", "Yelp reviews"),
        ("mnli_01", "MNLI without neutral"),
        *((own, own) for own in ("film-reviews", "film_reviews", "COVID-19", "e-SNLI", "mr-bean", "cr-reviews", "_")))),
    *((f"words name tasks, not files, options and own names: {words}", said, readable, words) for words, said in (
        ("cr + film-reviews", "CR + film-reviews"),
        ("sst2_sentences+cr (multi-task, seed 0)", "SST-2 sentences+CR (multi-task, seed 0)"),
        ("qnli to mnli_01, computed live", "QNLI to MNLI without neutral, computed live"),
        ("no share of a gain is told on rte: it gains nothing", "no share of a gain is told on RTE: it gains nothing"),
        *((own, own) for own in ("mr-bean", "my_cr", "data/cr", "cr.yaml", "cr:2", "org/sst2@cr", "--cr", "`cr`")))),
    *((f"definitions {number}", IS_SAME[is_same], compared, stored, now)
      for number, (stored, now, is_same) in enumerate((
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
        (definition(of(SHORT), "causal"), definition(of(LONG), "causal"), True),  # its longest input is its own
        (definition(of(SHORT), "prompt"), definition(of(LONG), "prompt"), False),
        ("a", "a", True),
        ("a", "b", False),
        ("a", "head=a", False),
        *((stored, now, None) for stored, now in (("", "a"), (None, "a"), ("", ""), ("a", ""))),  # never the same
    ))),
    ("a readout without a template has no definition", (False, True),
     lambda: tuple("causal" in definition(of(each)) for each in (MASKED_ONLY, WITH_CAUSAL))),
    ("every task of the paper has real data", set(TASKS),
     lambda: {NAMES_OF_REAL.get(path.stem, path.stem) for path in FILES}),
)  # fmt: skip
