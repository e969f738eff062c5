"""Tests of JSON as people save it: pandas tables in each orientation, dates, numbers as text, booleans as labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from skillviz.errors import BadData
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from skillviz.tasks.uploaded import Upload, read, rows_of
from tests.tasks.make import write_task

ROWS = [{"text": f"a good one {n}", "label": n % 2} for n in range(4)]
FRAME = pd.DataFrame(ROWS)
SHAPES = {
    **{orient: FRAME.to_json(orient=orient) for orient in ("columns", "index", "split", "records", "table")},
    "lines": FRAME.to_json(orient="records", lines=True),
    "filtered": FRAME.set_index(pd.Index([3, 8, 9, 20])).to_json(),
    "lists": json.dumps(FRAME.to_dict("list")),
    "data": json.dumps({"version": "1.0", "data": ROWS}),
    "only key": json.dumps({"reviews": ROWS}),
    "indented": json.dumps(ROWS, indent=2),
    "indented data": json.dumps({"data": ROWS}, indent=2),
    "byte order mark": "\ufeff" + json.dumps(ROWS),
}


@pytest.mark.parametrize("ending", ["json", "jsonl", "ndjson"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_rows_are_read_in_each_shape(shape: str, ending: str) -> None:
    rows = rows_of(Upload(f"a.{ending}", SHAPES[shape].encode()))
    assert list(rows["text"]) == list(FRAME["text"]) and list(rows["label"]) == ["0", "1", "0", "1"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (FRAME.to_json(orient="values"), "element 1 of its list is not an object"),
        ('{"text": {"x": "a", "y": "b"}, "label": {"x": 1, "y": 0}}', "neither are clearly rows"),
        ('{"0": {"0": "a", "1": 1}, "1": {"0": "b", "1": 0}}', "neither are clearly rows"),
        ('{"text": {"0": "a", "1": "b"}, "label": {"0": 1}}', "neither are clearly rows"),
        ('{"text": ["a", "b"], "label": [1]}', r"a list per column, of several lengths \(text 2, label 1\)"),
        ('{"columns": ["text", "label"], "data": [["a", 1], ["b"]]}', "1 values in row 2 and 2 columns"),
        ("5", "holds a single value"),
        ('{"text": "a", "label": 1},\n{"text": "b", "label": 0},\n', "line 1 is not JSON"),
        ('{"text": "a", "label": 1}\n["b", 0]\n', "line 2 is not an object"),
        ('{"text": "a", "label": 1}\n{"text": "b", "label": 0, "text": "c"}\n', "line 2 .*the key 'text' twice"),
    ],
)
def test_another_shape_is_refused_with_the_way_out(content: str, said: str) -> None:
    with pytest.raises(BadData, match=f"a.json.*{said}.*one object per row: with pandas, df.to_json"):
        rows_of(Upload("a.json", content.encode()))


def test_several_lists_of_rows_are_refused_by_their_names() -> None:
    with pytest.raises(BadData, match="several lists of rows: one, two; save each in a file of its own"):
        rows_of(Upload("a.json", json.dumps({"one": ROWS, "two": ROWS}).encode()))


@pytest.mark.parametrize("content", ["{}", "[]", "\n"])
def test_a_file_of_nothing_has_no_rows(content: str) -> None:
    with pytest.raises(BadData, match="a.json has no rows"):
        rows_of(Upload("a.json", content.encode()))


def read_back(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> tuple[list[str], list[int]]:
    """Return the texts and labels of a task with these rows."""
    test = load(task(write_task(folder, rows, **changes))).test
    return list(test["text_a"]), list(test["label"])


AS_WRITTEN = ["2020-01-01", "2020-01-01T10:00:00Z", "1e5", "007", "NaN", "NA", "null", "None", "True", "1.50"]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_texts_stay_as_they_are_written(tmp_path: Path, suffix: str) -> None:
    rows = [{"text": text, "label": n % 2} for n, text in enumerate(AS_WRITTEN)]
    assert read_back(tmp_path, rows, suffix=suffix) == (AS_WRITTEN, [0, 1] * 5)


@pytest.mark.parametrize("names", [["2020-01-01", "2021-01-01"], ["007", "008"], ["1e5", "NA"], ["null", "None"]])
def test_labels_that_look_like_something_else_are_names(tmp_path: Path, names: list[str]) -> None:
    rows = [{"text": f"a {n}", "label": names[n % 2]} for n in range(6)]
    assert read_back(tmp_path, rows, labels=names)[1] == [0, 1] * 3


@pytest.mark.parametrize("keys", ["true: positive, false: negative", "'True': positive, 'False': negative"])
@pytest.mark.parametrize("values", [(False, True), ("FALSE", "TRUE"), ("false", "true"), ("False ", " True")])
def test_booleans_are_classes_however_they_are_spelled(tmp_path: Path, keys: str, values: tuple[Any, Any]) -> None:
    path = write_task(tmp_path, [{"text": f"a {n}", "label": values[n % 2]} for n in range(6)])
    path.write_text(path.read_text() + f"classes: {{{keys}}}\n")
    assert list(load(task(path)).test["label"]) == [0, 1] * 3


@pytest.mark.parametrize("labels", [["True", "False"], ["true", "false"], ["FALSE", "TRUE"]])
@pytest.mark.parametrize("values", [(False, True), ("false", "true"), ("False", "True"), (0, 1), ("0.0", "1.0")])
def test_labels_that_are_called_true_and_false_are_found_by_their_names(
    tmp_path: Path, labels: list[str], values: tuple[Any, Any]
) -> None:
    path = write_task(tmp_path, [{"text": f"a {n}", "label": values[n % 2]} for n in range(6)], labels=labels)
    names = [labels[number].lower() for number in load(task(path)).test["label"]]
    assert names == ["false", "true"] * 3


@pytest.mark.parametrize("labels", [["1.0", "2.0"], ["1", "2"]])
def test_a_number_among_numbers_is_a_name_and_no_index(tmp_path: Path, labels: list[str]) -> None:
    assert read_back(tmp_path, [{"text": "a", "label": 1}, {"text": "b", "label": 2.0}], labels=labels)[1] == [0, 1]
    with pytest.raises(BadData, match="the label '0' in row 1"):
        read_back(tmp_path, [{"text": "a", "label": 0}, {"text": "b", "label": 1}], labels=labels)


def test_a_boolean_may_be_dropped(tmp_path: Path) -> None:
    rows = [{"text": f"a {n}", "label": [True, 0, 1][n % 3]} for n in range(9)]
    path = write_task(tmp_path, rows)
    path.write_text(path.read_text() + "drop: [true]\n")
    assert list(load(task(path)).test["label"]) == [0, 1] * 3


def test_values_of_several_kinds_are_texts(tmp_path: Path) -> None:
    rows = [
        {"text": 5, "label": 1},
        {"text": "5", "label": "0"},
        {"text": 2.5, "label": 1.0},
        {"text": 10**30, "label": 0},
    ]
    assert read_back(tmp_path, rows) == (["5", "5", "2.5", "1" + "0" * 30], [1, 0, 1, 0])


@pytest.mark.parametrize("written", ["null", "NaN", '""', '"  "'])
def test_a_missing_text_and_a_blank_one_are_refused_alike(tmp_path: Path, written: str) -> None:
    path = write_task(tmp_path)
    line = '{{"text": {}, "label": 1}}\n'
    (tmp_path / "test.jsonl").write_text(line.format('"a"') + line.format(written) * 2)
    with pytest.raises(BadData, match="test.jsonl has no text in .* 'text' of row 2 and 1 other row; write one"):
        load(task(path))


def test_one_text_of_a_pair_may_be_blank_or_missing(tmp_path: Path) -> None:
    rows = [{"text": "a", "more": more, "label": n % 2} for n, more in enumerate(["b", "", None, "c"])]
    path = write_task(tmp_path, rows, text=["text", "more"], template=None, label_words=None)
    assert list(load(task(path)).test["text_b"]) == ["b", "", "", "c"]


def test_columns_that_no_task_can_use_are_named(tmp_path: Path) -> None:
    rows = [{"text": "a", "meta": {"id": n}, "boxes": [[1, 2]], "label": n % 2} for n in range(4)]
    upload = read(Upload("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert list(upload.frame) == ["text", "label"]
    assert upload.left_out == {"meta": "holds objects", "boxes": "holds lists of lists or objects"}
    with pytest.raises(BadData, match="column 'meta' of .*train.jsonl holds objects"):
        read_back(tmp_path, rows, text="meta")


def test_lines_end_by_line_ends_alone() -> None:
    texts = ["a\u2028b", "c\x85d", "e\x0bf"]
    content = "".join(json.dumps({"text": text, "label": 1}, ensure_ascii=False) + "\r\n" for text in texts)
    assert list(rows_of(Upload("a.jsonl", content.encode()))["text"]) == texts


def test_half_a_character_is_refused() -> None:
    with pytest.raises(BadData, match="column 'text' of a.jsonl holds halves of characters"):
        rows_of(Upload("a.jsonl", b'{"text": "\\ud800"}\n'))
