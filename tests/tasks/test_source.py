"""Tests of rows in users' files: each is read as it is meant, from an upload and a task file, or refused by its row;
and of uploads, which become ordinary tasks that are guessed, checked and written once."""

import codecs
import csv
import gzip
import io
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skillviz.errors import BadData, BadInput
from skillviz.tasks import registry
from skillviz.tasks.reading import FORMATS, quiet
from skillviz.tasks.splits import Splits
from skillviz.tasks.task import CHOICE, CLASSIFICATION, GENERATION
from skillviz.tasks.upload_reader import Limits, limited
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
from tests.tasks.make import (
    ROWS,
    TASKS,
    WRITERS,
    as_lines,
    as_parquet,
    by_hand,
    by_hand_in,
    load,
    load_test,
    refused,
    refused_in,
    refuses,
    task,
    write_rows,
    write_task,
)


def encoded(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def as_upload(folder: Path, name: str, content: str | bytes) -> pd.DataFrame:
    return rows_of(Upload(name, encoded(content)))


def as_task_file(folder: Path, name: str, content: str | bytes, **changes: Any) -> pd.DataFrame:
    (folder / name).write_bytes(encoded(content))
    return load(task(write_task(folder, **{"data": dict.fromkeys(("train", "test"), name), **changes}))).test


def as_test_file(folder: Path, name: str, content: str | bytes) -> pd.DataFrame:
    return as_task_file(folder, name, content, data={"train": "train.jsonl", "test": name})


def cells(name: str, content: bytes) -> tuple[dict[str, list[str]], str]:
    found = read(Upload(name, content))
    return found.frame.to_dict("list"), found.separated_by


def examples_of(folder: Path, rows: list[dict[str, Any]], suffix: str = ".jsonl", **changes: Any) -> pd.DataFrame:
    return load(task(write_task(folder, rows, suffix, **changes))).test


MANY = [{"id": f"{n:03}", "text": f"a rather long review {n}", "label": n % 2} for n in range(20)]


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_taken_as_an_upload_and_in_a_task_file(ending: str, tmp_path: Path) -> None:
    content = WRITERS[ending.removesuffix(".gz")](MANY)
    content = gzip.compress(content) if ending.endswith(".gz") else content
    rows = as_upload(tmp_path, f"Reviews.v2{ending.upper()}", content)
    assert (rows.to_dict("records"), guessed(rows), classes_of(rows, "label")) == (
        [{**row, "label": str(row["label"])} for row in MANY], Columns(("text",), "label"), ["0", "1"],
    )  # fmt: skip
    expected = {"example_id": [f"test-{n}" for n in range(20)], "text_a": list(rows["text"]), "label": [0, 1] * 10}
    test = as_task_file(tmp_path, f"rows{ending}", content)
    assert test.to_dict("list") == expected and test["label"].dtype == np.int64


PLAIN = "text,label\na good one,1\na bad one,0\n"
CSV = {
    "plain": PLAIN.encode(),
    "Excel's separator line": b"sep=;\r\ntext;label\r\na good one;1\r\na bad one;0\r\n",
    "a separator line of a tab": PLAIN.replace(",", "\t").join(["sep=\t\n", ""]).encode(),
    "another separator, which the line names": PLAIN.replace(",", "|").join(['"sep=|"\n', ""]).encode(),
    "byte order mark": codecs.BOM_UTF8 + PLAIN.encode(),
    "mark and separator line": codecs.BOM_UTF8 + b"sep=,\n" + PLAIN.encode(),
    "UTF-16, as Excel's Unicode text": PLAIN.replace(",", "\t").encode("utf-16"),
    "old Mac": PLAIN.replace("\n", "\r").replace(",", ";").encode(),
    "Windows": PLAIN.replace("\n", "\r\n").encode(),
    "blank lines": PLAIN.replace("\n", "\n\n   \n").join(["\n\n", "\n"]).encode(),
    "spaces after separators": PLAIN.replace(",", ", ").encode(),
    "no line end at last": PLAIN.rstrip().encode(),
}
SEPARATED = {"Excel's separator line": "semicolons", "a separator line of a tab": "tabs", "old Mac": "semicolons",
             "UTF-16, as Excel's Unicode text": "tabs", "another separator, which the line names": "'|'"}  # fmt: skip


ROWS_4 = [{"text": f"a good one {n}", "label": n % 2} for n in range(4)]
FRAME = pd.DataFrame(ROWS_4)
SHAPES = {
    **{orient: FRAME.to_json(orient=orient) for orient in ("columns", "index", "split", "records", "table")},
    "lines": FRAME.to_json(orient="records", lines=True),
    "filtered": FRAME.set_index(pd.Index([3, 8, 9, 20])).to_json(),
    "lists": json.dumps(FRAME.to_dict("list")),
    "data": json.dumps({"version": "1.0", "data": ROWS_4}),
    "only key": json.dumps({"reviews": ROWS_4}),
    "indented": json.dumps(ROWS_4, indent=2),
    "indented data": json.dumps({"data": ROWS_4}, indent=2),
    "byte order mark": "\ufeff" + json.dumps(ROWS_4),
}


def test_an_index_that_pandas_wrote_is_no_part_of_the_data(tmp_path: Path) -> None:
    assert list(as_upload(tmp_path, "a.csv", FRAME.set_axis([0, 1], axis=1).to_csv())) == ["Unnamed: 0", "0", "1"]
    path = write_task(tmp_path, suffix=".csv")
    plain = load(task(path)).fingerprint
    for file in tmp_path.glob("*.csv"):
        pd.read_csv(file).to_csv(file)
    assert (tmp_path / "train.csv").read_text().startswith(",text,") and load(task(path)).fingerprint == plain


AS_OBJECTS = "one object per row: with pandas, df.to_json"
QUOTING = "(JSONL|in double quotes)"
UNREADABLE: list[tuple[str, str | bytes, str]] = [
    ("a.csv", "text,label\na,1\nb, c,0\n", "3 cells in row 2 and 2 columns, separated by commas; put texts"),
    ("a.csv", "x;y\n1;2\n1;2;3\n", "3 cells in row 2 and 2 columns, separated by semicolons"),
    ("a.csv", "text,label\na,1,\nb,0,\n", "3 cells in row 1 and 2 columns"),
    ("a.csv", "text,label\nb\n", "has 1 cell in row 1 and 2 columns"),
    ("a.csv", "# made by hand\ntext,label\na,1\n", "2 cells in row 1 and 1 column"),
    ("a.csv", "text,label\na,1\n# b,0,\n", "3 cells in row 2"),
    ("a.csv", "text,label,text\na,1,b\n", "must name the columns, each once, and 'text' is there twice"),
    ("a.csv", "text,label\n", "has no rows"),
    ("a.csv", "", "is empty"),
    ("a.csv", "\n\n", "must name the columns"),
    ("a.csv", "text,label\ncaf\xe9,1\n".encode("latin-1"), r"not UTF-8 text \(byte 0xe9\).*; save it as UTF-8"),
    ("a.csv", "text,label\na,1\n".encode("utf-16-le"), "not UTF-8 text"),
    ("a.csv", b"PK\x03\x04 and more", "a workbook or a zip file; unpack it, or save it as CSV"),
    ("a.tsv", 'text\tlabel\n"the film\t1\nhated it "\t0\n', f"join lines .* both readings are possible.*{QUOTING}"),
    ("a.csv", 'text,label\nfine,0\n"odd, one,1\nbad,0\n', f"do not close .* row 2, and 3 cells in row 2.*{QUOTING}"),
    ("a.csv", 'text,label\n"he said \\"x\\" ok",1\nbad,0\n', f"backslash before them, in row 1.*{QUOTING}"),
    ("a.tsv", 'text\tlabel\n"c\t0\n"a"\tb\t1\n', f"do not close .* in row 1, and 3 cells in row 2.*{QUOTING}"),
    ("a.tsv", '"text"\t"label"\n"a "b" c"\t"1"\n"d"\t"0"\n', f"do not close .* in row 1. Write.*{QUOTING}"),
    ("a.csv", 'text,label\n"a, b",1\n"c, d",0,1\n', f"3 cells in row 2 and 2 columns, separated by commas.*{QUOTING}"),
    ("a.json", FRAME.to_json(orient="values"), f"element 1 of its list is not an object.*{AS_OBJECTS}"),
    ("a.json", '{"text": {"x": "a", "y": "b"}, "label": {"x": 1, "y": 0}}', f"neither are clearly rows.*{AS_OBJECTS}"),
    ("a.json", '{"0": {"0": "a", "1": 1}, "1": {"0": "b", "1": 0}}', f"neither are clearly rows.*{AS_OBJECTS}"),
    ("a.json", '{"text": {"0": "a", "1": "b"}, "label": {"0": 1}}', f"neither are clearly rows.*{AS_OBJECTS}"),
    ("a.json", '{"text": ["a", "b"], "label": [1]}', rf"several lengths \(text 2, label 1\).*{AS_OBJECTS}"),
    ("a.json", '{"columns": ["text", "label"], "data": [["a", 1], ["b"]]}',
     f"1 values in row 2 and 2 columns.*{AS_OBJECTS}"),
    ("a.json", "5", f"holds a single value.*{AS_OBJECTS}"),
    ("a.json", '{"text": "a", "label": 1},\n{"text": "b", "label": 0},\n', f"line 1 is not JSON.*{AS_OBJECTS}"),
    ("a.json", '{"text": "a", "label": 1}\n["b", 0]\n', f"line 2 is not an object.*{AS_OBJECTS}"),
    ("a.json", '{"text": "a", "label": 1}\n{"text": "b", "label": 0, "text": "c"}\n',
     f"line 2 .*the key 'text' twice.*{AS_OBJECTS}"),
    ("a.json", json.dumps({"one": ROWS_4, "two": ROWS_4}), "several lists of rows: one, two; save each in a file of"),
    ("a.json", "{}", "has no rows"),
    ("a.json", "[]", "has no rows"),
    ("a.json", "\n", "has no rows"),
    ("a.jsonl", "", "is empty"),
    ("a.jsonl", "\n\n", "has no rows"),
    ("a.jsonl", '{"text": "a", "label": 0}\n{oops\n', r"cannot be read as JSONL: line 2 is not JSON \("),
    ("a.jsonl", '{"text": "a", "label": 0}\n"b"\n', "cannot be read as JSONL: line 2 is not an object"),
    ("a.jsonl", '{"text": "café", "label": 0}\n'.encode("latin-1"), "is not UTF-8 text.*; save it as UTF-8"),
    ("a.parquet", b"PAR1 and then nothing", "cannot be read as PARQUET"),
    ("a.parquet", as_parquet(pa.Table.from_pandas(FRAME.head(0))), "has no rows"),
]  # fmt: skip
OF_UPLOADS: list[tuple[str, str | bytes, str]] = [
    ("a.csv", "a good one,1\na bad one,0\nfine,1\nso so,0\n", "'1' in its first line and in rows below"),
    ("a.csv", "positive\ta good one\nnegative\tbad\npositive\tfine\nnegative\tno\n", "'positive' in its first line"),
    ("a.jsonl", '{"text": "\\ud800"}\n', "holds halves of characters"),
]
OF_TASKS: list[tuple[str, str | bytes, str]] = [
    ("a.jsonl", '{"text": ["a"], "label": 0}\n' * 2, "has no text in the column 'text' of row"),
    ("a.jsonl", '{"review": "a", "label": 0}\n',
     "has no column 'text', which task 'made' names; its columns: review, label"),
    ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', "column 'text' .*holds halves of characters"),
    ("a.jsonl", '{"text": "a", "class": 0}\n', "has no column 'label'"),
    ("a.csv", "text|label\na|0\n", "has no column 'text', which task 'made' names; its columns: text\\|label"),
    *(("a.csv", f'text,label\na,1\nb,"{label}"\n', f"has the label '{label}' in row 2")
      for label in ("1,5", "2", "yes")),
    *(("a.csv", f'text,label\na,1\nb,"{label}"\n', "has no label in row 2") for label in ("", " ")),
    *(("a.csv", f"text,label\na,1\n{text},0\n", "has no text in the column 'text' of row 2; write one, or remove")
      for text in ("", '""', '"  "')),
    ("a.jsonl", as_lines([*ROWS_4, {"text": "x", "label": 2}]),
     r"has the label '2' in row 5 \(column 'label'\); .*'positive', or the indices 0 to 1"),
    ("a.jsonl", as_lines([*ROWS_4, {"text": "x", "label": None}]), "has no label in row 5"),
]  # fmt: skip
OF_TESTS = [
    ("a.jsonl", f'{{"text": "a", "label": 1}}\n{{"text": {text}, "label": 1}}\n{{"text": {text}, "label": 1}}\n',
     "has no text in .* 'text' of row 2 and 1 other row; write one") for text in ("null", "NaN", '""', '"  "')
]  # fmt: skip
REFUSED = [
    *((as_upload, *case) for case in (*UNREADABLE, *OF_UPLOADS)),
    *((as_task_file, *case) for case in (*UNREADABLE, *OF_TASKS)),
    *((as_test_file, *case) for case in OF_TESTS),
]


@pytest.mark.parametrize(
    ("way", "name", "content", "said"), REFUSED, ids=[f"{way.__name__}: {said[:50]}" for way, _, _, said in REFUSED]
)
def test_a_file_that_would_give_other_rows_is_refused_under_its_own_name(
    way: Callable[..., Any], name: str, content: str | bytes, said: str, tmp_path: Path
) -> None:
    no_path = "(?!.*/tmp)" if way is as_upload else ""
    refuses(BadData, rf"\A{no_path}(?=.*{re.escape(name)}).*{said}.*\Z", way, tmp_path, name, content)


TRUTH = ["false", "true"]
ASKED = [
    *((suffix, values, {}, [0, 1]) for suffix in (".jsonl", ".csv", ".parquet")
      for values in (("negative", "positive"), ("0", "1"), (0, 1), (0.0, 1.0), (False, True))),
    *((".csv", values, {}, [1, 0])
      for values in (("1", "0"), ("1.0", "0.0"), (" 1 ", "0"), ("positive", "negative"), ("positive ", " negative"),
                     ("Positive", "NEGATIVE"), (" positive", "negative "))),
    (".csv", ("1", "0.0"), {"classes": {"1.0": "positive", "0": "negative"}}, [1, 0]),
    *((".jsonl", names, {"labels": list(names)}, [0, 1])
      for names in (("2020-01-01", "2021-01-01"), ("007", "008"), ("1e5", "NA"), ("null", "None"))),
    *((".jsonl", values, {"classes": classes}, [0, 1])
      for values in ((False, True), ("FALSE", "TRUE"), ("false", "true"), ("False ", " True"))
      for classes in ({True: "positive", False: "negative"}, {"True": "positive", "False": "negative"})),
    *((".jsonl", values, {"labels": names}, [[name.lower() for name in names].index(one) for one in TRUTH])
      for names in (["True", "False"], ["true", "false"], ["FALSE", "TRUE"])
      for values in ((False, True), ("false", "true"), ("False", "True"), (0, 1), ("0.0", "1.0"))),
    *((".jsonl", (1, 2.0), {"labels": labels}, [0, 1]) for labels in (["1.0", "2.0"], ["1", "2"])),
    (".jsonl", ("3", "1", "2"), {"labels": ["1", "2", "3"], "label_words": None}, [2, 0, 1]),
    (".jsonl", (True, 0, 1), {"drop": [True]}, [0, 1]),
    (".jsonl", (0, 1, 2), {"labels": ["yes", "no"], "classes": {"0": "yes", "2": "no"}, "drop": ["1"]}, [0, 1]),
]  # fmt: skip


test_labels_are_names_or_indices_however_they_are_spelled = by_hand_in(
    *((f"{values} in {suffix} with {changes}", expected * (12 // len(values)),
       lambda folder, suffix=suffix, values=values, changes=changes: examples_of(
           folder, [{"text": f"a {n}", "label": values[n % len(values)]} for n in range(12)], suffix, **changes
       )["label"].tolist())
      for suffix, values, changes, expected in ASKED),
)  # fmt: skip
test_files_and_labels_of_another_kind_are_refused = refused_in(
    BadData,
    *(
        (rf"the label '0' in row 1 .* allows '{labels[0]}', '{labels[1]}'\.$",
         partial(as_task_file, labels=labels), "a.jsonl", as_lines(ROWS_4))
        for labels in (["1.0", "2.0"], ["1", "2"])
    ),
    *(
        (f"{name} cannot be read; allowed: .jsonl, .json, .csv, .tsv, .parquet", as_upload, name, b"x")
        for name in ("a.xlsx", "a.gz", "a.parquet.gz", "csv", "a.csv.zip")
    ),
)  # fmt: skip


AS_WRITTEN = ["2020-01-01", "2020-01-01T10:00:00Z", "1e5", "007", "NaN", "NA", "null", "None", "True", "1.50",
              'a "b", c', "12345678901234567890"]  # fmt: skip


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_texts_stay_as_they_are_written(tmp_path: Path, suffix: str) -> None:
    rows = [{"text": text, "label": n % 2} for n, text in enumerate(AS_WRITTEN)]
    assert examples_of(tmp_path, rows, suffix)["text_a"].tolist() == AS_WRITTEN
    mixed = [{"text": text, "label": label} for text, label in ((5, 1), ("5", "0"), (2.5, 1.0), (10**30, 0))]
    assert examples_of(tmp_path, mixed)[["text_a", "label"]].to_dict("list") == {
        "text_a": ["5", "5", "2.5", "1" + "0" * 30], "label": [1, 0] * 2,
    }  # fmt: skip


test_one_text_of_a_pair_may_be_blank_or_missing = by_hand_in(
    *((f"{content}", [["a", ""], ["", "b"], ["c", "d"]], lambda folder, name=name, content=content: as_task_file(
        folder, name, content, text=["text", "more"], template=None, label_words=None,
    )[["text_a", "text_b"]].to_numpy().tolist())
      for name, content in (
        ("a.csv", "text,more,label\na,,1\n,b,0\nc,d,1\n"),
        ("a.jsonl", '{"text": "a", "more": null, "label": 1}\n{"text": "", "more": "b", "label": 0}\n'
         '{"text": "c", "more": "d", "label": 1}\n'),
        ("b.jsonl", '{"text": "a", "more": "", "label": 1}\n{"text": null, "more": "b", "label": 0}\n'
         '{"text": "c", "more": "d", "label": 1}\n'))),
)  # fmt: skip


def named_classes(folder: Path, names: list[str], labels: list[int], **changes: Any) -> Splits:
    """Return a task's data in a Parquet file that names its classes, as `datasets` writes it."""
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    rows = datasets.Dataset.from_dict({"text": [f"t{i}" for i in range(len(labels))], "label": labels}, features)
    rows.to_parquet(folder / "rows.parquet")
    return load(task(write_task(folder, data=dict.fromkeys(("train", "test"), "rows.parquet"), **changes)))


@pytest.mark.parametrize(
    ("names", "changes", "wanted", "said"),
    [
        (["Positive", "Negative"], {}, [1, 0], None),
        (["positive", "negative"], {}, [1, 0], None),
        (["pos", "neg"], {}, [1, 0], "'pos' as 'positive'"),
        (["good", "bad"], {}, [0, 1], "good, bad"),
        (["0", "1"], {}, [0, 1], "0, 1"),
        (["good", "bad"], {"classes": {"Good ": "positive", "Bad": "negative"}}, [1, 0], None),
        (["good", "bad"], {"classes": {"0": "positive", "1": "negative"}}, [1, 0], None),
    ],
)
def test_class_names_in_a_parquet_file_count(
    tmp_path: Path, names: list[str], changes: dict[str, Any], wanted: list[int], said: str | None
) -> None:
    splits = named_classes(tmp_path, names, [0, 1] * 2, **changes)
    assert splits.test["label"].tolist() == wanted * 2
    notes = "".join(note for note in splits.notes if "name their classes" in note)
    assert bool(notes) is (said is not None) and (said or "") in notes


def test_a_class_that_the_task_does_not_know_is_refused_by_its_name(tmp_path: Path) -> None:
    names = ["negative", "neutral", "positive"]
    refuses(BadData, "the label 'neutral' in row 2", named_classes, tmp_path, names, [0, 1, 0, 1])
    assert named_classes(tmp_path, names, [0, 1, 2, 2], drop=["Neutral"]).test["label"].tolist() == [0, 1, 1]


def test_dropped_labels_are_left_out_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    rows = [{"text": str(i), "label": ("no", "yes", "-1")[i % 3]} for i in range(30)]
    splits = load(task(write_task(tmp_path, rows, labels=["no", "yes"], drop=[-1])))
    kept = splits.test[["example_id", "text_a"]][:4].to_numpy().tolist()
    assert kept == [[f"test-{n}", f"{n}"] for n in (0, 1, 3, 4)]
    assert "test: 10 rows with the label '-1' left out." in splits.notes


def x(column: pa.Array) -> bytes:
    return as_parquet(pa.table({"text": ["hello"] * 2, "label": [0, 1], "x": pa.concat_arrays([column] * 2)}))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.parquet", x(pa.array([b"\xff"])), "holds bytes"),
        ("a.parquet", x(pa.array([2**62], pa.duration("s"))), "cannot be written as text"),
        ("a.parquet", x(pa.array([0], pa.timestamp("s", "Mars/Base"))), "cannot be written as text"),
        ("a.parquet", x(pa.array([{"a": 1}])), "holds values of the type struct"),
        ("a.parquet", x(pa.array([b"\xff"]).cast(pa.string(), safe=False)), "is not UTF-8 text"),
        ("a.jsonl", as_lines([{**row, "x": {"id": 1}} for row in ROWS_4]), "holds objects"),
        ("a.jsonl", as_lines([{**row, "x": [[1, 2]]} for row in ROWS_4]), "holds lists of lists or objects"),
    ],
    ids=["bytes", "long durations", "an odd time zone", "structs", "not UTF-8", "objects", "lists of lists"],
)
def test_a_column_that_no_task_can_use_is_left_out_and_refused_where_it_is_wanted(
    name: str, content: bytes, reason: str, tmp_path: Path
) -> None:
    upload = Upload(name, content)
    rows = read(upload)
    assert list(rows.frame) == ["text", "label"] and rows.left_out.keys() == {"x"} and reason in rows.left_out["x"]
    assert list(as_task_file(tmp_path, name, content)["label"]) == [0, 1] * (len(rows.frame) // 2)
    refuses(BadData, f"column 'x' of .*{name} .*save it as text", as_task_file, tmp_path, name, content, text="x")
    refuses(BadData, f"column 'x' of {name} {reason}", save, plain_draft(upload, label="x"), tmp_path)


def plain_draft(rows: Upload, name: str = "mine", **changes: Any) -> Draft:
    return draft(name, {"train": rows}, **{"text": ("text",), "template": {}, "label_words": (), **changes})


def test_an_embedding_is_not_read_until_a_task_names_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": [f"a review {n}" for n in range(4_000)], "label": [0, 1] * 2_000})
    frame["embedding"] = list(np.zeros((4_000, 384), np.float32))
    upload = Upload("a.parquet", as_parquet(pa.Table.from_pandas(frame)))
    rows, other = read(upload), plain_draft(upload, "other", text=("embedding",))
    assert (list(rows.frame), len(rows.frame), rows.left_out) == (
        ["text", "label"], 4_000, {"embedding": "holds more than 1,000,000 values in its lists"},
    )  # fmt: skip
    assert len(save(plain_draft(upload), tmp_path)[1].test) == 800
    refuses(BadData, "column 'embedding' of a.parquet holds more than 1,000,000 values", save, other, tmp_path)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_770_columns_are_read(ending: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(np.zeros((50, 768), int)).rename(columns=str).assign(text="a review", label=[0, 1] * 25)
    rows = as_upload(tmp_path, f"a{ending}", WRITERS[ending](frame.to_dict("records")))
    assert rows.shape == (50, 770) and list(rows["label"]) == ["0", "1"] * 25


@pytest.mark.nightly
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_600_000_rows_are_read(ending: str, tmp_path: Path) -> None:
    count = 600_000
    table = pa.table({"text": [f"a review {n}" for n in range(count)], "label": np.arange(count) % 2,
                      **{f"score_{n}": np.zeros(count, np.int8) for n in range(8)}})  # fmt: skip
    content = as_parquet(table) if ending == "parquet" else table.to_pandas().to_csv(index=False)
    rows = as_upload(tmp_path, f"a.{ending}", content)
    assert rows.shape == (count, 10) and rows["text"].iloc[-1] == "a review 599999"


TIGHT = Limits(rows=10, columns=3, cells=24, within=6, size=400)


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ({"text": "a" * 101}, "text", "most of more than 0 MiB"),
        ({"text": "a", "html": "b" * 101}, "html", "most of more than 0 MiB"),
        ({"text": "a", "x": [1, 2]}, "x", "more than 6 values in its lists"),
        ({"text": "a", "u": 1, "v": 1, "x": [1, 2]}, "x", "more than 6 values in its lists"),
    ],
)
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_a_column_over_a_limit_is_left_out_and_does_not_count(
    row: dict[str, object], column: str, said: str, ending: str
) -> None:
    rows = limited(f"a{ending}", WRITERS[ending]([row] * 4), TIGHT)
    assert said in rows.left_out[column] and rows.table.column_names == [name for name in row if name != column]


