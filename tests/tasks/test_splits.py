"""Tests of sampling: seeded, disjoint, in the source's order, and reported; of test texts that others train on; and
of the task files of the real data sets (benchmarks/tasks)."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from skillviz.errors import BadData, BadInput
from skillviz.runs.transfer import other_examples
from skillviz.tasks.encode import encode
from skillviz.tasks.leaks import digests, plain, training_texts, unseen
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.splits import capped, fingerprint, k_shot_rows, load, load_test, tenth
from skillviz.tasks.task import Task
from skillviz.tasks.user_file import read_task
from tests.tasks.make import ROWS, write_rows, write_task

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "tasks"


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
    data = {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}
    write_rows(tmp_path / "dev.jsonl", ROWS[:7])
    found = task(write_task(tmp_path, data=data))
    splits = load(found)
    assert (len(splits.train), len(splits.validation), splits.notes) == (30, 7, ())
    assert splits.validation["example_id"][0] == "validation-0"
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
    splits = load(found, max_train=10, max_validation=2, max_test=5)
    for frame, size in ((splits.train, 10), (splits.validation, 2), (splits.test, 5)):
        rows = [int(name.rpartition("-")[2]) for name in frame["example_id"]]
        assert len(rows) == size and rows == sorted(rows) and list(frame.index) == list(range(size))
    frame, notes = load_test(found, max_test=5)
    assert frame.equals(splits.test), "the test frame alone is the same"
    assert notes == ("test: 5 of 30 rows, drawn with seed 0.",) and notes[0] in splits.notes
    assert load(found, max_train=1000).fingerprint == load(found).fingerprint, "a cap above the size"


def test_one_row_is_not_enough(tmp_path: Path) -> None:
    found = task(write_task(tmp_path, ROWS[:1]))
    for arguments, said in (({}, "has one row"), ({"k_shot": 1}, "none is left for validation")):
        with pytest.raises(BadData, match=said):
            load(found, **arguments)


@pytest.mark.parametrize("wrong", [{"k_shot": 0}, {"max_train": 0}, {"max_test": -1}, {"seed": -1}])
def test_counts_must_be_positive(found: Task, wrong: dict) -> None:
    with pytest.raises(BadInput, match="must be"):
        load(found, **wrong)


def test_the_fingerprint_sees_splits_ids_texts_and_labels(found: Task) -> None:
    frame = load(found).test
    parts = [{"test": frame}, {"train": frame}]
    for column, value in (("example_id", "test-99"), ("text_a", "other"), ("label", 1)):
        parts.append({"test": frame.copy()})
        parts[-1]["test"].loc[0, column] = value
    assert len({fingerprint(part) for part in parts}) == 5 and len(fingerprint(parts[0])) == 64


@given(counts=st.lists(st.integers(1, 40), min_size=2, max_size=4), k=st.integers(1, 20), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_k_shot_is_exact_disjoint_and_sorted(counts: list[int], k: int, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    train, validation = k_shot_rows(labels, k, seed)
    assert not set(train) & set(validation)
    assert np.all(np.diff(train) > 0) and np.all(np.diff(validation) > 0)
    for label, m in enumerate(counts):
        wanted = min(k, max(1, int(0.8 * m + 1e-9)))
        assert np.sum(labels[train] == label) == wanted
        assert np.sum(labels[validation] == label) == min(k, m - wanted)


def test_k_shot_takes_the_first_of_each_class_of_one_shuffle() -> None:
    small, large = (set(k_shot_rows(np.array([0, 1] * 50), k, 7)[0]) for k in (4, 8))
    assert small < large


def test_tenth_and_cap_partition() -> None:
    rest, held = tenth(25, 0)
    assert len(held) == 2 and sorted([*rest, *held]) == list(range(25))
    assert len(tenth(2, 0)[0]) == len(tenth(2, 0)[1]) == 1
    assert [capped(np.arange(5), most, 0).tolist() for most in (None, 5)] == [[0, 1, 2, 3, 4]] * 2


def leaked_rows(source: Task, other: Task) -> list[int]:
    """Return the line numbers of the other task's test examples that are in the source's training data."""
    return sorted(int(name.rpartition("-")[2]) for name in unseen([source, other])[other.name].leaked)


def of_texts(folder: Path, name: str, train: list[str], test: list[str]) -> Task:
    """Return a task of these texts; labels alternate."""
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


def test_texts_are_compared_by_letters_and_digits() -> None:
    assert plain("It's  9 of 10!") == plain("its 9 OF 10") == "its9of10"
    assert plain("??") == "??", "a text without letters is itself"
    assert plain("naïve") == plain("nave") != plain("naive"), "sources write accents in different ways"
    assert plain("Очень хорошо!") == "оченьхорошо" and plain("很好 2024") != plain("不好 2024"), "every script counts"


def test_pairs_are_compared_text_by_text() -> None:
    one, two = digests(pd.DataFrame({"text_a": ["ab", "a"], "text_b": ["c", "bc"]}))
    assert one != two, "where one text ends counts"


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
SAME = {"sst2_sentences": "sst2", "yelp_reviews": "yelp"}
SIZES = {"sst2_sentences": (6908, 872, 1821), "trec": (4833, 536, 500), "snli": (9999, 2000, 2000)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_ask_like_the_registry(path: Path) -> None:
    """Labels, templates, words and metric equal the registry's row, for any order of the data."""
    found, row = read_task(path), TASKS[SAME.get(path.stem, path.stem)]
    assert found.name == path.stem and found.template == row.template and found.metric == row.metric
    assert found.labels[found.positive] == row.labels[row.positive]
    for kind in ("masked", "causal"):
        by_label = dict(zip(found.labels, getattr(found.label_words, kind), strict=True))
        assert by_label == dict(zip(row.labels, getattr(row.label_words, kind), strict=True))


def test_every_task_of_the_paper_has_real_data() -> None:
    assert {SAME.get(path.stem, path.stem) for path in FILES} == set(TASKS)


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
    assert sizes == SIZES.get(path.stem, sizes)


@pytest.mark.real
def test_small_classes_give_what_they_have(real: Path) -> None:
    """TREC has 84 abbreviations: 67 to train, 17 to validate; the other classes give 128 each."""
    splits = load(task(FOLDER / "trec.yaml"), k_shot=128, seed=13)
    assert np.bincount(splits.train["label"]).tolist() == [128, 128, 67, 128, 128, 128]
    assert np.bincount(splits.validation["label"]).tolist() == [128, 128, 17, 128, 128, 128]
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
                whole = tokenizer(f"{end} {word}", add_special_tokens=False)["input_ids"]
                assert answer.tolist() == whole[-len(answer) :]
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
