"""Tests of the opening page: the run that it shows, and its numbers."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from skillviz.analysis.null_measures import by_measure
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.runs.store import Store, shipped_root
from skillviz.show import home
from skillviz.show.entries import ENOUGH, OPENING_PAIR, Entry, entry_of, headline_scores, hero, opening_entry


def shipped() -> list[Entry]:
    return [
        entry_of(run, is_of_user=False) for run in Store(shipped_root()).list() if run.spec.finetuned == OPENING_PAIR[1]
    ]


def test_the_opening_is_a_real_run_that_ships() -> None:
    chosen = hero(shipped())
    assert chosen is not None and chosen.localizer == DEFAULT_LOCALIZER and (chosen.recovered or 0) >= ENOUGH
    run = Store(shipped_root()).open(chosen.id)
    scores = headline_scores(run.record)
    assert scores is not None and scores.recovered is not None
    copied, gain, null, calibration = home.numbers(run.record, scores, "test", by_measure(run, "test"))
    assert null.title == "Beyond the null" and null.verdict == "better" and "shared probability" in null.basis
    without = home.numbers(run.record, scores, "test", pd.DataFrame())[2]
    assert without.value != null.value and without.value in null.basis, "accuracy, where the other is not measured"
    assert copied.basis.startswith(f"{chosen.size:,} of")
    assert gain.value.startswith(f"{100 * (scores.recovered.value or 0):.0f}") and "95" in gain.basis
    graft, tuned = (scores.states[state]["ece"].read or 0 for state in ("grafted", "finetuned"))
    assert f"{100 * tuned:.1f}" in calibration.value and f"{100 * graft:.1f}" in calibration.value
    assert calibration.verdict == "better" and "95%" in calibration.basis
    assert f"{scores.n:,}" in home.sentence(run.record, scores)


def test_the_smallest_region_with_enough_of_the_gain_is_shown() -> None:
    first = hero(shipped())
    assert first is not None
    less = replace(first, id="less", size=first.size // 2, recovered=ENOUGH - 0.01)
    small = replace(first, id="small", size=first.size // 2, recovered=ENOUGH)
    seed = replace(small, id="seed", seed=1)
    assert hero([first, less]) == first and hero([seed, first, small]) == small
    little = replace(first, recovered=0.5)
    assert hero([less, little]) == little, "the largest where none brings back enough"
    assert hero([replace(first, localizer="movement")]) is None and hero([]) is None
    assert hero([replace(first, is_of_user=True)]) is None
    assert opening_entry([replace(first, is_of_user=True)]).is_of_user


def test_what_was_not_measured_is_not_told() -> None:
    chosen = hero(shipped())
    assert chosen is not None
    run = Store(shipped_root()).open(chosen.id)
    scores = headline_scores(run.record)
    assert scores is not None
    bare = scores.model_copy(update={"recovered": None, "differences": {}})
    numbers = {
        number.title: number.verdict
        for number in home.numbers(run.record.model_copy(update={"nulls": ()}), bare, "test", pd.DataFrame())
    }
    assert numbers == {"Parameters copied": None, "Beyond the null": "not measured"}