GLUE = [
    ('"the film is great , he said', 1), ('i hated it "', 0), ("a fine word", 1), ("plain bad", 0),
    ('"another opener', 1), ('ok and closes" here', 0),
] * 5  # fmt: skip
PAIRS = [('"the film is great', 1), ('i hated it "', 0), ("a fine word", 1), ("plain bad", 0)] * 5
"""Read with CSV quoting, the quotes of two rows would also close: fewer rows, and none of a wrong length."""
SIGNS = {"tsv": "\t", "csv": ",", "txt": "\t"}


def written(rows: list[tuple[str, int]], sign: str, order: int = 1) -> str:
    """Return the rows without quoting; the label is first if the order is -1."""
    return "".join(sign.join((text, str(label))[::order]) + "\n" for text, label in [("text", "label"), *rows])


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
    texts = ["a\ttab, and\nlines", 'he said "x"', "plain; text", "Great movie, really.\nI liked"]
    frame = pd.DataFrame({"text": texts, "label": list("1010")})
    got = read(Upload(f"a.{ending}", frame.to_csv(sep=SIGNS[ending], index=False, quoting=quoting).encode()))
    pd.testing.assert_frame_equal(got.frame, frame)
    assert got.notes == ()


def test_a_task_file_reads_quotes_as_an_upload_does_and_says_so(tmp_path: Path) -> None:
    path = write_task(tmp_path, data={"train": "test.tsv", "test": "test.tsv"})
    (tmp_path / "test.tsv").write_text(written(GLUE, "\t"))
    splits = load(task(path))
    assert list(zip(splits.test["text_a"], splits.test["label"], strict=True)) == GLUE
    assert any("quotes are letters" in note for note in splits.notes)


