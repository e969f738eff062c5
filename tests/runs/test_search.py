"""Tests of the number of searches for a set of sizes, and that the ranking starts with the main region."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.localizers.record import LocalizerStep, Selection
from skillviz.core.localizers.table import Localizer
from skillviz.core.localizers.table import localizer as row_of
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile
from skillviz.runs.search import Searched, search
from skillviz.runs.spec import RunSpec
from skillviz.runs.tables import check

D = 100


def searched(localizer: Localizer, sizes: list[int], seed: int = 0) -> Searched:
    """Run a search for these sizes; return its result."""
    result = Searched()
    for _ in search(localizer, None, sizes, seed, Options(), result):
        pass
    return result


@dataclass(frozen=True)
class Options:
    steps: int = 2


def row(budgeted: bool = True, nested: bool = False) -> tuple[Localizer, list[int]]:
    """Return a localizer of two steps whose regions of two sizes differ, and the list of its target sizes."""
    targets: list[int] = []

    def run(problem: Any, size: int, *, seed: int, options: Options) -> Generator[LocalizerStep, None, Selection]:
        targets.append(size)
        for step in range(1, options.steps + 1):
            yield LocalizerStep(step, float("nan") if nested else 0.5, size, size, 0)
        draw = np.random.default_rng(seed if nested else [seed, size]).permutation(D)
        return Selection(draw[: size if budgeted else 7], ("a remark",))

    class Planted(Localizer):
        def search(self, problem: Any, size: int, *, seed: int, options: Any, resume: Any = None) -> Any:
            return run(problem, size, seed=seed, options=options)

    promises = {"budgeted": budgeted, "nested": nested, "seeded": True}
    return Planted(**{**vars(row_of("random")), "name": "x", "options": Options, **promises}), targets


def test_nested_localizers_search_once_at_the_largest_size() -> None:
    localizer, targets = row(nested=True)
    result = searched(localizer, [10, 5, 40])
    assert targets == [40]
    assert result.size == 10 and list(result.orders) == [10, 5, 40]
    assert np.array_equal(result.orders[5], result.orders[40][:5])
    assert np.array_equal(result.ranking(), result.orders[40])


def test_others_search_for_each_size_once() -> None:
    localizer, targets = row()
    result = Searched()
    records = list(search(localizer, None, [10, 5, 40, 10], 0, Options(), result))
    assert targets == [10, 5, 40]
    assert [(r.target, r.step.step) for r in records] == [(10, 1), (10, 2), (5, 1), (5, 2), (40, 1), (40, 2)]
    assert [(r.number, r.searches) for r in records] == [(n, 3) for n in (1, 1, 2, 2, 3, 3)]
    assert {size: len(order) for size, order in result.orders.items()} == {10: 10, 5: 5, 40: 40}
    assert result.notes == ["a remark"]


def test_without_a_budget_the_size_is_an_outcome_of_one_search() -> None:
    localizer, targets = row(budgeted=False)
    result = searched(localizer, [10, 40])
    assert len(targets) == 1
    assert list(result.orders) == [7] and result.size == 7


@given(st.lists(st.integers(1, D), min_size=1, max_size=4, unique=True), st.integers(0, 5))
def test_the_ranking_names_each_entry_once_and_begins_with_the_main_region(sizes: list[int], seed: int) -> None:
    localizer, _ = row()
    result = searched(localizer, sizes, seed)
    ranking = result.ranking()
    assert len(np.unique(ranking)) == len(ranking)
    assert np.array_equal(ranking[: sizes[0]], result.orders[sizes[0]])
    larger = [result.orders[s] for s in sizes if s >= sizes[0]]
    assert set(ranking) == set(np.concatenate(larger))


def test_the_history_fits_its_table_and_an_undefined_loss_is_missing() -> None:
    for nested in (True, False):
        localizer, _ = row(nested=nested)
        frame = searched(localizer, [10, 40], 3).table()
        checked = check(frame, "history")
        assert len(checked) == (2 if nested else 4)
        assert checked["loss"].isna().all() == nested
        assert set(checked["target"]) == ({40} if nested else {10, 40})
    assert len(check(Searched().table(), "history")) == 0
