"""Tests of reading rows: the same result from every format, labels by name or index, and errors with their row."""

import json
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest

from skillviz.errors import BadData
from skillviz.tasks.reading import quiet
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.source import label_numbers
from skillviz.tasks.splits import load, load_test
from tests.tasks.make import ROWS, made, write_rows, write_task


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    test = load(task(write_task(tmp_path, suffix=suffix))).test
    assert list(test["text_a"]) == [row["text"] for row in ROWS]
    assert list(test["label"]) == [row["label"] for row in ROWS]
    assert list(test["example_id"]) == [f"test-{i}" for i in range(len(ROWS))]
    assert test["label"].dtype == np.int64 and "text_b" not in test


def test_a_json_array_and_a_tsv_are_read_too(tmp_path: Path) -> None:
    path = write_task(tmp_path, data={"train": "rows.json", "test": "rows.tsv"})
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    pd.DataFrame(ROWS).to_csv(tmp_path / "rows.tsv", sep="\t", index=False)
    splits = load(task(path))
    assert len(splits.train) + len(splits.validation) == len(splits.test) == len(ROWS)


def test_nothing_is_written_beside_the_users_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", home)
    path = write_task(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    load(task(path))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    found = task(write_task(tmp_path))
    first = load(found)
    write_rows(tmp_path / "test.jsonl", [{**row, "text": "other"} for row in ROWS])
    second = load(found)
    assert set(second.test["text_a"]) == {"other"} and first.fingerprint != second.fingerprint


def test_progress_bars_are_as_before_afterwards() -> None:
    for shown in (False, True):
        (datasets.enable_progress_bars if shown else datasets.disable_progress_bars)()
        with quiet():
            assert datasets.are_progress_bars_disabled()
        assert datasets.are_progress_bars_disabled() is not shown
    datasets.disable_progress_bars()


@pytest.mark.parametrize("labels", [["negative", "positive"], ["0", "1"], [0, 1], [0.0, 1.0], [False, True]])
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_labels_are_names_or_indices(tmp_path: Path, labels: list, suffix: str) -> None:
    rows = [{**row, "label": labels[row["label"]]} for row in ROWS]
    test = load(task(write_task(tmp_path, rows, suffix=suffix))).test
    assert list(test["label"]) == [row["label"] for row in ROWS]


def test_numbers_are_names_where_the_names_are_numbers() -> None:
    stars = made(labels=("1", "2", "3"), label_words={})
    assert list(label_numbers(np.array(["3", "1", "2"], dtype=object), stars, "x")) == [2, 0, 1]
    with pytest.raises(BadData, match=r"the label '0' in row 2 .* allows '1', '2', '3'\.$"):
        label_numbers(np.array(["3", "0"], dtype=object), stars, "x")


def test_true_and_false_may_be_names(tmp_path: Path) -> None:
    rows = [{**row, "label": row["label"] == 0} for row in ROWS]
    test = load(task(write_task(tmp_path, rows, labels=["True", "False"]))).test
    assert list(test["label"]) == [row["label"] for row in ROWS]


def test_class_names_in_a_parquet_file_count(tmp_path: Path) -> None:
    path = write_task(tmp_path, suffix=".parquet")
    names = datasets.ClassLabel(names=["positive", "negative"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    datasets.Dataset.from_list(ROWS, features=features).to_parquet(tmp_path / "test.parquet")
    assert list(load(task(path)).test["label"]) == [1 - row["label"] for row in ROWS]


def test_csv_text_stays_what_it_is(tmp_path: Path) -> None:
    rows = [{"text": text, "label": i % 2} for i, text in enumerate(["NA", "None", "007", "1.50", "null", 'a "b", c'])]
    test = load(task(write_task(tmp_path, rows, suffix=".csv"))).test
    assert list(test["text_a"]) == ["NA", "None", "007", "1.50", "null", 'a "b", c']


def test_a_label_outside_is_named_with_its_row(tmp_path: Path) -> None:
    rows = [{**row, "label": 2 if i == 6 else row["label"]} for i, row in enumerate(ROWS)]
    says = r"train\.jsonl has the label '2' in row 7 \(column 'label'\); .*'positive', or the indices 0 to 1"
    with pytest.raises(BadData, match=says):
        load(task(write_task(tmp_path, rows)))


def test_a_missing_label_or_text_is_named_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="has no label in row 3"):
        load(task(write_task(tmp_path, [*ROWS[:2], {"text": "x", "label": None}, *ROWS])))
    with pytest.raises(BadData, match="has no text in the column 'text' of row 3"):
        load(task(write_task(tmp_path, [*ROWS[:2], {"text": None, "label": 1}, *ROWS])))


def test_dropped_labels_are_left_out_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    rows = [{"text": str(i), "label": ("no", "yes", "-1")[i % 3]} for i in range(30)]
    splits = load(task(write_task(tmp_path, rows, labels=["no", "yes"], drop=[-1])))
    assert list(splits.test["example_id"][:4]) == ["test-0", "test-1", "test-3", "test-4"]
    assert list(splits.test["text_a"][:4]) == ["0", "1", "3", "4"]
    assert "test: 10 rows with the label '-1' left out." in splits.notes


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"train\.jsonl is empty"),
        ('{"text": "a", "label": 0}\n{"text": "b", "lab\n', r"cannot be read as JSONL: line 2 is not JSON \("),
        ('{"text": "a", "label": 0}\n"b"\n', "cannot be read as JSONL: line 2 is not an object"),
        ('{"text": ["a"], "label": 0}\n' * 2, "has no text in the column 'text' of row"),
        ("\n\n", "has no rows"),
        ('{"review": "a", "label": 0}\n', "has no column 'text', which task 'made' names; its columns: review, label"),
        ('{"text": "a", "class": 0}\n', "has no column 'label'"),
    ],
)
def test_unreadable_files_and_missing_columns(tmp_path: Path, content: str, says: str) -> None:
    path = write_task(tmp_path)
    (tmp_path / "train.jsonl").write_text(content)
    with pytest.raises(BadData, match=says) as error:
        load(task(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("text,label\n", "has no rows"),
        ("text,text\na,0\n", "must name the columns, each once"),
        (
            "text,label\nb,1\na, too,0\n",
            "has 3 cells in row 2 and 2 columns, separated by commas; put texts .* in double quotes",
        ),
        ("text,label\nb\n", "has 1 cell in row 1 and 2 columns"),
        ("text|label\na|0\n", "has no column 'text', which task 'made' names; its columns: text\\|label"),
    ],
)
def test_csv_that_would_be_misread(tmp_path: Path, content: str, says: str) -> None:
    path = write_task(tmp_path, suffix=".csv")
    (tmp_path / "train.csv").write_text(content)
    with pytest.raises(BadData, match=says):
        load(task(path))


