"""Tests of the sentences on several runs: claims need a supporting interval, and every limit has its reason."""

from __future__ import annotations

import pandas as pd

from skillviz.show.entries import Entry, run_labels
from skillviz.ui.chip import lead_of
from skillviz.ui.pages import compare
from skillviz.ui.pages.compare import MOST, localizers_at, seeds_of, sides, to_begin_with
from tests.show import test_entries
from tests.ui.test_chip import chips


def entry(run_id: str, **fields) -> Entry:
    return test_entries.entry(**{"id": run_id, **fields})


def table(*rows: tuple) -> pd.DataFrame:
    columns = ["run", "metric", "value", "low", "high", "n", "p", "gained", "lost"]
    return pd.DataFrame(rows, columns=columns).assign(debiased=float("nan"))


class FakeRun:
    """A run whose record has nothing but its id."""

    id = "x"
    record = None


def three_sides(**changed) -> list:
    entries = [entry(f"r{i}", **changed) for i in range(3)]
    return list(sides(entries, [FakeRun()] * 3))


def test_better_and_worse_only_where_the_interval_leaves_out_zero() -> None:
    rows = table(
        ("B", "accuracy", 0.03, 0.01, 0.05, 100, 0.002, 9, 1),
        ("C", "accuracy", 0.03, -0.01, 0.05, 100, 0.3, 5, 2),
        ("B", "ece", 0.03, 0.01, 0.05, 100, None, None, None),
        ("C", "ece", -0.03, -0.05, -0.01, 100, None, None, None),
    )
    baseline = three_sides()[0]
    lead = lead_of(rows, "accuracy", "run", ["A", "B", "C"])
    said = chips(compare.summary(lead, baseline, "grafted"))
    assert said.startswith("Accuracy of the grafts: **B** better +3.0 points (95%: 1.0–5.0) vs **")
    first = lead_of(rows, "accuracy", "run", ["A", "C", "B"])
    assert "**C** no clear difference" in chips(compare.summary(first, baseline, "grafted"))
    for row in (lead, first):
        assert compare.summary(row, baseline, "grafted").count("-badge[") == 1, "the others are below the figures"


def test_the_only_other_run_has_its_interval_whatever_the_verdict() -> None:
    rows = table(("B", "accuracy", 0.03, -0.01, 0.05, 100, 0.3, 5, 2))
    said = chips(compare.summary(rows, three_sides()[0], "grafted"))
    assert "**B** no clear difference +3.0 points (95%: −1.0 to 5.0)" in said


def test_names_of_runs_are_never_read_as_markdown() -> None:
    rows = table(("![x](http://x)", "accuracy", 0.03, 0.01, 0.05, 100, 0.002, 9, 1))
    assert "![x](" not in compare.summary(rows, three_sides()[0], "grafted")
    assert "![x](" not in "".join(compare.mcnemar(rows, "![x](http://x)"))


def test_without_a_shared_example_nothing_is_claimed() -> None:
    lead = lead_of(table(), "accuracy", "run", ["A", "B"])
    assert "No other run was scored" in compare.summary(lead, three_sides()[0], "grafted")


def test_mcnemar_in_words() -> None:
    rows = table(("B", "accuracy", 0.03, 0.01, 0.05, 1821, 0.0000001, 90, 10))
    (line,) = compare.mcnemar(rows, "A")
    assert all(number in line for number in ("**B**", "below 0.001", "1,821", "right on 90", "A on 10"))
    assert compare.mcnemar(table(("B", "f1", 0.0, 0.0, 0.0, 9, None, None, None)), "A") == []


def test_unknown_ids_are_shown_as_they_are() -> None:
    warning = compare.unknown(["no-such_run"])
    assert r"no-such\_run" in warning and "SKILLVIZ_RUNS" in warning


def many_entries() -> list[Entry]:
    entries = [entry(f"m{seed}", localizer="movement", seed=seed) for seed in range(8)]
    entries += [entry(name, localizer=name) for name in ("random", "stagewise", "mine")]
    return [*entries, entry("big", localizer="random", size=999), entry("far", pair=("x", "y", "z", "", ""))]


def test_all_localizers_at_this_size_begin_with_the_baseline() -> None:
    entries = many_entries()
    assert localizers_at(entries, entries[1]) == ["m1", "stagewise", "random", "mine"]


