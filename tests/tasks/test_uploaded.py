"""Tests of uploaded files: they become ordinary tasks that are read, guessed, checked and written once."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
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
    read,
    room_for,
    rows_of,
    save,
    saved,
    set_aside,
)

ROWS = [{"id": f"{n:03}", "review": f"a rather long text number {n}, so", "label": n % 2} for n in range(20)]


def csv(rows: list[dict[str, Any]] = ROWS) -> bytes:
    return pd.DataFrame(rows).to_csv(index=False).encode()


def jsonl(rows: list[dict[str, Any]] = ROWS) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def parquet(rows: list[dict[str, Any]] = ROWS) -> bytes:
    target = io.BytesIO()
    pd.DataFrame(rows).to_parquet(target)
    return target.getvalue()


MAKERS = {"a.csv": csv, "a.jsonl": jsonl, "A.PARQUET": parquet}


def draft(name: str = "mine", files: dict[str, Upload] | None = None, **changes: Any) -> Draft:
    values = {
        "text": ("review",), "label": "label", "labels": ("bad", "good"), "template": "{text} It was <mask>.",
        "label_words": ("terrible", "great"),
    }  # fmt: skip
    return Draft(name, files or {"train": Upload("a.csv", csv())}, {**values, **changes})


@pytest.mark.parametrize(("name", "make"), MAKERS.items())
def test_rows_are_read_in_every_format(name: str, make: Callable[[], bytes]) -> None:
    rows = rows_of(Upload(name, make()))
    assert len(rows) == 20 and list(rows) == ["id", "review", "label"]
    assert guessed(rows) == Columns(("review",), "label") and classes_of(rows, "label") == ["0", "1"]
    assert rows["id"][3] == "003", "a cell stays as it was written"


@pytest.mark.cases(0, 3)
@pytest.mark.parametrize("suffix", ["csv", "tsv", "CSV"])
@pytest.mark.parametrize(("sign", "by"), [(",", "commas"), (";", "semicolons"), ("\t", "tabs")])
def test_cells_may_be_separated_by_commas_semicolons_or_tabs(sign: str, by: str, suffix: str) -> None:
    lines = [("review", "label"), ('"good, very; good\tindeed"', "1"), ("bad", "0")]
    upload = Upload(f"a.{suffix}", "\n".join(sign.join(line) for line in lines).encode("utf-8-sig"))
    rows = read(upload)
    assert list(rows.frame) == ["review", "label"] and rows.frame["review"][0] == "good, very; good\tindeed"
    assert rows.separated_by == by and read(Upload("a.jsonl", b'{"a": 1}')).separated_by == ""


def test_lines_may_end_as_on_an_old_mac() -> None:
    upload = Upload("a.csv", b"text;label\rhello;1\rhi;0\r")
    assert read(upload).separated_by == "semicolons" and list(rows_of(upload)["label"]) == ["1", "0"]


def test_one_column_is_separated_by_what_the_ending_stands_for() -> None:
    assert [read(Upload(name, b"text\na\n")).separated_by for name in ("a.csv", "a.tsv")] == ["commas", "tabs"]


def as_parquet(column: pa.Array) -> bytes:
    """Return a file with a text, and this column under the name x."""
    pq.write_table(pa.table({"text": ["hello"] * len(column), "x": column}), file := io.BytesIO())
    return file.getvalue()


@pytest.mark.parametrize(
    ("upload", "said"),
    [
        (Upload("a.csv", b"x;y\n1;2\n1;2;3\n"), "3 cells in row 2 and 2 columns, separated by semicolons"),
        (Upload("a.xlsx", b"x"), "a.xlsx cannot be read; allowed: .jsonl"),
        (Upload("a.csv", b""), "a.csv is empty"),
        (Upload("a.csv", b"x,y\n"), "a.csv has no rows"),
        (Upload("a.csv", b"x,x\n1,2\n"), "a.csv: the first line must name the columns"),
        (Upload("a.jsonl", b'{"a": 1}\n{oops\n'), "a.jsonl cannot be read as JSONL: line 2"),
        (Upload("a.parquet", b"PAR1"), "a.parquet cannot be read as PARQUET"),
        (Upload("a.csv", "text\n\xe9\n".encode("latin-1")), "a.csv"),
    ],
)
def test_what_cannot_be_read_is_said_under_its_own_name(upload: Upload, said: str) -> None:
    with pytest.raises(BadData) as caught:
        rows_of(upload)
    assert said in str(caught.value) and "/tmp" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([b"\xff"]), "holds bytes"),
        (pa.array([2**62], pa.duration("s")), "cannot be written as text"),
        (pa.array([0], pa.timestamp("s", "Mars/Base")), "cannot be written as text"),
        (pa.array([{"a": 1}]), "holds values of the type struct"),
        (pa.array([b"\xff"]).cast(pa.string(), safe=False), "is not UTF-8 text"),
    ],
)
def test_a_column_that_no_task_can_use_is_left_out_and_refused_where_it_is_wanted(
    column: pa.Array, reason: str, tmp_path: Path
) -> None:
    upload = Upload("a.parquet", as_parquet(column))
    rows = read(upload)
    assert list(rows.frame) == ["text"] and reason in rows.left_out["x"]
    with pytest.raises(BadData, match=f"column 'x' of a.parquet {reason}"):
        save(draft(files={"train": upload}, text=("text",), label="x"), tmp_path)


def test_columns_are_guessed_from_what_is_in_them() -> None:
    pair = pd.DataFrame(
        {"gold": ["yes", "no"] * 4, "premise": ["a rather long one"] * 8, "hypothesis": ["another long one"] * 8}
    )
    assert guessed(pair) == Columns(("premise", "hypothesis"), "gold")
    odd = pd.DataFrame({"a": ["some words of a text"] * 3 + ["other words"], "b": ["x", "y", "x", "y"]})
    assert guessed(odd) == Columns(("a",), "b")


WRITTEN = [{"question": f"what is number {n} of these", "answer": f"It is {n}."} for n in range(20)]
LISTED = [{"question": f"which is the animal, {n}", "choices": ["cat", "car", "cup"][: 2 + n % 2], "answer": "cat"}
          for n in range(20)]  # fmt: skip
OPTIONS = [{"question": f"which is the animal, {n}", "option_a": "car", "option_b": "cat", "right": "B"}
           for n in range(20)]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "kind", "columns"),
    [
        (ROWS, CLASSIFICATION, Columns(("review",), "label")),
        (WRITTEN, GENERATION, Columns(("question",), "answer")),
        (LISTED, CHOICE, Columns(("question",), "answer", ("choices",))),
        (OPTIONS, CHOICE, Columns(("question",), "right", ("option_a", "option_b"))),
    ],
)
def test_what_rows_hold_is_guessed(rows: list[dict[str, Any]], kind: str, columns: Columns) -> None:
    frame = rows_of(Upload("a.jsonl", jsonl(rows)))
    assert guessed_kind(frame) == kind and guessed(frame, kind) == columns
    assert is_written_out(frame, columns.options, columns.right) == (rows is LISTED)


def test_a_long_reference_has_room() -> None:
    assert [room_for(pd.DataFrame({"a": ["", "x" * size]}), "a") for size in (0, 64, 65, 1000)] == [32, 32, 48, 512]


def test_an_answer_to_write_is_the_task_that_a_file_gives(tmp_path: Path) -> None:
    values = {
        "text": ("question",), "reference": "answer", "template": {"causal": "{text}"}, "stop": "newline",
        "max_new_tokens": 8, "ignore_case": True, "ignore_punctuation": False,
    }  # fmt: skip
    path, splits = save(Draft("mine", {"train": Upload("a.csv", csv(WRITTEN))}, values), tmp_path)
    (tmp_path / "by-hand").mkdir()
    for file in path.parent.glob("*.parquet"):
        (tmp_path / "by-hand" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "by-hand" / "task.yaml").write_text(
        "name: mine\ndata: {train: train.parquet, test: test.parquet}\ntext: question\nreference: answer\n"
        "template: '{text}'\nstop: newline\nmax_new_tokens: 8\nignore_case: true\n"
    )
    uploaded, written = registry.task(path), registry.task(tmp_path / "by-hand" / "task.yaml")
    apart = {"path", "source"}
    assert uploaded.model_dump(exclude=apart) == written.model_dump(exclude=apart)
    assert load(written).fingerprint == splits.fingerprint and splits.test["reference"].str.startswith("It is").all()


@pytest.mark.parametrize(
    ("rows", "options", "right", "labels"),
    [(LISTED, ("choices",), "answer", ("A", "B", "C")), (OPTIONS, ("option_a", "option_b"), "label", ("A", "B"))],
)
def test_options_name_their_places(
    rows: list[dict[str, Any]], options: tuple[str, ...], right: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    column = "right" if right == "label" else "answer"
    files = {"train": Upload("a.jsonl", jsonl(rows[:1] * 4)), "test": Upload("b.jsonl", jsonl(rows))}
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
    files = {"train": Upload("a.csv", csv()), "test": Upload("t.parquet", parquet(ROWS[:6]))}
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
    again, other = save(draft(name="again"), tmp_path)
    assert set(other.test["text_a"]) == texts["test"]


def test_names_of_classes_as_they_stand_and_rows_left_out(tmp_path: Path) -> None:
    rows = [{**row, "label": ("no", "null", "-")[row["label"] if n else 2]} for n, row in enumerate(ROWS)]
    files = {"train": Upload("a.jsonl", jsonl(rows))}
    _, splits = save(draft(files=files, labels=("no", "null"), drop=("-",)), tmp_path)
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
        ({"files": {"train": Upload("a.csv", csv(ROWS[:1]))}}, BadData, "a.csv has one row"),
        ({"files": {"train": Upload("a.csv", csv()), "test": Upload("t.csv", b"")}}, BadData, "t.csv is empty"),
    ],
)
def test_what_is_wrong_is_said_and_leaves_nothing(
    changes: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        save(draft(**changes), tmp_path / "tasks")
    assert said in str(caught.value) and ".new-" not in str(caught.value).replace("'.new-x'", "")
    assert not list((tmp_path / "tasks").glob("*")) and not list((tmp_path / "tasks").glob(".*"))


def test_a_task_is_never_overwritten(tmp_path: Path) -> None:
    path, _ = save(draft(), tmp_path)
    before = path.read_text()
    with pytest.raises(BadInput, match="never overwritten"):
        save(draft(labels=("worse", "better")), tmp_path)
    assert path.read_text() == before


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("a file")
    with pytest.raises(BadInput, match="cannot be written"):
        save(draft(), tmp_path / "tasks")