def test_a_csv_with_the_index_of_pandas(tmp_path: Path) -> None:
    path = write_task(tmp_path, suffix=".csv")
    plain = load(task(path))
    for split in ("train", "test"):
        pd.read_csv(tmp_path / f"{split}.csv").to_csv(tmp_path / f"{split}.csv")
    assert (tmp_path / "train.csv").read_text().startswith(",text,")
    assert load(task(path)).fingerprint == plain.fingerprint


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_text_that_is_not_utf8_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write_task(tmp_path, suffix=suffix)
    content = '{"text": "café", "label": 0}\n' if suffix == ".jsonl" else "text,label\ncafé,0\n"
    (tmp_path / f"train{suffix}").write_bytes((content * 2).encode("latin-1"))
    with pytest.raises(BadData, match="is not UTF-8 text.*; save it as UTF-8"):
        load(task(path))


def test_a_parquet_file_without_rows(tmp_path: Path) -> None:
    path = write_task(tmp_path, suffix=".parquet")
    pd.DataFrame(ROWS).head(0).to_parquet(tmp_path / "test.parquet", index=False)
    with pytest.raises(BadData, match="has no rows"):
        load(task(path))


def test_a_broken_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    path = write_task(tmp_path, suffix=".parquet")
    (tmp_path / "test.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(BadData, match="test.parquet cannot be read as PARQUET") as error:
        load(task(path))
    assert "\n" not in str(error.value)


def test_a_hub_set_that_cannot_be_had_is_one_sentence() -> None:
    with pytest.raises(
        BadData, match=r"nyu-mll/glue \(rte\) could not be downloaded .* HF_HUB_OFFLINE is set"
    ) as error:
        load(TASKS["rte"])
    assert "\n" not in str(error.value)


def test_hub_class_names_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = datasets.Features({"premise": datasets.Value("string"), "hypothesis": datasets.Value("string")})
    rows = [{"premise": f"p{i}", "hypothesis": f"h{i}", "label": i % 4 - 1} for i in range(40)]
    whole = datasets.Dataset.from_list(rows, features=datasets.Features({**features, "label": names}))
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: asked.append((*a, k["split"])) or whole)
    test, notes = load_test(TASKS["snli_01"])
    assert asked == [("stanfordnlp/snli", None, "test")]
    assert list(test["label"][:2]) == [0, 1] and list(test["text_b"][:2]) == ["h1", "h3"]
    assert notes == ("test: 20 rows with the label 'neutral', '-1' left out.",)