def test_all_seeds_of_a_localizer_are_at_most_six() -> None:
    entries = many_entries()
    assert seeds_of(entries, entries[2]) == ["m2", "m0", "m1", "m3", "m4", "m5"] and MOST == 6


def test_the_only_run_of_its_pair_gives_way_to_the_pair_studied_most() -> None:
    entries = many_entries()
    assert len(to_begin_with(entries, entries[-1])) > 1 and "far" not in to_begin_with(entries, entries[-1])
    assert to_begin_with(entries[-1:], entries[-1]) == ["far"]


def test_a_users_own_runs_come_before_those_that_ship() -> None:
    shipped = [entry(f"s{seed}", localizer=name, seed=seed) for name in ("random", "movement") for seed in range(2)]
    own_pair, other = ("mine", "tuned", "own", "x", "head"), ("mine", "tuned2", "else", "y", "head")
    own = {"is_of_user": True, "pair": own_pair, "task": "own"}
    older = entry("older", localizer="random", created="2026-02-01", **own)
    newest = entry("newest", localizer="stagewise", created="2026-02-02", **own)
    assert to_begin_with([newest, older, *shipped], newest) == ["newest", "older"]
    demo = entry("demo", localizer="stagewise", is_of_user=True, created="2026-02-03")
    assert to_begin_with([demo, *shipped], demo)[0] == "demo", "a run of a pair that ships has its company"
    single = entry("single", is_of_user=True, pair=other, task="else", created="2026-02-04")
    assert to_begin_with([single, newest, older, *shipped], single) == ["newest", "older"], "the newest with company"
    assert to_begin_with([single, older, *shipped], single) == ["single", "older"], "or the newest"
    kin = entry("kin", is_of_user=True, pair=(*other[:1], "tuned3", *other[2:]), task="else", created="2026-01-05")
    assert to_begin_with([single, kin, newest, older], single) == ["single", "kin"], "two models on one task"
    assert "single" not in to_begin_with([single, *shipped], single), "its only run has nothing to be compared with"


def test_every_localizer_comes_at_its_usual_settings() -> None:
    like = entry("like", localizer="stagewise")
    other = tuple((name, "7" if name == "steps" else value) for name, value in like.settings)
    variants = [entry(f"a{n}", localizer="learned-ranked", seed=n, settings=other) for n in range(3)]
    plain = entry("plain", localizer="learned-ranked", seed=5, settings=like.settings)
    assert localizers_at([like, *variants, plain], like) == ["like", "plain"]


def test_what_opens_first_is_at_default_settings() -> None:
    like = entry("like", localizer="stagewise")
    other = tuple((name, "64" if name == "batch_size" else value) for name, value in like.settings)
    small = entry("small", localizer="learned-ranked", settings=other)
    entries = [like, small, entry("plain", localizer="random")]
    assert to_begin_with(entries, like) == ["like", "plain"] and "small" in localizers_at(entries, like)
    assert to_begin_with(entries[:2], like) == ["like", "small"], "where nothing else is there to compare with"
    assert [side.name for side in sides([small, small], [FakeRun()] * 2)][0] == "learned, ranked, batch size 64"


def test_a_size_of_its_own_is_compared_with_default_runs_one_a_localizer_the_nearest_size_first() -> None:
    like = entry("like", localizer="biases", size=300)
    other = tuple((name, "100" if name == "steps" else value) for name, value in like.settings)
    variants = [entry(f"a{n}", localizer="learned-ranked", size=300 + n, settings=other) for n in range(1, 7)]
    far = [entry("far", localizer="stagewise", size=9000), entry("random", localizer="random", size=9000)]
    near = [entry("near", localizer="stagewise", size=400), entry("again", localizer="stagewise", size=400, seed=1)]
    assert to_begin_with([*variants, *far, *near, like], like) == ["like", "near", "random"]
    assert to_begin_with([*variants, like], like) == ["like", "a1"], "no other localizer has a run at default settings"
    alone = [like, entry("more", localizer="biases", size=500)]
    assert to_begin_with(alone, like) == ["like", "more"], "nor any run of another localizer"


def test_names_in_the_box_are_unique() -> None:
    entries = [*many_entries(), entry("twin-000001", localizer="random"), entry("twin-000002", localizer="random")]
    assert len(set(run_labels(entries).values())) == len(entries)
