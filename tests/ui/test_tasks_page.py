"""Tests of the sentences on isolation, transfer and unions: a claim needs an interval that excludes zero."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.plots.tasks import CHOSEN, SINGLE, UNION_OF
from skillviz.show import tasks as exhibits
from skillviz.show.tasks import NO_INTERVALS
from skillviz.ui.pages import tasks
from tests.tables import plain
from tests.ui.test_chip import chips


def isolation(gap: tuple[float, float, float] | None, **changes: float) -> pd.DataFrame:
    rows = [("related", 0.3, 0.25, 0.35), ("unrelated", 0.1, 0.08, 0.12)]
    if gap is not None:
        rows.append(("related - unrelated", *gap))
    told = {
        "kind": "overlap",
        "chance": 0.03,
        "chance_low": 0.02,
        "chance_high": 0.04,
        "pairs": 4,
        "seeds": 3,
        **changes,
    }
    return pd.DataFrame([{"relation": r, "value": v, "low": a, "high": b, **told} for r, v, a, b in rows])


def test_more_less_or_open_is_read_off_the_interval() -> None:
    more = tasks.isolation(isolation((0.2, 0.1, 0.3)), "overlap")
    assert more.count("-badge[") == 1
    assert chips(plain(more)) == (
        "**Related tasks share more** confirmed: related 30.0% (25.0–35.0), unrelated 10.0% (8.0–12.0) "
        "of one region's entries; difference +20.0 points (95%: 10.0–30.0, 3 mask seeds); by chance 3% (95%: 2–4%)."
    )
    assert "share more** contradicted: " in chips(tasks.isolation(isolation((-0.2, -0.3, -0.1)), "overlap"))
    assert "share more** inconclusive: " in chips(tasks.isolation(isolation((0.2, -0.1, 0.5)), "overlap"))


def test_one_seed_or_no_kin_decides_nothing() -> None:
    one = chips(plain(tasks.isolation(isolation((0.2, np.nan, np.nan)), "overlap")))
    assert "not measured: " in one and "difference +20.0 points (one mask seed, so no interval)" in one
    alone = isolation(None)
    said = plain(tasks.isolation(alone[alone["relation"] == "unrelated"], "overlap"))
    assert "unrelated 10.0%" in said and "No two of these tasks are of one family" in said
    assert plain(tasks.isolation(alone, "iou")) == "No two regions were compared."


GAIN = pd.DataFrame(
    [
        ("a", "a", 0.9, 0.8, 1.0), ("b", "b", 0.6, 0.5, 0.7), ("a", "b", 0.3, 0.1, 0.5), ("b", "a", 0.1, -0.1, 0.3),
        ("a", "c", -0.3, -0.5, -0.1), ("ab", "a", 1.0, 0.9, 1.1), ("c", "c", np.nan, np.nan, np.nan),
    ],
    columns=["of", "task", "value", "low", "high"],
)  # fmt: skip
GAIN = GAIN.assign(region_tasks=GAIN.pop("of").map(lambda names: tuple(names)))


def test_transfer_counts_what_leaves_out_nought() -> None:
    kin = {("a", "b"): "related", ("b", "a"): "related", ("a", "c"): "unrelated"}
    said = plain(tasks.transfer(GAIN, kin))
    span = "between **60.0%** and **90.0%** of the multi-task model's gain on its own task, depending on the task. "
    assert f"A region recovers {span}" in said, "the ends of a range over tasks are not written as an interval's"
    assert "In 2 pairs of related tasks, one task's region helps the other in 1 and harms it in 0" in said
    assert "In 1 pair of unrelated tasks, one task's region helps the other in 0 and harms it in 1" in said
    assert "Of 3 comparisons, 2 exclude zero; chance alone would give about 0.2. 2 hold" in said
    assert plain(tasks.transfer(GAIN.iloc[:0], kin)) == ""


def test_without_an_interval_nothing_is_counted_and_it_is_said_once() -> None:
    without = GAIN.assign(low=np.nan, high=np.nan)
    said = plain(tasks.transfer(without, {("a", "b"): "related", ("b", "a"): "related", ("a", "c"): "unrelated"}))
    assert said == (
        "A region recovers between **60.0%** and **90.0%** of the multi-task model's gain on its own task, "
        f"depending on the task. {NO_INTERVALS}"
    )
    rows = without[without["value"].notna()].assign(what=CHOSEN).drop_duplicates("task")
    union = plain(tasks.union_words(rows, ("a",)))
    assert (
        union.startswith("The region of a recovers **90%** on a; outside it, **60%** on b") and "interval" not in union
    )


def test_figures_of_gains_say_what_their_intervals_are_or_that_there_are_none() -> None:
    gain = GAIN.assign(purified=False, what=CHOSEN, n=100, seeds=3)
    for draw in (lambda rows: exhibits.gain(rows, ("a", "b", "c"), "light"),
                 lambda rows: exhibits.union(rows.drop_duplicates("task"), ("a",), "light")):  # fmt: skip
        with_, without = draw(gain), draw(gain.assign(low=np.nan, high=np.nan))
        assert NO_INTERVALS in without.reads and without.intervals == "" and "95% interval" not in without.reads
        assert NO_INTERVALS not in with_.reads and with_.intervals and "95% interval" in with_.reads


def test_one_task_has_no_span() -> None:
    said = plain(tasks.transfer(GAIN.iloc[:1], {}))
    assert said.startswith("A region recovers **90.0%** of the multi-task model's gain on its own task.")


def test_a_union_is_told_inside_and_outside() -> None:
    rows = pd.DataFrame(
        [("a", UNION_OF, 0.9, 0.8, 1.0), ("b", UNION_OF, 0.2, -0.1, 0.5), ("c", UNION_OF, 0.3, 0.1, 0.5)],
        columns=["task", "what", "value", "low", "high"],
    )
    said = plain(tasks.union_words(rows, ("a", "b")))
    assert "The union of a and b recovers **90%** (80–100) on a and **20%** (−10 to 50) on b" in said
    assert said.endswith("outside it, **30%** (10–50) on c.")
    single = pd.concat([rows.assign(what=CHOSEN), rows[rows["task"] == "b"].assign(what=SINGLE)])
    assert plain(tasks.union_words(single, ("a",))).startswith(
        "The region of a recovers **90%** (80–100) on a; outside"
    )


def test_tasks_without_a_gain_are_named_once_and_never_given_a_number() -> None:
    rows = pd.DataFrame(
        [("a", UNION_OF, 0.9, 0.8, 1.0), ("c", UNION_OF, 0.3, 0.1, 0.5)],
        columns=["task", "what", "value", "low", "high"],
    )
    one = plain(tasks.union_words(rows, ("a", "b"), ("b",)))
    assert one == (
        "The union of a and b recovers **90%** (80–100) on a; outside it, **30%** (10–50) on c. "
        "On b the multi-task model gains nothing."
    )
    outside = plain(tasks.union_words(rows[1:], ("a", "b"), ("a", "b")))
    assert outside.startswith("Outside it, the union of a and b recovers **30%** (10–50) on c.")
    none = plain(tasks.union_words(rows[:0], ("a", "b"), ("a", "b")))
    assert none.startswith(
        "There is no gain for the union of a and b to recover. On a and b the multi-task model gains nothing."
    )
    assert "n/a" not in one + outside + none
