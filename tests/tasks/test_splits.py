"""Tests of sampling: seeded, disjoint, in the source's order, and reported."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.errors import BadData, BadInput
from skillviz.tasks.registry import task
from skillviz.tasks.splits import capped, fingerprint, k_shot_rows, load, load_test, tenth
from skillviz.tasks.task import Task
from tests.tasks.make import ROWS, write_rows, write_task


@pytest.fixture
def found(tmp_path: Path) -> Task:
    return task(write_task(tmp_path))


def rows_of(frame) -> list[int]:
    return [int(name.rpartition("-")[2]) for name in frame["example_id"]]


def test_without_validation_a_tenth_of_train_is_taken_and_said(found: Task) -> None:
    splits = load(found)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (27, 3, 30)
    assert not set(splits.train["example_id"]) & set(splits.validation["example_id"])
    assert all(name.startswith("train-") for name in splits.validation["example_id"])
    first, only = splits.notes
    assert first == "validation: 3 of the 30 train rows, drawn with seed 0, because the task has no validation split."
    assert only.startswith("validation: all 3 rows have the label 'positive'")


def test_the_tasks_own_validation_is_taken(tmp_path: Path) -> None:
    data = {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}
    write_rows(tmp_path / "dev.jsonl", ROWS[:7])
    splits = load(task(write_task(tmp_path, data=data)))
    assert (len(splits.train), len(splits.validation), splits.notes) == (30, 7, ())
    assert splits.validation["example_id"][0] == "validation-0"


def test_k_shot_takes_both_from_train_even_beside_a_validation_file(tmp_path: Path) -> None:
    data = {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}
    write_rows(tmp_path / "dev.jsonl", ROWS[:7])
    splits = load(task(write_task(tmp_path, data=data)), k_shot=4, seed=13)
    assert list(np.bincount(splits.train["label"])) == list(np.bincount(splits.validation["label"])) == [4, 4]
    assert not set(splits.train["example_id"]) & set(splits.validation["example_id"])
    assert splits.notes[0] == (
        "4-shot, seed 13, both out of the train split: train 8 (negative 4, positive 4), "
        "validation 8 (negative 4, positive 4)."
    )


def test_the_seed_decides(found: Task) -> None:
    for arguments in ({"k_shot": 4}, {}, {"max_test": 5}):
        first, again, other = (load(found, seed=seed, **arguments).fingerprint for seed in (21, 21, 42))
        assert first == again != other


def test_caps_keep_the_order_and_are_said(found: Task) -> None:
    splits = load(found, max_train=10, max_validation=2, max_test=5)
    for frame, size in ((splits.train, 10), (splits.validation, 2), (splits.test, 5)):
        assert len(frame) == size and rows_of(frame) == sorted(rows_of(frame))
        assert list(frame.index) == list(range(size))
    assert "test: 5 of 30 rows, drawn with seed 0." in splits.notes


def test_a_cap_above_the_size_changes_nothing(found: Task) -> None:
    assert load(found, max_train=1000).fingerprint == load(found).fingerprint


def test_the_test_frame_alone_is_the_same(found: Task) -> None:
    frame, notes = load_test(found, seed=3, max_test=5)
    assert frame.equals(load(found, seed=3, max_test=5).test)
    assert notes == ("test: 5 of 30 rows, drawn with seed 3.",)


def test_a_class_without_train_rows_is_said(tmp_path: Path) -> None:
    found = task(write_task(tmp_path, labels=["negative", "positive", "mixed"], label_words=None))
    assert "train has no row with the label 'mixed'." in load(found).notes


def test_one_row_is_not_enough(tmp_path: Path) -> None:
    found = task(write_task(tmp_path, ROWS[:1]))
    with pytest.raises(BadData, match="has one row"):
        load(found)
    with pytest.raises(BadData, match="none is left for validation"):
        load(found, k_shot=1)


@pytest.mark.parametrize("wrong", [{"k_shot": 0}, {"max_train": 0}, {"max_test": -1}, {"seed": -1}])
def test_counts_must_be_positive(found: Task, wrong: dict) -> None:
    with pytest.raises(BadInput, match="must be"):
        load(found, **wrong)


def test_the_fingerprint_sees_ids_texts_and_labels(found: Task) -> None:
    frame = load(found).test
    whole = fingerprint({"test": frame})
    for column, value in (("example_id", "test-99"), ("text_a", "other"), ("label", 1)):
        changed = frame.copy()
        changed.loc[0, column] = value
        assert fingerprint({"test": changed}) != whole
    assert fingerprint({"train": frame}) != whole and len(whole) == 64


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
    labels = np.array([0, 1] * 50)
    small, large = k_shot_rows(labels, 4, 7)[0], k_shot_rows(labels, 8, 7)[0]
    assert set(small) < set(large)


def test_tenth_and_cap_partition() -> None:
    rest, held = tenth(25, 0)
    assert len(held) == 2 and sorted([*rest, *held]) == list(range(25))
    assert len(tenth(2, 0)[0]) == len(tenth(2, 0)[1]) == 1
    assert capped(np.arange(5), None, 0) is not None and list(capped(np.arange(5), 5, 0)) == [0, 1, 2, 3, 4]
