"""Tests of slices: each example is in exactly one slice of a column; differences match the examples; losses first."""

from __future__ import annotations

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

N = 800
values = st.one_of(
    st.lists(st.sampled_from("abcdef") | st.none(), min_size=2, max_size=60),
    st.lists(st.integers(-3, 300), min_size=2, max_size=60),
    st.lists(st.floats(-1e6, 1e6) | st.none() | st.sampled_from([np.inf, -np.inf]), min_size=2, max_size=60),
    st.lists(st.sampled_from(["", "0", "1.5", "-2", "7", "8", "9"]), min_size=2, max_size=60),
    st.lists(st.just(0.0) | st.floats(-1, 1), min_size=2, max_size=60),
    st.lists(st.booleans(), min_size=2, max_size=60),
)


def answers(seed: int, skill: float) -> Answers:
    generator = np.random.default_rng(seed)
    labels = np.random.default_rng(0).integers(0, 2, N)
    logits = generator.normal(size=(N, 2))
    logits[np.arange(N), labels] += skill
    return Answers(np.array([f"test-{n}" for n in range(N)], dtype=object), labels, logits)


@settings(max_examples=100, deadline=None)
@given(values)
def test_every_example_is_in_one_slice_of_a_column(column: list) -> None:
    parts = slices_of(pd.DataFrame({"x": column}))
    if parts:
        assert np.array_equal(np.sum([one.rows for one in parts], axis=0), np.ones(len(column)))
        assert all(one.rows.any() for one in parts) and len(parts) <= MOST_VALUES + 1
        assert len({one.name for one in parts}) == len(parts) > 1


def test_numbers_are_cut_at_quartiles_and_many_texts_are_joined() -> None:
    numbers = slices_of(pd.DataFrame({"x": [str(n) for n in range(100)]}))  # text, the form that CSV files give
    assert [one.name for one in numbers] == ["0 to 24", "25 to 49", "50 to 74", "75 to 99"]
    assert [int(one.rows.sum()) for one in numbers] == [25] * 4
    texts = pd.DataFrame({"x": [f"t{n % 20}" for n in range(200)] + ["t3"]})
    named = slices_of(texts)
    assert len(named) == MOST_VALUES and named[0].name == "t3" and named[-1].name == "other values"
    assert slices_of(pd.DataFrame({"id": [f"row {n}" for n in range(50)], "same": ["a"] * 50})) == []
    assert sliceable(texts.assign(y=range(201))) == ["x", "y"]


def test_numbers_with_gaps_infinities_or_mostly_one_value_are_cut_too() -> None:
    def cut(column: list) -> dict[str, int]:
        return {one.name: int(one.rows.sum()) for one in slices_of(pd.DataFrame({"x": column}))}

    gaps = [str(n) if n % 2 else "" for n in range(80)]  # an empty cell of a CSV file
    assert cut(gaps) == {"1 to 19": 10, "21 to 39": 10, "41 to 59": 10, "61 to 79": 10, "missing": 40}
    assert cut(["a", "", "b", ""]) == {"a": 1, "b": 1, "missing": 2}
    assert cut([0.0] * 90 + [*range(1, 11)]) == {"0": 90, "1 to 10": 10}
    assert cut([*range(-6, 0), *[0] * 90, *range(1, 5)]) == {"-6 to -1": 6, "0": 90, "1 to 4": 4}
    assert cut([*range(6), *[np.inf] * 6]) == {"0 to 2": 3, "3 to 5": 3, "inf": 6}


def test_differences_are_those_of_the_slices_own_examples() -> None:
    graft, tuned = answers(1, 1.0), answers(2, 2.0)
    columns = class_column(graft.labels, graft.ids, ("negative", "positive")).assign(
        words=np.arange(N),
        rare=["x" if n < LEAST["accuracy"] - 1 else "y" for n in range(N)],
        some=["x" if n < LEAST["nll"] - 1 else "y" for n in range(N)],
    )
    for metric, column in (("accuracy", "rare"), ("nll", "some")):
        table = slice_differences(graft, tuned, columns, metric)
        assert tuple(table.columns) == COLUMNS and len(table) == 2 + 4 + 2 + 2
        row = table[table["name"] == "negative"].iloc[0]
        mask = graft.labels == 0
        wanted = metric_difference(graft.logits[mask], tuned.logits[mask], graft.labels[mask], metric)
        assert (row["value"], row["low"], row["high"]) == pytest.approx(wanted[:3])
        assert pd.isna(row["gained"]) if metric == "nll" else (row["gained"], row["lost"]) == wanted[4:]
        assert row["n"] == mask.sum() and row["value"] == pytest.approx(row["graft"] - row["finetuned"])
        small = table[(table["name"] == "x") & (table["column"] == column)].iloc[0]
        assert small["n"] == LEAST[metric] - 1 and np.isnan(small["low"]) and np.isfinite(small["value"])
        ranked = worst_first(table, metric)
        few = int(table["low"].isna().sum())
        assert ranked["low"].isna().tolist() == [False] * (len(table) - few) + [True] * few
        ordered = ranked["value"].to_numpy()[: len(table) - few]
        assert (np.diff(ordered) >= 0).all() if metric == "accuracy" else (np.diff(ordered) <= 0).all()


def test_columns_are_matched_by_id() -> None:
    graft, tuned = answers(1, 1.0), answers(2, 2.0)
    columns = class_column(graft.labels, graft.ids, ("negative", "positive"))
    turned = slice_differences(graft, tuned, columns.iloc[::-1], "accuracy")
    pd.testing.assert_frame_equal(turned, slice_differences(graft, tuned, columns, "accuracy"))
    wrong = columns.set_axis(columns.index[::-1])
    assert not turned.equals(slice_differences(graft, tuned, wrong, "accuracy"))


def test_what_does_not_fit_is_refused() -> None:
    graft = answers(1, 1.0)
    columns = class_column(graft.labels, graft.ids, ("a", "b"))
    with pytest.raises(BadInput, match="'f1' is not a metric of slices; known: accuracy, nll"):
        slice_differences(graft, graft, columns, "f1")
    with pytest.raises(ValueError, match="same examples"):
        slice_differences(graft, graft.take(np.arange(N)[::-1]), columns, "nll")