@pytest.mark.parametrize(("sign", "ending"), [("\t", "tsv"), (",", "csv"), (";", "csv")])
def test_quoting_of_many_rows_is_read_as_pandas_reads_it(sign: str, ending: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": [f'a "{n}", b\t{n}\nc' if n % 3 else f"plain {n}" for n in range(300)]})
    content = frame.assign(label=[str(n % 2) for n in range(300)]).to_csv(sep=sign, index=False)
    pd.testing.assert_frame_equal(
        as_upload(tmp_path, f"a.{ending}", content), pd.read_csv(io.StringIO(content), sep=sign, dtype=str)
    )


def test_reading_writes_nothing_and_a_changed_file_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    found = task(write_task(tmp_path))
    before, first, after = sorted(tmp_path.rglob("*")), load(found), sorted(tmp_path.rglob("*"))
    write_rows(tmp_path / "test.jsonl", [{**row, "text": "other"} for row in ROWS])
    second = load(found)
    assert (after, set(second.test["text_a"])) == (before, {"other"}) and first.fingerprint != second.fingerprint


def test_progress_bars_are_as_before_afterwards() -> None:
    for shown in (True, False):
        (datasets.enable_progress_bars if shown else datasets.disable_progress_bars)()
        with quiet():
            inside = datasets.are_progress_bars_disabled()
        assert (inside, datasets.are_progress_bars_disabled()) == (True, not shown)


test_a_file_over_a_limit_and_a_hub_set_that_cannot_be_had_are_refused = refused(
    BadData,
    ("has 60 different values", classes_of, pd.DataFrame({"y": range(60)}), "y"),
    (r"nyu-mll/glue \(rte\) could not be downloaded .* HF_HUB_OFFLINE is set[^\n]*$", load, TASKS["rte"]),
    *(
        (said, limited, f"a{ending}", WRITERS[ending](rows), TIGHT)
        for ending in (".jsonl", ".parquet")
        for rows, said in (
            ([{"text": "a"}] * 11, "more than 10 rows"),
            ([{"text": "a", "x": 1, "y": 2, "z": 3}], "more than 3 columns"),
            ([{"text": "a", "x": 1, "y": 2}] * 9, "more than 24 cells"),
        )
    ),
)


def test_hub_class_names_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = datasets.Features({**dict.fromkeys(("premise", "hypothesis"), datasets.Value("string")), "label": names})
    rows = [{"premise": f"p{i}", "hypothesis": f"h{i}", "label": i % 4 - 1} for i in range(40)]
    whole, asked = datasets.Dataset.from_list(rows, features=features), []
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: asked.append((*a, k["split"])) or whole)
    test, notes = load_test(TASKS["snli_01"])
    assert asked == [("stanfordnlp/snli", None, "test")]
    assert test[["text_b", "label"]][:2].to_numpy().tolist() == [["h1", 0], ["h3", 1]]
    assert notes == ("test: 20 rows with the label 'neutral', '-1' left out.",)


