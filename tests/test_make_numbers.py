"""Tests of recomputing the intervals of stored tables: the changed columns, and the unchanged ones."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import check
from tests.scripts import script
from tests.studies.fake_tables import FAKE_TABLES, TASKS


@pytest.fixture(scope="module")
def numbers() -> ModuleType:
    return script("docs/make_numbers.py")


def table(name: str) -> pd.DataFrame:
    return check(FAKE_TABLES[name](TASKS, np.random.default_rng(0)), name)


@pytest.mark.parametrize("name", ["scores", "differences", "recovered", "stages", "overlap"])
def test_intervals_follow_and_every_other_number_stays(numbers: ModuleType, name: str) -> None:
    stored = table(name)
    ends = [column for column in stored if numbers.follows(column) and stored[column].dtype.kind == "f"]
    made = stored.assign(**{column: stored[column] + 1 for column in ends}).sample(frac=1, random_state=0)
    found, missing = numbers.renewed(stored, made.reset_index(drop=True), name)
    assert missing == 0
    rest = [column for column in stored if column not in ends]
    pd.testing.assert_frame_equal(found[rest], stored[rest])
    pd.testing.assert_frame_equal(found[ends], stored[ends] + 1)


def test_a_row_of_other_numbers_keeps_its_own_interval(numbers: ModuleType) -> None:
    """If one of three seeds is missing in the store, a mean of two must not give its interval to the mean of three."""
    stored = table("scores")
    made = stored.assign(low=0.0, high=1.0)
    made.loc[3, "mean"] += 1e-6
    made = made.drop(index=5)
    found, missing = numbers.renewed(stored, made.reset_index(drop=True), "scores")
    assert missing == 2
    assert found.loc[[3, 5], "low"].equals(stored.loc[[3, 5], "low"]) and (found["low"].drop([3, 5]) == 0.0).all()
