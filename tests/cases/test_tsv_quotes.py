"""Tests of double quotes that quote cells, or are plain characters like in GLUE's files: no row is lost or mixed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

from skillviz.errors import BadData
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from skillviz.tasks.uploaded import Upload, read, rows_of
from tests.tasks.make import write_task

GLUE = [
    ('"the film is great , he said', 1), ('i hated it "', 0), ("a fine word", 1), ("plain bad", 0),
    ('"another opener', 1), ('ok and closes" here', 0),
] * 5  # fmt: skip
PAIRS = [('"the film is great', 1), ('i hated it "', 0), ("a fine word", 1), ("plain bad", 0)] * 5
"""Read with CSV quoting, the quotes of two rows would also close: fewer rows, and none of a wrong length."""
QUOTED = [
    ("a\ttab, and\nlines", "1"),
    ('he said "x"', "0"),
    ("plain; text", "1"),
    ("Great movie, really.\nI liked", "0"),
]
SIGNS = {"tsv": "\t", "csv": ",", "txt": "\t"}


def written(rows: list[tuple[str, int]], sign: str, order: int = 1) -> str:
    """Return the rows without quoting; the label is first if the order is -1."""
    lines = [("text", "label"), *((text, str(label)) for text, label in rows)]
    return "".join(sign.join(line[::order]) + "\n" for line in lines)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("sign", ["\t", ";", ","])
@pytest.mark.parametrize("rows", [GLUE, [*GLUE, ('"odd', 1)], PAIRS], ids=["glue", "odd", "pairs"])
def test_quotes_that_are_letters_stay_letters(rows: list[tuple[str, int]], sign: str, order: int) -> None:
    rows = [(text.replace(" ,", ""), label) for text, label in rows] if sign == "," else rows
    got = read(Upload("a.tsv" if sign == "\t" else "a.csv", written(rows, sign, order).encode()))
    assert [(text, int(label)) for text, label in zip(got.frame["text"], got.frame["label"], strict=True)] == rows
    assert got.notes == ("double quotes are letters of the texts, as they do not quote cells consistently",)


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("ending", SIGNS)
def test_quotes_that_quote_are_taken_off(ending: str, quoting: int) -> None:
    frame = pd.DataFrame(QUOTED, columns=["text", "label"])
    got = read(Upload(f"a.{ending}", frame.to_csv(sep=SIGNS[ending], index=False, quoting=quoting).encode()))
    pd.testing.assert_frame_equal(got.frame, frame)
    assert got.notes == ()


def test_a_cell_of_several_lines_may_look_like_rows() -> None:
    """Each line has two cells with either reading; a text in a numeric column decides."""
    rows = rows_of(Upload("a.csv", b'text,label\n"Great movie, really.\nLoved it",1\nbad,0\n'))
    assert list(rows["text"]) == ["Great movie, really.\nLoved it", "bad"] and list(rows["label"]) == ["1", "0"]


def test_excel_quotes_a_cell_with_a_comma_in_a_file_of_tabs() -> None:
    assert list(rows_of(Upload("a.txt", b'text\tlabel\n"good, fine"\t1\nbad\t0\n'))["text"]) == ["good, fine", "bad"]


def test_a_quote_within_a_text_beside_quoted_cells() -> None:
    rows = rows_of(Upload("a.csv", b'text,label\na 5" screen,1\n"good, cheap",0\n'))
    assert list(rows["text"]) == ['a 5" screen', "good, cheap"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", 'text\tlabel\n"the film\t1\nhated it "\t0\n', "join lines .* both readings are possible"),
        ("a.csv", 'text,label\nfine,0\n"odd, one,1\nbad,0\n', "do not close .* row 2, and 3 cells in row 2"),
        ("a.csv", 'text,label\n"he said \\"x\\" ok",1\nbad,0\n', "backslash before them, in row 1"),
        ("a.tsv", 'text\tlabel\n"c\t0\n"a"\tb\t1\n', "do not close .* in row 1, and 3 cells in row 2"),
        ("a.tsv", '"text"\t"label"\n"a "b" c"\t"1"\n"d"\t"0"\n', "do not close .* in row 1. Write"),
        ("a.csv", 'text,label\n"a, b",1\n"c, d",0,1\n', "3 cells in row 2 and 2 columns, separated by commas"),
    ],
)
def test_quotes_that_cannot_be_read_are_refused(name: str, content: str, said: str) -> None:
    with pytest.raises(BadData, match=f"{name} has .*{said}.*(JSONL|in double quotes)"):
        rows_of(Upload(name, content.encode()))


def test_a_task_file_reads_as_an_upload_does_and_says_so(tmp_path: Path) -> None:
    path = write_task(tmp_path, suffix=".csv", data={"train": "train.tsv", "test": "test.tsv"})
    for split in ("train", "test"):
        (tmp_path / f"{split}.tsv").write_text(written(GLUE, "\t"))
    splits = load(task(path))
    assert list(splits.test["text_a"]) == [text for text, _ in GLUE]
    assert list(splits.test["label"]) == [label for _, label in GLUE]
    assert [note for note in splits.notes if "quotes are letters" in note] and len(splits.test) == 30


def test_quoting_of_many_rows_is_read_as_pandas_reads_it() -> None:
    frame = pd.DataFrame({"text": [f'a "{n}", b\t{n}\nc' if n % 3 else f"plain {n}" for n in range(300)]})
    frame["label"] = [str(n % 2) for n in range(300)]
    for sign, ending in (("\t", "tsv"), (",", "csv"), (";", "csv")):
        content = frame.to_csv(sep=sign, index=False)
        expected = pd.read_csv(io.StringIO(content), sep=sign, dtype=str)
        pd.testing.assert_frame_equal(rows_of(Upload(f"a.{ending}", content.encode())), expected)