REVIEWS = [{"id": f"{n:03}", "review": f"a rather long text number {n}, so", "label": n % 2} for n in range(20)]


def upload(rows: list[dict[str, Any]] = REVIEWS, name: str = "a.jsonl") -> Upload:
    return Upload(name, WRITERS[Path(name).suffix](rows))


def draft(name: str = "mine", files: dict[str, Upload] | None = None, **changes: Any) -> Draft:
    values = {
        "text": ("review",), "label": "label", "labels": ("bad", "good"), "template": "{text} It was <mask>.",
        "label_words": ("terrible", "great"),
    }  # fmt: skip
    return Draft(name, files or {"train": upload(name="a.csv")}, {**values, **changes})


WRITTEN = [{"question": f"what is number {n} of these", "answer": f"It is {n}."} for n in range(20)]
LISTED = [{"question": f"which is the animal, {n}", "choices": ["cat", "car", "cup"][: 2 + n % 2], "answer": "cat"}
          for n in range(20)]  # fmt: skip
OPTIONS = [{"question": f"which is the animal, {n}", "option_a": "car", "option_b": "cat", "right": "B"}
           for n in range(20)]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "kind", "columns"),
    [
        (REVIEWS, CLASSIFICATION, Columns(("review",), "label")),
        (
            [
                {"gold": gold, "premise": "a rather long one", "hypothesis": "another long one"}
                for gold in ("yes", "no") * 4
            ],
            CLASSIFICATION,
            Columns(("premise", "hypothesis"), "gold"),
        ),
        (
            [{"a": text, "b": "xy"[n % 2]} for n, text in enumerate([*["some words of a text"] * 3, "other words"])],
            CLASSIFICATION,
            Columns(("a",), "b"),
        ),
        (WRITTEN, GENERATION, Columns(("question",), "answer")),
        (LISTED, CHOICE, Columns(("question",), "answer", ("choices",))),
        (OPTIONS, CHOICE, Columns(("question",), "right", ("option_a", "option_b"))),
    ],
)
def test_what_rows_hold_is_guessed(rows: list[dict[str, Any]], kind: str, columns: Columns) -> None:
    frame = rows_of(upload(rows))
    assert (guessed_kind(frame), guessed(frame, kind), is_written_out(frame, columns.options, columns.right)) == (
        kind, columns, rows is LISTED,
    )  # fmt: skip


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
    values = {"text": ("question",), "options": options, "template": {"causal": "{text}"}}
    values |= {right: "right" if right == "label" else "answer"}
    files = {"train": upload(rows[:1] * 4), "test": upload(rows, "b.jsonl")}
    path, splits = save(Draft("mine", files, values), tmp_path)
    place = options.index("option_b") if right == "label" else 0
    # the labels are those of the longest list of all files
    assert (registry.task(path).labels, set(splits.test["label"])) == (labels, {place})


