"""Tests of the declared tables: matching and mismatching frames, and a round trip through files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.core.generation import LABELS as OF_TEXT
from skillviz.core.generation import generated_scores
from skillviz.runs import tables
from skillviz.runs.tables import TABLES, check, empty, score_columns

LABELS = ("negative", "positive")


def history() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "localizer": ["movement"], "target": [5], "step": [1], "loss": [0.5], "size": [5], "added": [5],
            "removed": [0], "seconds": [0.1],
        }
    )  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_frame_has_every_column_and_passes_its_own_check(name: str) -> None:
    frame = empty(name, LABELS)
    assert list(frame.columns)[: len(TABLES[name].columns)] == [c.name for c in TABLES[name].columns]
    assert [str(t) for t in check(frame, name, LABELS).dtypes] == [str(t) for t in frame.dtypes]
    assert not len(frame)


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_frame_survives_parquet(name: str, tmp_path: Path) -> None:
    frame = empty(name, LABELS)
    frame.to_parquet(tmp_path / "t.parquet", compression="zstd", index=False)
    back = check(pd.read_parquet(tmp_path / "t.parquet"), name, LABELS)
    pd.testing.assert_frame_equal(back, frame)


@pytest.mark.parametrize("name", TABLES)
def test_every_column_says_what_it_means(name: str) -> None:
    assert all(c.meaning for c in TABLES[name].columns)


def test_columns_come_out_in_order_with_their_dtypes_and_the_input_stays() -> None:
    given = history()[::-1][list(reversed(history().columns))].astype({"loss": "float32"})
    before = given.copy()
    out = check(given, "history")
    assert list(out.columns) == [c.name for c in TABLES["history"].columns]
    assert out["loss"].dtype == np.float64
    pd.testing.assert_frame_equal(given, before)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda f: f.drop(columns="size"), "size"),
        (lambda f: f.assign(extra=1), "extra"),
        (lambda f: f.assign(step=1.5), "step"),
        (lambda f: f.assign(step="one"), "step"),
        (lambda f: f.assign(step=np.nan), "step"),
        (lambda f: f.assign(localizer=None), "localizer"),
    ],
)
def test_what_does_not_fit_is_named(change: object, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        check(change(history()), "history")  # type: ignore[operator]


def test_a_loss_may_be_missing() -> None:
    assert check(history().assign(loss=np.nan), "history")["loss"].isna().all()


def test_logits_are_float32_and_must_be_those_of_the_labels() -> None:
    frame = empty("predictions", LABELS)
    assert str(frame["logit_positive"].dtype) == "float32"
    assert tables.logit_columns(LABELS) == ["logit_negative", "logit_positive"]
    with pytest.raises(ValueError, match="logit_neutral"):
        check(frame, "predictions", (*LABELS, "neutral"))
    with pytest.raises(ValueError, match="logit_positive"):
        check(frame, "predictions", LABELS[:1])


def test_a_layer_number_may_be_missing_and_stays_a_whole_number(tmp_path: Path) -> None:
    row = {c.name: [0] for c in TABLES["layers"].columns}
    row |= {"parameter": ["a"], "kind": ["other"], "is_bias": [False], "layer": [pd.NA]}
    both = pd.concat([pd.DataFrame(row), pd.DataFrame({**row, "layer": [3]})])
    check(both, "layers").to_parquet(tmp_path / "layers.parquet", index=False)
    back = check(pd.read_parquet(tmp_path / "layers.parquet"), "layers")
    assert back["layer"].dtype == "Int64"
    assert back["layer"].isna().tolist() == [True, False]
    assert back["layer"][1] == 3


def test_stored_tables_come_back_bit_for_bit_under_any_label(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = empty("predictions", ["a.b", "ünknown, or: not", "c"])
    logits = {name: rng.normal(size=300).astype(np.float32) for name in frame.columns if name.startswith("logit_")}
    logits["logit_c"][:3] = np.float32([np.inf, -0.0, 1e-40])
    words = {"example_id": [f"test-{i}" for i in range(300)], "dataset": "d", "split": "test", "state": "grafted"}
    told = check(pd.DataFrame({**words, "label": rng.integers(0, 3, 300), **logits}), "predictions")
    told.to_parquet(tmp_path / "table.parquet", index=False, **tables.encoding(told))
    again = pd.read_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(again, told, check_exact=True)
    assert all(again[name].to_numpy().tobytes() == told[name].to_numpy().tobytes() for name in logits)


def test_scores_of_generated_texts_bring_their_texts_or_have_no_column_of_them() -> None:
    scores = generated_scores(np.array([True, False]), np.array([-1.0, -2.0]), np.array([2, 3]), ("a", ""))
    assert score_columns(scores, OF_TEXT)["generated"] == ["a", ""]
    bare = score_columns(np.stack([scores])[0], OF_TEXT)
    assert [*bare] == ["exact_match", "log_likelihood", "tokens"]
    rows = {"example_id": ["t-0", "t-1"], "label": 1, "layer": pd.NA, "head": pd.NA, "size": 3}
    parts = check(pd.DataFrame({**rows, "kind": "", "condition": "alone", "draw": 0, **bare}), "parts")
    assert "generated" not in parts and parts["tokens"].tolist() == [2, 3]
    predictions = pd.DataFrame({**rows, "dataset": "x", "split": "test", "state": "grafted", **bare})
    with pytest.raises(ValueError, match="missing columns .*generated"):
        check(predictions.drop(columns=["layer", "head", "size"]), "predictions")
