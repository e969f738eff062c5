"""Tests of slices: each example is in exactly one slice of a column; differences match the examples; losses first."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.analysis.answers import Answers
from skillviz.analysis.slices import (
    COLUMNS,
    LEAST,
    MOST_VALUES,
    class_column,
    slice_differences,
    sliceable,
    slices_of,
    worst_first,
)
from skillviz.core.intervals import metric_difference
from skillviz.errors import BadInput
from tests.core.by_hand import by_hand, refused

N = 800


def answers(seed: int, skill: float) -> Answers:
    generator = np.random.default_rng(seed)
    labels = np.random.default_rng(0).integers(0, 2, N)
    logits = generator.normal(size=(N, 2))
    logits[np.arange(N), labels] += skill
    return Answers(np.array([f"test-{n}" for n in range(N)], dtype=object), labels, logits)


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(
        st.lists(st.sampled_from("abcdef") | st.none(), min_size=2, max_size=60),
        st.lists(st.integers(-3, 300), min_size=2, max_size=60),
        st.lists(st.floats(-1e6, 1e6) | st.none() | st.sampled_from([np.inf, -np.inf]), min_size=2, max_size=60),
        st.lists(st.sampled_from(["", "0", "1.5", "-2", "7", "8", "9"]), min_size=2, max_size=60),
        st.lists(st.just(0.0) | st.floats(-1, 1), min_size=2, max_size=60),
        st.lists(st.booleans(), min_size=2, max_size=60),
    )
)
def test_every_example_is_in_one_slice_of_a_column(column: list) -> None:
    parts = slices_of(pd.DataFrame({"x": column}))
    if parts:
        assert np.array_equal(np.sum([one.rows for one in parts], axis=0), np.ones(len(column)))
        assert all(one.rows.any() for one in parts) and len(parts) <= MOST_VALUES + 1
        assert len({one.name for one in parts}) == len(parts) > 1


TEXTS = [f"t{n % 20}" for n in range(200)] + ["t3"]


test_columns_are_cut_by_hand = by_hand(
    *((name, wanted, lambda column=column: {
        one.name: int(one.rows.sum()) for one in slices_of(pd.DataFrame({"x": column}))}) for name, column, wanted in (
        ("quartiles, as in a CSV", [str(n) for n in range(100)],
         {"0 to 24": 25, "25 to 49": 25, "50 to 74": 25, "75 to 99": 25}),
        ("gaps", [str(n) if n % 2 else "" for n in range(80)],
         {"1 to 19": 10, "21 to 39": 10, "41 to 59": 10, "61 to 79": 10, "missing": 40}),
        ("texts with gaps", ["a", "", "b", ""], {"a": 1, "b": 1, "missing": 2}),
        ("mostly zero", [0.0] * 90 + [*range(1, 11)], {"0": 90, "1 to 10": 10}),
        ("about zero", [*range(-6, 0), *[0] * 90, *range(1, 5)], {"-6 to -1": 6, "0": 90, "1 to 4": 4}),
        ("infinite", [*range(6), *[np.inf] * 6], {"0 to 2": 3, "3 to 5": 3, "inf": 6}),
        ("all apart", [f"row {n}" for n in range(50)], {}),
        ("all alike", ["a"] * 50, {}))),
    ("many texts are joined", (MOST_VALUES, "t3", "other values"),
     lambda parts: (len(parts), parts[0].name, parts[-1].name), slices_of(pd.DataFrame({"x": TEXTS}))),
    ("both columns have slices", ["x", "y"], sliceable, pd.DataFrame({"x": TEXTS, "y": range(201)})),
)  # fmt: skip


@pytest.mark.parametrize("metric", ["accuracy", "nll"])
def test_differences_are_those_of_the_slices_own_examples(metric: str) -> None:
    graft, tuned, few = answers(1, 1.0), answers(2, 2.0), LEAST[metric] - 1
    columns = class_column(graft.labels, graft.ids, ("negative", "positive")).assign(
        words=np.arange(N), rare=np.where(np.arange(N) < few, "x", "y")
    )
    table = slice_differences(graft, tuned, columns, metric)
    assert tuple(table.columns) == COLUMNS and len(table) == 2 + 4 + 2
    (row, small), mask = (table[table["name"] == name].iloc[0] for name in ("negative", "x")), graft.labels == 0
    wanted = metric_difference(graft.logits[mask], tuned.logits[mask], graft.labels[mask], metric)
    assert (row["value"], row["low"], row["high"]) == pytest.approx(wanted[:3])
    assert pd.isna(row["gained"]) if metric == "nll" else (row["gained"], row["lost"]) == wanted[4:]
    assert row["n"] == mask.sum() and row["value"] == pytest.approx(row["graft"] - row["finetuned"])
    assert small["n"] == few and np.isnan(small["low"]) and np.isfinite(small["value"])
    ranked, first = worst_first(table, metric), int(table["low"].notna().sum())
    assert ranked["low"].isna().tolist() == [False] * first + [True] * (len(table) - first)
    assert (ranked["value"][:first] * (1 if metric == "accuracy" else -1)).is_monotonic_increasing


def test_columns_are_matched_by_id() -> None:
    graft, tuned = answers(1, 1.0), answers(2, 2.0)
    columns = class_column(graft.labels, graft.ids, ("negative", "positive"))
    table, turned, wrong = (
        slice_differences(graft, tuned, frame, "accuracy")
        for frame in (columns, columns.iloc[::-1], columns.set_axis(columns.index[::-1]))
    )
    pd.testing.assert_frame_equal(turned, table)
    assert not turned.equals(wrong)


GRAFT = answers(1, 1.0)
CLASSES = class_column(GRAFT.labels, GRAFT.ids, ("a", "b"))
test_another_metric_is_refused = refused(
    BadInput,
    ("'f1' is not a metric of slices; known: accuracy, nll", slice_differences, GRAFT, GRAFT, CLASSES, "f1"),
)
test_other_examples_are_refused = refused(
    ValueError, ("same examples", slice_differences, GRAFT, GRAFT.take(np.arange(N)[::-1]), CLASSES, "nll")
)