def test_a_task_is_written_with_its_rows_beside_it(tmp_path: Path) -> None:
    files = {"train": upload(REVIEWS, "a.csv"), "test": upload(REVIEWS[:6], "t.parquet")}
    path, splits = save(draft(files=files, metric="f1", positive="good"), tmp_path)
    pd.testing.assert_frame_equal(pd.read_parquet(path.parent / "train.parquet"), rows_of(files["train"]))
    task, wording = registry.task(path), ("{text} It was <mask>.", ("terrible", "great"))
    facts = (task.labels, task.metric, task.positive, task.wording("prompt"))
    assert facts == (("bad", "good"), "f1", 1, wording)
    assert (load(task).fingerprint, len(splits.test)) == (splits.fingerprint, 6)
    written = tmp_path / "mine" / "task.yaml"
    assert (path, saved(tmp_path), [*tmp_path.iterdir()]) == (written, [written], [written.parent])


def test_without_a_test_set_a_fifth_is_set_aside_once(tmp_path: Path) -> None:
    path, splits = save(draft(), tmp_path)
    texts = {split: set(getattr(splits, split)["text_a"]) for split in ("train", "validation", "test")}
    assert len(texts["test"]) == 4 == len(set_aside(20)) and not texts["test"] & (texts["train"] | texts["validation"])
    assert "4 of its 20 rows were set aside" in registry.task(path).source
    assert set(save(draft(name="again"), tmp_path)[1].test["text_a"]) == texts["test"]


