"""Tests of CSV for spreadsheets: no text becomes a formula, and every number is read back unchanged."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.analysis.tables import csv_text


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_come_back_to_the_bit(numbers: list[float]) -> None:
    again = pd.read_csv(io.StringIO(csv_text(pd.DataFrame({"value": numbers}))))
    assert np.array_equal(again["value"].to_numpy(float), np.array(numbers))


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
@pytest.mark.parametrize("dtype", ["object", "str", "category"])
def test_a_formula_is_quoted_in_a_cell_and_in_a_heading(text: str, dtype: str) -> None:
    table = pd.DataFrame({text: pd.Series([text, "plain", "-0.25"], dtype=dtype)})
    again = pd.read_csv(io.StringIO(csv_text(table)), dtype=str)
    quoted = "'" + text.replace("\r", "\n")
    assert list(again) == [quoted] and list(again.iloc[:, 0]) == [quoted, "plain", "-0.25"]


def test_several_tasks_of_a_cell_are_joined() -> None:
    assert csv_text(pd.DataFrame({"tasks": [("a", "b")]})) == "tasks\na + b\n"
