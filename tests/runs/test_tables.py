"""Tests of the declared tables: matching and mismatching frames, a round trip, and the movement in layers.parquet."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz.core.generation import LABELS as OF_TEXT
from skillviz.core.generation import generated_scores
from skillviz.core.movement import Movement
from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from skillviz.runs import tables
from skillviz.runs.layers import layers_table, movement_summary
from skillviz.runs.tables import TABLES, check, empty, score_columns
from tests.refused import refuses

LABELS = ("negative", "positive")
HISTORY = pd.DataFrame(
    {
        "localizer": ["movement"], "target": [5], "step": [1], "loss": [0.5], "size": [5], "added": [5],
        "removed": [0], "seconds": [0.1],
    }
)  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_frame_has_every_column_and_survives_its_own_check_and_parquet(name: str, tmp_path: Path) -> None:
    frame, columns = empty(name, LABELS), TABLES[name].columns
    assert (
        list(frame.columns)[: len(columns)] == [c.name for c in columns]
        and not len(frame)
        and check(frame, name, LABELS).dtypes.equals(frame.dtypes)
    )
    frame.to_parquet(tmp_path / "t.parquet", compression="zstd", index=False)
    pd.testing.assert_frame_equal(check(pd.read_parquet(tmp_path / "t.parquet"), name, LABELS), frame)
    assert [c.name for c in columns if not c.meaning] == []


def test_columns_come_out_in_order_with_their_dtypes_and_the_input_stays() -> None:
    given = HISTORY[list(reversed(HISTORY.columns))].astype({"loss": "float32"})
    before = given.copy()
    out = check(given, "history")
    assert list(out.columns) == [c.name for c in TABLES["history"].columns] and out["loss"].dtype == np.float64
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
def test_what_does_not_fit_is_named(change: Callable[[pd.DataFrame], pd.DataFrame], word: str) -> None:
    refuses(ValueError, word, check, change(HISTORY), "history")


def test_a_loss_may_be_missing() -> None:
    assert check(HISTORY.assign(loss=np.nan), "history")["loss"].isna().all()


def test_logits_are_float32_and_must_be_those_of_the_labels() -> None:
    frame = empty("predictions", LABELS)
    assert (str(frame["logit_positive"].dtype), tables.logit_columns(LABELS)) == (
        "float32",
        ["logit_negative", "logit_positive"],
    )
    for labels, word in (((*LABELS, "neutral"), "logit_neutral"), (LABELS[:1], "logit_positive")):
        refuses(ValueError, word, check, frame, "predictions", labels)


def test_a_layer_number_may_be_missing_and_stays_a_whole_number(tmp_path: Path) -> None:
    row = {c.name: [0, 0] for c in TABLES["layers"].columns}
    row |= {"parameter": ["a"] * 2, "kind": ["other"] * 2, "is_bias": [False] * 2, "layer": [pd.NA, 3]}
    check(pd.DataFrame(row), "layers").to_parquet(tmp_path / "layers.parquet", index=False)
    back = check(pd.read_parquet(tmp_path / "layers.parquet"), "layers")["layer"]
    assert back.dtype == "Int64" and back.tolist() == [pd.NA, 3]


def test_stored_tables_come_back_bit_for_bit_under_any_label(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logits = {
        name: rng.normal(size=300).astype(np.float32)
        for name in empty("predictions", ["a.b", "ünknown, or: not", "c"]).columns
        if name.startswith("logit_")
    }
    logits["logit_c"][:3] = np.float32([np.inf, -0.0, 1e-40])
    frame = pd.DataFrame({"example_id": [f"test-{i}" for i in range(300)], "label": rng.integers(0, 3, 300), **logits})
    told = check(frame.assign(dataset="d", split="test", state="grafted"), "predictions")
    told.to_parquet(tmp_path / "table.parquet", index=False, **tables.encoding(told))
    again = pd.read_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(again, told, check_exact=True)
    assert {name: again[name].to_numpy().tobytes() for name in logits} == {
        name: told[name].to_numpy().tobytes() for name in logits
    }


def test_scores_of_generated_texts_bring_their_texts_or_have_no_column_of_them() -> None:
    scores = generated_scores(np.array([True, False]), np.array([-1.0, -2.0]), np.array([2, 3]), ("a", ""))
    assert score_columns(scores, OF_TEXT)["generated"] == ["a", ""]
    bare = score_columns(np.stack([scores])[0], OF_TEXT)
    assert [*bare] == ["exact_match", "log_likelihood", "tokens"]
    rows = {"example_id": ["t-0", "t-1"], "label": 1, **bare}
    parts = check(
        pd.DataFrame({**rows, "layer": pd.NA, "head": pd.NA, "size": 3, "kind": "", "condition": "alone", "draw": 0}),
        "parts",
    )
    assert "generated" not in parts and parts["tokens"].tolist() == [2, 3]
    refuses(
        ValueError, "missing columns .*generated", check,
        pd.DataFrame({**rows, "dataset": "x", "split": "test", "state": "grafted"}), "predictions",
    )  # fmt: skip


def test_the_movement_of_each_part_is_that_of_its_entries_and_of_those_in_the_region_alone() -> None:
    shapes = {"transformer.h.0.attn.c_attn.weight": (4, 12), "transformer.h.0.ln_1.weight": (4,)}
    table, rng = graftable("gpt2", shapes, {"n_head": 2}), np.random.default_rng(0)
    base, tuned = (torch.from_numpy(rng.normal(size=table.d).astype(np.float32)) for _ in range(2))
    movement = Movement(base, tuned, table)
    summary = movement_summary(movement)
    region = Region.from_flat(rng.choice(table.d, 17, replace=False), table.shapes)
    some, full, none = (
        layers_table(one, summary, movement) for one in (region, Region.full(table.shapes), Region.empty(table.shapes))
    )
    squared = {("transformer.h.0.ln_1.weight", "LayerNorm"): 0.0}
    for name, start in zip(table.names, table.offsets[:-1], strict=True):
        for index in region.indices.get(name, []):
            kind = ("query", "key", "value")[index % 12 // 4] if "c_attn" in name else "LayerNorm"
            step = float(tuned[start + index]) - float(base[start + index])
            squared[name, kind] = squared.get((name, kind), 0.0) + step * step
    assert some["movement_l2_selected"].tolist() == (
        pytest.approx(
            [squared.get(part, 0.0) ** 0.5 for part in zip(some["parameter"], some["kind"], strict=True)], rel=1e-12
        )
    )
    assert full["movement_l2_selected"].tolist() == pytest.approx(full["movement_l2"].tolist(), rel=1e-12)
    assert set(none["movement_l2_selected"]) == {0}
    assert (full["movement_l2"] > 0).all()