def test_names_of_classes_as_they_stand_and_rows_left_out(tmp_path: Path) -> None:
    rows = [{**row, "label": ("no", "null", "-")[row["label"] if n else 2]} for n, row in enumerate(REVIEWS)]
    _, splits = save(draft(files={"train": upload(rows)}, labels=("no", "null"), drop=("-",)), tmp_path)
    assert (
        sum(len(getattr(splits, split)) for split in ("train", "validation", "test")),
        set(splits.train["label"]),
    ) == (19, {0, 1})


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
        ({"files": {"train": upload(REVIEWS[:1], "a.csv")}}, BadData, "a.csv has one row"),
        ({"files": {"train": upload(REVIEWS, "a.csv"), "test": Upload("t.csv", b"")}}, BadData, "t.csv is empty"),
    ],
)
def test_what_is_wrong_is_said_and_leaves_nothing(
    changes: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    words = rf"(?s)\A(?!.*\.new-(?!x')).*{re.escape(said)}"
    refuses(error, words, save, draft(**changes), tmp_path / "tasks")
    assert not list((tmp_path / "tasks").rglob("*"))


def test_a_task_is_never_overwritten_and_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    path, _ = save(draft(), tmp_path)
    before = path.read_text()
    for root, said in ((tmp_path, "never overwritten"), (path, "cannot be written")):
        refuses(BadInput, said, save, draft(labels=("worse", "better")), root)
    assert path.read_text() == before


test_by_hand = by_hand(
    *((f"CSV from programs and people: {kind}",
       ({"text": ["a good one", "a bad one"], "label": ["1", "0"]}, SEPARATED.get(kind, "commas")),
       cells, "a.csv", content) for kind, content in CSV.items()),
    *((f"cells of a {suffix} separated by {by}",
       ({"review": ["good, very; good\tindeed", "bad"], "label": ["1", "0"]}, by), cells, f"a.{suffix}",
       f'review{sign}label\n"good, very; good\tindeed"{sign}1\nbad{sign}0'.encode("utf-8-sig"))
      for suffix in ("csv", "tsv", "CSV") for sign, by in ((",", "commas"), (";", "semicolons"), ("\t", "tabs"))),
    *((f"JSON of the shape {shape} in {ending}", {"text": FRAME["text"].tolist(), "label": ["0", "1", "0", "1"]},
       lambda shape=shape, ending=ending: as_upload(
           Path(), f"a.{ending}", SHAPES[shape])[["text", "label"]].to_dict("list"))
      for shape in SHAPES for ending in ("json", "jsonl", "ndjson")),
    ("classes are sorted as a reader expects", ["1.5", "9", "10", "b"],
     classes_of, pd.DataFrame({"y": ["10", "9", None, "b", "1.5"]}), "y"),
    *((f"{names} are indices: {wanted}", wanted, are_indices, names)
      for names, wanted in ((["0", "1", "2"], True), (["1", "2"], False), (["b", "a"], False))),
    *((f"one column is separated by what the ending stands for: {name}", by,
       lambda name=name, content=content: read(Upload(name, content)).separated_by)
      for name, content, by in (("a.csv", b"text\na\n", "commas"), ("a.tsv", b"text\na\n", "tabs"),
                                ("a.jsonl", b'{"a": 1}', ""))),
    *((f"an odd file keeps its rows: {kind}", expected,
       lambda name=name, content=content: as_upload(Path(), name, content).to_dict("list"))
      for kind, name, content, expected in (
        ("columns that pandas numbered", "a.csv", FRAME.set_axis([0, 1], axis=1).to_csv(index=False),
         {"0": list(FRAME["text"]), "1": list("0101")}),
        ("a separator ends each line", "a.csv", "text,label,\na,1,\nb,0,\n",
         {"text": ["a", "b"], "label": ["1", "0"], "Unnamed: 2": ["", ""]}),
        # each line has two cells with either reading; a text in a numeric column decides
        ("lines in a cell", "a.csv", 'text,label\n"Great, really.\nLoved it",1\nbad,0\n',
         {"text": ["Great, really.\nLoved it", "bad"], "label": ["1", "0"]}),
        ("a comma beside tabs", "a.txt", b'text\tlabel\n"good, fine"\t1\nbad\t0\n',
         {"text": ["good, fine", "bad"], "label": ["1", "0"]}),
        ("a quote within a text", "a.csv", 'text,label\na 5" screen,1\n"good, cheap",0\n',
         {"text": ['a 5" screen', "good, cheap"], "label": ["1", "0"]}),
        ("only line feeds end lines", "a.jsonl",
         as_lines([{"text": f"a{sign}b"} for sign in "\u2028\x85\x0b"]).replace(b"\n", b"\r\n"),
         {"text": ["a\u2028b", "a\x85b", "a\x0bb"]}))),
    *((f"a reference of {size} letters has room", room, room_for, pd.DataFrame({"a": ["", "x" * size]}), "a")
      for size, room in ((0, 32), (64, 32), (65, 48), (1000, 512))),
)  # fmt: skip
