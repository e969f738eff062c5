"""Tests of CSV from programs and people: each file is read as meant, or refused with a clear message."""

from __future__ import annotations

import codecs
from pathlib import Path

import pandas as pd
import pytest

from skillviz.errors import BadData
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from skillviz.tasks.uploaded import Upload, read, rows_of
from tests.tasks.make import write_task

PLAIN = "text,label\na good one,1\na bad one,0\n"
READ = {
    "plain": PLAIN.encode(),
    "Excel's separator line": b"sep=;\r\ntext;label\r\na good one;1\r\na bad one;0\r\n",
    "a separator line of a tab": PLAIN.replace(",", "\t").join(["sep=\t\n", ""]).encode(),
    "another separator, which the line names": PLAIN.replace(",", "|").join(['"sep=|"\n', ""]).encode(),
    "byte order mark": codecs.BOM_UTF8 + PLAIN.encode(),
    "mark and separator line": codecs.BOM_UTF8 + b"sep=,\n" + PLAIN.encode(),
    "UTF-16, as Excel's Unicode text": PLAIN.replace(",", "\t").encode("utf-16"),
    "old Mac": PLAIN.replace("\n", "\r").encode(),
    "Windows": PLAIN.replace("\n", "\r\n").encode(),
    "blank lines": PLAIN.replace("\n", "\n\n   \n").join(["\n\n", "\n"]).encode(),
    "spaces after separators": PLAIN.replace(",", ", ").encode(),
    "no line end at last": PLAIN.rstrip().encode(),
}


@pytest.mark.parametrize("kind", READ)
def test_the_rows_are_read(kind: str) -> None:
    rows = rows_of(Upload("a.csv", READ[kind]))
    assert list(rows) == ["text", "label"]
    assert rows.to_numpy().tolist() == [["a good one", "1"], ["a bad one", "0"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"text,label\na,1\nb, c,0\n", "3 cells in row 2 and 2 columns, separated by commas"),
        (b"text,label\na,1,\nb,0,\n", "3 cells in row 1 and 2 columns"),
        (b"# made by hand\ntext,label\na,1\n", "2 cells in row 1 and 1 column"),
        (b"text,label\na,1\n# b,0,\n", "3 cells in row 2"),
        (b"text,label,text\na,1,b\n", "must name the columns, each once, and 'text' is there twice"),
        (b"text,label\n", "has no rows"),
        (b"\n\n", "must name the columns"),
        ("text,label\ncaf\xe9,1\n".encode("latin-1"), r"not UTF-8 text \(byte 0xe9\)"),
        ("text,label\na,1\n".encode("utf-16-le"), "not UTF-8 text"),
        (b"PK\x03\x04 and more", "a workbook or a zip file; unpack it, or save it as CSV"),
        (b"a good one,1\na bad one,0\nfine,1\nso so,0\n", "'1' in its first line and in rows below"),
        (b"positive\ta good one\nnegative\tbad\npositive\tfine\nnegative\tno\n", "'positive' in its first line"),
    ],
)
def test_a_file_that_would_give_other_rows_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(BadData, match=f"a.csv.*{said}"):
        rows_of(Upload("a.csv", content))


def test_columns_that_pandas_numbered_are_no_row() -> None:
    frame = pd.DataFrame([[f"text {n}", n % 2] for n in range(8)])
    assert list(rows_of(Upload("a.csv", frame.to_csv(index=False).encode()))) == ["0", "1"]
    assert list(rows_of(Upload("a.csv", frame.to_csv().encode()))) == ["Unnamed: 0", "0", "1"]


def test_a_separator_at_the_end_of_every_line_is_a_column_without_a_name() -> None:
    rows = rows_of(Upload("a.csv", b"text,label,\na,1,\nb,0,\n"))
    assert list(rows) == ["text", "label", "Unnamed: 2"] and set(rows["Unnamed: 2"]) == {""}


def of_task(folder: Path, content: str, **changes: object) -> list[int]:
    """Return the labels of a task whose test file has this content."""
    path = write_task(folder, suffix=".csv", **changes)
    (folder / "test.csv").write_text(content)
    return load(task(path)).test["label"].tolist()


@pytest.mark.parametrize("labels", ["1,0", "1.0,0.0", " 1 ,0 ", "positive,negative", "positive , negative"])
def test_labels_are_found_beside_spaces_and_as_pandas_writes_them(tmp_path: Path, labels: str) -> None:
    first, second = labels.split(",")
    assert of_task(tmp_path, f"text,label\na,{first}\nb,{second}\n") == [1, 0]


def test_classes_may_be_written_as_decimals_too(tmp_path: Path) -> None:
    classes = {"1.0": "positive", "0": "negative"}
    assert of_task(tmp_path, "text,label\na,1\nb,0.0\n", classes=classes) == [1, 0]


@pytest.mark.parametrize("label", ["1,5", "2", "yes", "", " "])
def test_a_label_that_is_none_is_refused_with_its_row(tmp_path: Path, label: str) -> None:
    what = f"the label '{label}'" if label.strip() else "no label"
    with pytest.raises(BadData, match=f"test.csv has {what} in row 2"):
        of_task(tmp_path, f'text,label\na,1\nb,"{label}"\n')


@pytest.mark.parametrize("text", ["", '""', '"  "'])
def test_a_blank_text_is_refused_as_a_missing_one_of_json_is(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadData, match="test.csv has no text in the column 'text' of row 2; write one, or remove"):
        of_task(tmp_path, f"text,label\na,1\n{text},0\n")


def test_one_text_of_a_pair_may_be_blank(tmp_path: Path) -> None:
    path = write_task(tmp_path, suffix=".csv", text=["text", "more"], template=None, label_words=None)
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("text,more,label\na,,1\n,b,0\nc,d,1\n")
    test = load(task(path)).test
    assert list(test["text_a"]) == ["a", "", "c"] and list(test["text_b"]) == ["", "b", "d"]


def test_numbers_as_texts_stay_as_they_are(tmp_path: Path) -> None:
    path = write_task(tmp_path, suffix=".csv")
    (tmp_path / "test.csv").write_text("text,label\n007,1\n1e5,0\n1.50,1\n12345678901234567890,0\n")
    assert list(load(task(path)).test["text_a"]) == ["007", "1e5", "1.50", "12345678901234567890"]


def test_only_what_the_task_names_is_read(tmp_path: Path) -> None:
    """A column that no task can use causes no error until a task names it."""
    files = {"train": "a.parquet", "test": "a.parquet"}
    frame = pd.DataFrame({"text": ["a", "b"], "label": [0, 1], "raw": [b"\xff", b"\xfe"], "vector": [[0.5, 1.0]] * 2})
    frame.to_parquet(tmp_path / "a.parquet")
    assert list(load(task(write_task(tmp_path, data=files))).test["text_a"]) == ["a", "b"]
    with pytest.raises(BadData, match="column 'raw' of .*a.parquet holds bytes; save it as text"):
        load(task(write_task(tmp_path, data=files, text="raw")))


def test_how_cells_are_separated_is_said() -> None:
    assert read(Upload("a.csv", READ["Excel's separator line"])).separated_by == "semicolons"
    assert read(Upload("a.csv", READ["another separator, which the line names"])).separated_by == "'|'"
