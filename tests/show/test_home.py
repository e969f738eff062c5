"""Tests of the opening page: the run that it shows, and its numbers."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from skillviz.analysis.null_measures import by_measure
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.runs.store import Store, shipped_root
from skillviz.show import home
from skillviz.show.entries import ENOUGH, OPENING_PAIR, Entry, entry_of, headline_scores, hero, opening_entry


@pytest.fixture(scope="module")
def shipped() -> list[Entry]:
    runs = [run for run in Store(shipped_root()).list() if run.spec.finetuned == OPENING_PAIR[1]]
    return [entry_of(run, is_of_user=False) for run in runs]


@pytest.fixture(scope="module")
def first(shipped: list[Entry]) -> Entry:
    chosen = hero(shipped)
    assert chosen is not None
    return chosen


def test_the_opening_is_a_real_run_that_ships(first: Entry) -> None:
    assert first.localizer == DEFAULT_LOCALIZER and (first.recovered or 0) >= ENOUGH
    run = Store(shipped_root()).open(first.id)
    scores = headline_scores(run.record)
    assert scores is not None and scores.recovered is not None
    copied, gain, null, calibration = home.numbers(run.record, scores, "test", by_measure(run, "test"))
    assert (null.title, null.verdict, calibration.verdict) == ("Beyond the null", "better", "better")
    without = home.numbers(run.record, scores, "test", pd.DataFrame())[2]
    assert "shared probability" in null.basis
    assert without.value != null.value and without.value in null.basis, "accuracy, where the other is not measured"
    assert copied.basis.startswith(f"{first.size:,} of") and f"{scores.n:,}" in home.sentence(run.record, scores)
    assert gain.value.startswith(f"{100 * (scores.recovered.value or 0):.0f}") and "95" in gain.basis
    errors = [f"{100 * (scores.states[state]['ece'].read or 0):.1f}" for state in ("grafted", "finetuned")]
    assert [error for error in errors if error not in calibration.value] == [] and "95%" in calibration.basis
    bare = scores.model_copy(update={"recovered": None, "differences": {}})
    numbers = home.numbers(run.record.model_copy(update={"nulls": ()}), bare, "test", pd.DataFrame())
    told = {number.title: number.verdict for number in numbers}
    assert told == {"Parameters copied": None, "Beyond the null": "not measured"}, "what was not measured is not told"


def test_the_smallest_region_with_enough_of_the_gain_is_shown(first: Entry) -> None:
    less = replace(first, id="less", size=first.size // 2, recovered=ENOUGH - 0.01)
    small, little = replace(less, id="small", recovered=ENOUGH), replace(first, recovered=0.5)
    mine, other = replace(first, is_of_user=True), replace(first, localizer="movement")
    lists = [first, less], [replace(small, id="seed", seed=1), first, small], [less, little], [other], [], [mine]
    # The third: the largest where none brings back enough.
    assert [hero(one) for one in lists] == [first, small, little, None, None, None]
    assert opening_entry([mine]).is_of_user
