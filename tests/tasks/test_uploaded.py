"""Tests of uploaded files: they become ordinary tasks that are read, guessed, checked and written once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from skillviz.errors import BadData, BadInput
from skillviz.tasks import registry
from skillviz.tasks.splits import load
from skillviz.tasks.task import CHOICE, CLASSIFICATION, GENERATION
from skillviz.tasks.uploaded import (
    Columns,
    Draft,
    Upload,
    are_indices,
    classes_of,
    guessed,
    guessed_kind,
    is_written_out,
    room_for,
    rows_of,
    save,
    saved,
    set_aside,
)
from tests.tasks.make import WRITERS

ROWS = [{"id": f"{n:03}", "review": f"a rather long text number {n}, so", "label": n % 2} for n in range(20)]


def upload(rows: list[dict[str, Any]] = ROWS, name: str = "a.jsonl") -> Upload:
    return Upload(name, WRITERS[Path(name).suffix](rows))


def draft(name: str = "mine", files: dict[str, Upload] | None = None, **changes: Any) -> Draft:
    values = {
        "text": ("review",), "label": "label", "labels": ("bad", "good"), "template": "{text} It was <mask>.",
        "label_words": ("terrible", "great"),
    }  # fmt: skip
    return Draft(name, files or {"train": upload(name="a.csv")}, {**values, **changes})


PAIRS = [{"gold": gold, "premise": "a rather long one", "hypothesis": "another long one"} for gold in ("yes", "no") * 4]
ODD = [{"a": text, "b": "xy"[n % 2]} for n, text in enumerate([*["some words of a text"] * 3, "other words"])]
WRITTEN = [{"question": f"what is number {n} of these", "answer": f"It is {n}."} for n in range(20)]
LISTED = [{"question": f"which is the animal, {n}", "choices": ["cat", "car", "cup"][: 2 + n % 2], "answer": "cat"}
          for n in range(20)]  # fmt: skip
OPTIONS = [{"question": f"which is the animal, {n}", "option_a": "car", "option_b": "cat", "right": "B"}
           for n in range(20)]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "kind", "columns"),
    [
        (ROWS, CLASSIFICATION, Columns(("review",), "label")),
        (PAIRS, CLASSIFICATION, Columns(("premise", "hypothesis"), "gold")),
        (ODD, CLASSIFICATION, Columns(("a",), "b")),
        (WRITTEN, GENERATION, Columns(("question",), "answer")),
        (LISTED, CHOICE, Columns(("question",), "answer", ("choices",))),
        (OPTIONS, CHOICE, Columns(("question",), "right", ("option_a", "option_b"))),
    ],
)
def test_what_rows_hold_is_guessed(rows: list[dict[str, Any]], kind: str, columns: Columns) -> None:
    frame = rows_of(upload(rows))
    assert guessed_kind(frame) == kind and guessed(frame, kind) == columns
    assert is_written_out(frame, columns.options, columns.right) == (rows is LISTED)


def test_a_long_reference_has_room() -> None:
    assert [room_for(pd.DataFrame({"a": ["", "x" * size]}), "a") for size in (0, 64, 65, 1000)] == [32, 32, 48, 512]


def test_an_answer_to_write_is_the_task_that_a_file_gives(tmp_path: Path) -> None:
    values = {
        "text": ("question",), "reference": "answer", "template": {"causal": "{text}"}, "stop": "newline",
        "max_new_tokens": 8, "ignore_case": True, "ignore_punctuation": False,
    }  # fmt: skip
    path, splits = save(Draft("mine", {"train": upload(WRITTEN, "a.csv")}, values), tmp_path)
    by_hand = shutil.copytree(path.parent, tmp_path / "by-hand") / "task.yaml"
    by_hand.write_text(
        "name: mine\ndata: {train: train.parquet, test: test.parquet}\ntext: question\nreference: answer\n"
        "template: '{text}'\nstop: newline\nmax_new_tokens: 8\nignore_case: true\n"
    )
    uploaded, written = registry.task(path), registry.task(by_hand)
    assert uploaded.model_dump(exclude={"path", "source"}) == written.model_dump(exclude={"path", "source"})
    assert load(written).fingerprint == splits.fingerprint and splits.test["reference"].str.startswith("It is").all()


@pytest.mark.parametrize(
    ("rows", "options", "right", "labels"),
    [(LISTED, ("choices",), "answer", ("A", "B", "C")), (OPTIONS, ("option_a", "option_b"), "label", ("A", "B"))],
)
def test_options_name_their_places(
    rows: list[dict[str, Any]], options: tuple[str, ...], right: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    column = "right" if right == "label" else "answer"
    files = {"train": upload(rows[:1] * 4), "test": upload(rows, "b.jsonl")}
    values = {"text": ("question",), "options": options, right: column, "template": {"causal": "{text}"}}
    path, splits = save(Draft("mine", files, values), tmp_path)
    assert registry.task(path).labels == labels, "the longest list of all files"
    assert set(splits.test["label"]) == {options.index("option_b") if right == "label" else 0}


def test_classes_are_sorted_as_a_reader_expects_and_not_too_many() -> None:
    assert classes_of(pd.DataFrame({"y": ["10", "9", None, "b", "1.5"]}), "y") == ["1.5", "9", "10", "b"]
    with pytest.raises(BadData, match="has 60 different values"):
        classes_of(pd.DataFrame({"y": range(60)}), "y")
    assert are_indices(["0", "1", "2"]) and not are_indices(["1", "2"]) and not are_indices(["b", "a"])


def test_a_task_is_written_with_its_rows_beside_it(tmp_path: Path) -> None:
    files = {"train": upload(ROWS, "a.csv"), "test": upload(ROWS[:6], "t.parquet")}
    path, splits = save(draft(files=files, metric="f1", positive="good"), tmp_path)
    assert path == tmp_path / "mine" / "task.yaml" and saved(tmp_path) == [path]
    pd.testing.assert_frame_equal(pd.read_parquet(path.parent / "train.parquet"), rows_of(files["train"]))
    task = registry.task(path)
    assert (task.labels, task.metric, task.positive) == (("bad", "good"), "f1", 1)
    assert task.wording("prompt") == ("{text} It was <mask>.", ("terrible", "great"))
    assert load(task).fingerprint == splits.fingerprint and len(splits.test) == 6
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_without_a_test_set_a_fifth_is_set_aside_once(tmp_path: Path) -> None:
    path, splits = save(draft(), tmp_path)
    texts = {split: set(getattr(splits, split)["text_a"]) for split in ("train", "validation", "test")}
    assert len(texts["test"]) == 4 == len(set_aside(20)) and not texts["test"] & (texts["train"] | texts["validation"])
    assert "4 of its 20 rows were set aside" in registry.task(path).source
    assert set(save(draft(name="again"), tmp_path)[1].test["text_a"]) == texts["test"]


def test_names_of_classes_as_they_stand_and_rows_left_out(tmp_path: Path) -> None:
    rows = [{**row, "label": ("no", "null", "-")[row["label"] if n else 2]} for n, row in enumerate(ROWS)]
    _, splits = save(draft(files={"train": upload(rows)}, labels=("no", "null"), drop=("-",)), tmp_path)
    assert sum(len(getattr(splits, split)) for split in ("train", "validation", "test")) == 19
    assert set(splits.train["label"]) == {0, 1}


@pytest.mark.cases(6, 4)
@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"name": "../out"}, BadInput, "cannot name a task"),
        ({"name": ".new-x"}, BadInput, "cannot name a task"),
        ({"text": ("nothing",)}, BadData, "has no column 'nothing'"),
        ({"labels": ("bad",)}, BadInput, "two or more different names"),
        ({"labels": ("x", "y", "z"), "label_words": ("a", "b")}, BadInput, "label words for 3 labels"),
        ({"template": {"masked": "{text}"}}, BadInput, "exactly one <mask>"),
        ({"text": ("label",), "label": "label"}, BadInput, "must be different columns"),
        ({"options": ("id",)}, BadInput, "leave label_words and the masked template out"),
        ({"options": ("id",), "template": "", "label_words": ()}, BadData, "no list in the column 'id'"),
        ({"label": "id"}, BadData, "the label '"),
        ({"files": {"train": upload(ROWS[:1], "a.csv")}}, BadData, "a.csv has one row"),
        ({"files": {"train": upload(ROWS, "a.csv"), "test": Upload("t.csv", b"")}}, BadData, "t.csv is empty"),
    ],
)
def test_what_is_wrong_is_said_and_leaves_nothing(
    changes: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        save(draft(**changes), tmp_path / "tasks")
    assert said in str(caught.value) and ".new-" not in str(caught.value).replace("'.new-x'", "")
    assert not list((tmp_path / "tasks").glob("*")) and not list((tmp_path / "tasks").glob(".*"))


def test_a_task_is_never_overwritten_and_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    path, _ = save(draft(), tmp_path)
    before = path.read_text()
    for root, said in ((tmp_path, "never overwritten"), (path, "cannot be written")):
        with pytest.raises(BadInput, match=said):
            save(draft(labels=("worse", "better")), root)
    assert path.read_text() == before
