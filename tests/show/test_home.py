"""The opening: which run it is about, and its numbers."""

from __future__ import annotations

from dataclasses import replace

from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.runs.store import Store, shipped_root
from skillviz.show import home
from skillviz.show.entries import ENOUGH, HERO, OPENING_PAIR, Entry, entry_of, headline_scores, hero, opening_entry


def shipped() -> list[Entry]:
    return [entry_of(run, is_of_user=False) for run in Store(shipped_root()).list() if run.spec.finetuned == HERO]


def test_the_opening_is_a_real_run_that_ships() -> None:
    chosen = hero(shipped())
    assert chosen is not None and chosen.localizer == DEFAULT_LOCALIZER and (chosen.recovered or 0) >= ENOUGH
    run = Store(shipped_root()).open(chosen.id)
    scores = headline_scores(run.record)
    assert scores is not None and scores.recovered is not None
    copied, gain, null, calibration = home.numbers(run.record, scores)
    assert null.title == "Beyond the null" and (null.verdict == "not measured") == (not run.record.nulls)
    assert copied.basis.startswith(f"{chosen.size:,} of")
    assert gain.value.startswith(f"{100 * (scores.recovered.value or 0):.0f}") and "95" in gain.basis
    graft, tuned = (scores.states[state]["ece"].value or 0 for state in ("grafted", "finetuned"))
    assert f"{100 * tuned:.1f}" in calibration.value and f"{100 * graft:.1f}" in calibration.value
    assert calibration.verdict == "better" and "debiased" in calibration.basis
    assert f"{scores.n:,}" in home.sentence(run.record, scores)


def test_the_smallest_region_with_enough_of_the_gain_is_shown() -> None:
    (first, *_) = (replace(entry, finetuned=HERO) for entry in shipped() if entry == hero(shipped()))
    less = replace(first, id="less", size=first.size // 2, recovered=ENOUGH - 0.01)
    small = replace(first, id="small", size=first.size // 2, recovered=ENOUGH)
    assert hero([first, less]) == first and hero([first, small]) == small
    assert hero([replace(first, is_of_user=True)]) is None and hero([]) is None
    assert opening_entry([replace(first, is_of_user=True)]).is_of_user


def test_the_opening_pairs_run_at_a_tenth_of_a_percent_goes_first() -> None:
    (other, *_) = (entry for entry in shipped() if entry == hero(shipped()))
    base, finetuned = OPENING_PAIR
    pair = replace(other, base=base, finetuned=finetuned, pair=("mr",), recovered=0.5)
    sizes = [replace(pair, id=str(count), size=count, d=1_000_000) for count in (100, 1_000, 10_000)]
    seed = replace(sizes[1], id="seed", seed=1)
    assert hero([other, seed, *sizes]) == sizes[1], "whatever it brings back"
    assert hero([other, replace(sizes[1], localizer="movement")]) == other


def test_what_was_not_measured_is_not_told() -> None:
    chosen = hero(shipped())
    assert chosen is not None
    run = Store(shipped_root()).open(chosen.id)
    scores = headline_scores(run.record)
    assert scores is not None
    bare = scores.model_copy(update={"recovered": None, "differences": {}})
    numbers = {
        number.title: number.verdict for number in home.numbers(run.record.model_copy(update={"nulls": ()}), bare)
    }
    assert numbers == {"Parameters copied": None, "Beyond the null": "not measured"}
