"""Tests of the declared tables of a study, computed from observations written by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.analysis.differences import paired, turned_round
from skillviz.analysis.histogram import histogram
from skillviz.analysis.observations import Observation, once
from skillviz.analysis.recovered import recovered, without_gain
from skillviz.analysis.scores import score_rows, scores
from skillviz.analysis.seeds import Scored, Side, cut, difference_of_differences, difference_over_seeds, mean_over_seeds
from skillviz.analysis.tables import TABLES, check, empty, notes
from skillviz.core.intervals import Interval, metric_difference, tango, wilson
from skillviz.core.many_comparisons import p_values
from skillviz.core.seeds_interval import mean_of_intervals, seeds_and_examples
from skillviz.runs.record import TaskNote
from skillviz.show.comparisons import known_of
from tests.core.drawn_predictions import PROPERTY
from tests.studies.tiny_studies import D, seen

GRAFT = {"localizer": "stagewise", "size": 100.0, "requested_size": "10%"}
RIGHT = "1111011101"


def row_of(frame: pd.DataFrame, **wanted: object) -> pd.Series:
    """Return the only row with these values."""
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1, frame
    return frame.iloc[0]


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_declared_in_words(name: str) -> None:
    columns = TABLES[name].columns
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.meaning for column in columns)
    assert check(empty(name), name).equals(empty(name))


def test_a_table_that_is_not_as_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="missing columns"):
        check(pd.DataFrame({"kind": ["iou"]}), "overlap")
    with pytest.raises(ValueError, match=r"unknown columns \['texts'\]"):
        check(pd.DataFrame({"texts": []}), "note")
    with pytest.raises(ValueError, match="missing values"):
        check(pd.DataFrame({"text": [None]}), "note")
    with pytest.raises(ValueError, match="not a table of a study"):
        check(pd.DataFrame(), "score")


def test_a_sentence_is_noted_once() -> None:
    assert notes("a", "b", "a")["text"].tolist() == ["a", "b"]


def test_one_model_is_averaged_over_its_mask_seeds() -> None:
    values = (0.8, 0.9, 0.7)
    found = [seen(**GRAFT, seed=seed, values={"accuracy": value}) for seed, value in enumerate(values)]
    row = row_of(scores(found), metric="accuracy")
    assert (row["mean"], row["sd"]) == pytest.approx((0.8, 0.1)) and np.isnan([row["low"], row["high"]]).all()
    assert row["seeds"] == 3 and row["share"] == 100 / D
    ends = {"accuracy": (0.55, 0.95)}
    wide = [replace(one, ends=ends, values={"accuracy": value}) for one, value in zip(found, values, strict=True)]
    row = row_of(scores(wide), metric="accuracy")
    by_hand = mean_of_intervals(values, [0.55] * 3, [0.95] * 3)
    assert row["low"] == pytest.approx(by_hand.low)
    assert by_hand.high > 1.02 and row["high"] == 1.0, "an accuracy is no larger than 1, whatever t says"


@pytest.mark.parametrize(
    ("metric", "ends"),
    [("ece", (0.0, 1.0)), ("nll", (0.0, 1.5)), ("recovered", (-0.5, 1.5)), ("overlap", (0.0, 1.0))],
)
def test_ends_are_cut_to_what_the_metric_can_be(metric: str, ends: tuple[float, float]) -> None:
    assert cut(metric, -0.5, 1.5) == ends
    assert np.isnan(cut(metric, np.nan, np.nan)).all()


def test_of_several_models_each_counts_by_the_mean_of_its_mask_seeds() -> None:
    values = {("m0", 0): 0.8, ("m0", 1): 0.9, ("m1", 0): 0.6, ("m1", 1): 0.7, ("m2", 0): 0.5}
    found = [seen(**GRAFT, model=m, seed=s, values={"accuracy": value}) for (m, s), value in values.items()]
    row = row_of(scores(found), metric="accuracy")
    assert row["seeds"] == 3 and row["mean"] == pytest.approx((0.85 + 0.65 + 0.5) / 3)
    assert row["mean"] != pytest.approx(np.mean(list(values.values())))  # the mean with equal weight for each run


def test_a_single_observation_keeps_the_interval_it_was_stored_with() -> None:
    hits = RIGHT.count("1")
    one = seen("ft", right=RIGHT, ends={"accuracy": wilson(hits, len(RIGHT))})
    row = row_of(scores([one]), metric="accuracy")
    assert (row["low"], row["high"]) == wilson(hits, len(RIGHT))
    assert np.isnan(row["sd"]) and row["seeds"] == 1 and row["localizer"] == ""


def test_a_state_that_several_runs_scored_counts_once() -> None:
    twice = [seen("ft", right=RIGHT), seen("ft", right=RIGHT)]
    assert len(once(twice)) == 1
    bare = seen(**GRAFT, values={"accuracy": 0.5})
    full = seen(**GRAFT, right=RIGHT)
    assert once([bare, full])[0].answers is not None


def test_a_localizer_that_was_asked_for_in_two_ways_has_two_names() -> None:
    ways = [seen(**GRAFT, right=RIGHT, search_fields={"steps": steps}) for steps in (25, 50)]
    assert [one.search for one in once(ways)] == [("stagewise", "steps=25"), ("stagewise", "steps=50")]


def test_a_difference_is_paired_by_example() -> None:
    """Both are wrong on the same four of ten examples; of the ten pairs, one differs."""
    other = "1" + "1" * 5 + "0" * 4
    a = seen(**GRAFT, right=other)
    b = seen("ft", right="0" + other[1:])
    row = row_of(paired([a, b], [("graft", "ft")]), metric="accuracy")
    assert row["value"] == pytest.approx(0.1) and row["over"] == "examples and seeds"
    assert (row["low"], row["high"]) == pytest.approx(tango(1, 0, 10))
    assert (row["localizer"], row["size"], row["n"]) == ("stagewise", 100, 10)


def test_a_difference_of_single_models_has_its_discordant_pairs() -> None:
    """What its p-value is made of; several seeds have Student's t."""
    a, b = seen(**GRAFT, right="1111110001"), seen("ft", right="0111110100")
    rows = paired([a, b], [("graft", "ft")])
    row = row_of(rows, metric="accuracy")
    assert (row["gained"], row["lost"]) == (2, 1)
    assert rows[rows["metric"] != "accuracy"][["gained", "lost"]].isna().all(axis=None)
    back = row_of(turned_round(rows), metric="accuracy")
    assert (back["gained"], back["lost"], back["value"]) == (1, 2, -row["value"])
    (p,) = p_values(**{f"{end}s": [row[end]] for end in ("value", "low", "high")}, **known_of(rows.loc[[row.name]]))
    assert p == pytest.approx(math.erfc(1 / math.sqrt(2 * 3)))
    more = seen(**GRAFT, seed=1, right=RIGHT)
    assert pd.isna(row_of(paired([a, more, b], [("graft", "ft")]), metric="accuracy")["gained"])
    bare = replace(b, answers=None, ends={"accuracy": wilson(6, 10)})
    assert pd.isna(row_of(paired([a, bare], [("graft", "ft")]), metric="accuracy")["gained"]), "nothing is paired"


def test_the_difference_of_a_method_and_itself_is_nothing() -> None:
    a, b = seen(**GRAFT, right=RIGHT), seen("ft", right=RIGHT)
    rows = paired([a, b], [("graft", "ft")])
    assert (rows[["value", "low", "high"]] == 0).all(axis=None) and (rows["debiased"].dropna() == 0).all()


def test_sides_of_other_sizes_or_recipes_are_not_compared() -> None:
    graft = seen(**GRAFT, right=RIGHT)
    small = seen("graft_movement", localizer="movement", size=10.0, requested_size="1%", right=RIGHT)
    assert paired([graft, small], [("graft", "graft_movement")]).empty
    other = seen("ft", right=RIGHT, recipe="adamw")
    assert paired([graft, other], [("graft", "ft")]).empty
    retrained = seen("graft_retrain", right=RIGHT, recipe="graft-retrain")
    assert len(paired([graft, retrained], [("graft_retrain", "graft")])) > 0


def test_a_model_without_a_region_meets_the_graft_of_every_size_with_predictions() -> None:
    small = seen("lora", recipe="lora", right=RIGHT[::-1])
    stored = [seen(**{**GRAFT, "size": size, "requested_size": str(size)}, right=RIGHT) for size in (50.0, 100.0)]
    bare = [
        seen(**{**GRAFT, "size": size, "requested_size": str(size)}, values={"accuracy": 0.5})
        for size in (200.0, 400.0)
    ]
    rows = paired([small, *bare, *stored], [("lora", "graft")])
    assert sorted(rows.loc[rows["metric"] == "accuracy", "size"]) == [50.0, 100.0]
    assert len(paired([small, *bare], [("lora", "graft")]).query("metric == 'accuracy'")) == 1


def test_a_region_whose_size_is_an_outcome_meets_the_next_larger_rival() -> None:
    learned = seen(localizer="learned", size=50.0, right=RIGHT)
    rivals = [
        seen("graft_movement", localizer="movement", size=size, requested_size=str(size), right=right)
        for size, right in ((10.0, "0000000000"), (100.0, "1111100000"), (300.0, "1111111111"))
    ]
    row = row_of(paired([learned, *rivals], [("graft", "graft_movement")]), metric="accuracy")
    assert row["value"] == pytest.approx(0.8 - 0.5) and row["size"] == 50


def test_without_predictions_and_ends_a_difference_has_no_interval() -> None:
    a = [seen(**GRAFT, seed=seed, values={"accuracy": value}) for seed, value in enumerate((0.8, 0.82, 0.78))]
    b = seen("graft_movement", localizer="movement", size=100.0, requested_size="10%", values={"accuracy": 0.7})
    row = row_of(paired([*a, b], [("graft", "graft_movement")]), metric="accuracy")
    assert row["over"] == "" and row["seeds"] == 3 and row["value"] == pytest.approx(0.1)
    assert np.isnan([row["low"], row["high"]]).all()


def test_without_predictions_intervals_over_examples_are_taken_unpaired() -> None:
    """Three seeds of 0.8 ± 0.03 against 0.7 ± 0.04 give 0.1 ± 0.05; equal seeds alone would suggest zero width."""
    ends = {"accuracy": (0.77, 0.83)}
    a = [seen(**GRAFT, seed=seed, values={"accuracy": 0.8}, ends=ends) for seed in range(3)]
    other = {"localizer": "movement", "size": 100.0, "requested_size": "10%"}
    b = seen("graft_movement", values={"accuracy": 0.7}, ends={"accuracy": (0.66, 0.74)}, **other)
    row = row_of(paired([*a, b], [("graft", "graft_movement")]), metric="accuracy")
    assert row["over"] == "examples and seeds, unpaired"
    assert (row["value"], row["low"], row["high"]) == pytest.approx((0.1, 0.05, 0.15))
    level = row_of(scores(a), metric="accuracy")
    assert (level["low"], level["high"]) == pytest.approx((0.77, 0.83))


def test_models_that_both_sides_have_are_paired() -> None:
    """A graft that is 0.1 better on each of two very different models is clearly better."""
    right = {"m0": "1" * 9 + "0", "m1": "1" * 3 + "0" * 7}
    less = {"m0": "1" * 8 + "00", "m1": "1" * 2 + "0" * 8}
    a = [seen(**GRAFT, model=model, right=text * 20) for model, text in right.items()]
    same = [seen("ft", model=model, right=text * 20) for model, text in less.items()]
    row = row_of(paired([*a, *same], [("graft", "ft")]), metric="accuracy")
    assert row["value"] == pytest.approx(0.1) and row["low"] > 0.05 and row["seeds"] == 2
    others = [replace(one, model=f"other-{one.model}") for one in same]
    row = row_of(paired([*a, *others], [("graft", "ft")]), metric="accuracy")
    assert row["value"] == pytest.approx(0.1) and row["low"] < -1, "models of their own are not paired"


def side_of(*values: float, first_seed: int = 0, draws: np.ndarray | None = None) -> Side:
    return {
        seed: [Scored(Interval(value, value - 0.02, value + 0.02), draws=draws)]
        for seed, value in enumerate(values, first_seed)
    }


def test_the_interval_over_seeds_and_examples_is_that_of_the_core() -> None:
    rng = np.random.default_rng(0)
    draws = [0.8 + 0.01 * rng.normal(size=1000) for _ in range(3)]
    values = (0.80, 0.83, 0.86)
    side = {seed: [Scored(Interval(v, 0, 1), draws=d)] for seed, (v, d) in enumerate(zip(values, draws, strict=True))}
    wanted = seeds_and_examples(values, float(np.mean(draws, axis=0).std(ddof=1)))
    found = mean_over_seeds(side, "accuracy")
    assert (found.value, found.low, found.high, found.sd) == pytest.approx(wanted[:4])
    assert found.high - found.low > 1.9 * 4.303 * 0.03 / np.sqrt(3) * 0.8, "a planted narrower interval is caught"
    stored = mean_over_seeds(side_of(*values), "accuracy")
    wanted = mean_of_intervals(values, np.array(values) - 0.02, np.array(values) + 0.02)
    assert (stored.low, stored.high) == pytest.approx(wanted[1:3])


def test_a_calibration_error_joins_the_intervals_of_its_seeds() -> None:
    errors = [(0.05, 0.01, 0.06, 0.03), (0.04, 0.0, 0.05, 0.02), (0.06, 0.02, 0.07, 0.05)]
    side = {seed: [Scored(Interval(*one), draws=np.full(50, 0.5))] for seed, one in enumerate(errors)}
    found = mean_over_seeds(side, "ece")
    value, low, high, debiased = np.array(errors).T
    wanted = mean_of_intervals(debiased, low, high)
    assert (found.value, found.debiased) == pytest.approx((0.05, debiased.mean()))
    assert (found.low, found.high) == pytest.approx((max(wanted.low, 0.0), wanted.high))
    without = {**side, 3: [Scored(Interval(0.05, np.nan, np.nan))]}
    assert np.isnan(mean_over_seeds(without, "ece").low), "one seed without an interval leaves none"


def test_seeds_that_do_not_belong_together_count_on_both_sides() -> None:
    a, b = (0.80, 0.83, 0.86), (0.70, 0.75)
    draws = np.random.default_rng(0).normal(0.8, 0.01, 500)
    found = difference_over_seeds(side_of(*a, draws=draws), side_of(*b, first_seed=7, draws=draws), "accuracy")
    wanted = seeds_and_examples(np.subtract.outer(a, b), 0.0)
    assert (found.value, found.low, found.high) == pytest.approx((0.83 - 0.725, wanted.low, wanted.high))
    one = difference_over_seeds(side_of(*a, draws=draws), side_of(0.70, first_seed=7, draws=draws), "accuracy")
    assert one.high - one.low == pytest.approx(np.ptp(seeds_and_examples(a, 0.0)[1:3]))
    same = difference_over_seeds(side_of(*a, draws=draws), side_of(*a, draws=draws), "accuracy")
    assert same[:3] == (0, 0, 0)


def test_what_an_example_adds_to_both_differences_cancels() -> None:
    """Grafts and models vary on the same examples: each difference is uncertain, but the change between them is not."""
    luck = 0.05 * np.random.default_rng(0).normal(size=1000)
    graft = side_of(0.80, 0.82, 0.81, draws=0.81 + luck)
    later = side_of(0.85, 0.87, 0.86, draws=0.86 + luck)
    tuned, tuned_later = side_of(0.83, draws=np.full(1000, 0.83)), side_of(0.93, draws=np.full(1000, 0.93))
    found = difference_of_differences((later, tuned_later), (graft, tuned), "accuracy")
    assert found.value == pytest.approx(-0.05) and found.low > -0.051 and found.high < -0.049
    alone = difference_over_seeds(later, tuned_later, "accuracy")
    assert alone.high - alone.low > 0.15
    others = side_of(0.80, 0.82, 0.81, first_seed=7, draws=0.81 + luck)
    apart = difference_of_differences((later, tuned_later), (others, tuned), "accuracy")
    assert apart.value == pytest.approx(-0.05) and np.isnan(apart.low), "other seeds are not paired"
    bare = difference_of_differences((side_of(0.85, 0.87, 0.86), tuned_later), (graft, tuned), "accuracy")
    assert bare.value == pytest.approx(-0.05) and np.isnan(bare.high), "no draws, no pairs"


def test_a_difference_of_calibration_errors_is_that_of_each_seed() -> None:
    rng = np.random.default_rng(3)
    texts = ["".join(rng.choice(["0", "1"], 80, p=[0.2, 0.8])) for _ in range(4)]
    a = [seen(**GRAFT, seed=seed, right=text) for seed, text in enumerate(texts[:3])]
    b = seen("ft", right=texts[3], sure=4.0)
    row = row_of(paired([*a, b], [("graft", "ft")]), metric="ece")
    assert b.answers is not None
    each = [
        metric_difference(one.answers.logits, b.answers.logits, b.answers.labels, "ece") for one in a if one.answers
    ]
    value, low, high, debiased, *_ = np.array(each).T
    wanted = mean_of_intervals(debiased, low, high)
    assert (row["value"], row["debiased"]) == pytest.approx((value.mean(), wanted.value))
    assert (row["low"], row["high"], row["over"]) == (
        pytest.approx(wanted.low), pytest.approx(wanted.high), "examples and seeds",
    )  # fmt: skip
    bare = replace(b, answers=None, debiased={}, ends={"ece": (0.0, 0.1)})
    row = row_of(paired([*a, bare], [("graft", "ft")]), metric="ece")
    assert np.isnan([row["low"], row["high"]]).all() and row["over"] == "", "a percentile interval is not shown"


@PROPERTY
@given(st.lists(st.floats(0.1, 0.9), min_size=2, max_size=6), st.floats(0.001, 0.1), st.randoms())
def test_the_order_of_seeds_does_not_matter(values: list[float], reach: float, order: Any) -> None:
    side = {seed: [Scored(Interval(v, v - reach, v + reach))] for seed, v in enumerate(values)}
    seeds = list(side)
    order.shuffle(seeds)
    mixed = {seed: side[seed] for seed in seeds}
    assert mean_over_seeds(mixed, "accuracy")[:5] == pytest.approx(mean_over_seeds(side, "accuracy")[:5])
    wide = mean_over_seeds(side, "nll")
    assert wide.low <= wide.value - reach * 0.999 and wide.high >= wide.value + reach * 0.999


def test_scores_of_three_seeds_are_as_uncertain_as_their_t_interval() -> None:
    """With ten thousand examples only the seeds vary: 80%, 83% and 86% are right."""
    n, labels = 10_000, np.zeros(10_000, np.int64)
    logits = []
    for right in (0.80, 0.83, 0.86):
        one = np.zeros((n, 2))
        one[:, 0] = np.where(np.arange(n) < right * n, 1.0, -1.0)
        logits.append(one)
    row = next(r for r in score_rows(logits, labels, TaskNote(name="a", labels=("no", "yes")), {}))
    assert row["metric"] == "accuracy" and row["mean"] == pytest.approx(0.83)
    half = 4.303 * 0.03 / np.sqrt(3)
    assert row["high"] - row["low"] == pytest.approx(2 * half, rel=0.1)


def ladder(*checked: float, tested: tuple[float, ...] = (0.6, 0.7, 0.8)) -> list[Observation]:
    """Return grafts of three sizes with these validation and test accuracies; the gain is 0.5 to 0.9 on both splits."""
    ends = [
        seen(method, split=split, values={"accuracy": value, "ece": 0.1})
        for split in ("validation", "test")
        for method, value in (("pretrained", 0.5), ("ft", 0.9), ("ft_scaled", 0.9))
    ]
    rows = []
    for place, (v, t) in enumerate(zip(checked, tested, strict=True)):
        region = {"localizer": "stagewise", "size": 10.0 ** (place + 1), "requested_size": f"{10**place}%"}
        for split, value in (("validation", v), ("test", t)):
            rows.append(seen(split=split, values={"accuracy": value, "ece": 0.04, "recovered": 0.5}, **region))
    return [*ends, *rows]


def test_the_size_is_chosen_on_validation_and_told_on_test() -> None:
    """95% of the gain from 0.5 to 0.9 is 0.88: the second size reaches it on validation, and test is not used."""
    row = row_of(recovered(ladder(0.7, 0.885, 0.9)), localizer="stagewise")
    assert row["size"] == 100 and row["reached"] and row["reached_on"] == "validation"
    assert (row["value"], row["accuracy"], row["value_ft"]) == pytest.approx((0.7, 0.7, 0.9))
    assert row["ece_less_ft"] == pytest.approx(-0.06) and row["ece_ft_scaled"] == pytest.approx(0.1)


def test_just_below_the_share_is_not_reached() -> None:
    assert row_of(recovered(ladder(0.7, 0.879, 0.9)), localizer="stagewise")["size"] == 1000
    last = row_of(recovered(ladder(0.7, 0.8, 0.87)), localizer="stagewise")
    assert last["size"] == 1000 and not last["reached"] and last["reached_on"] == ""
    half = row_of(recovered(ladder(0.7, 0.8, 0.87), share=0.5), localizer="stagewise")
    assert half["size"] == 10 and half["reached"] and half["gain_share"] == 0.5


def test_where_validation_is_never_reached_test_may_be() -> None:
    """The fine-tuned model was chosen on validation, so its gain is inflated there and 0.88 is not reached."""
    row = row_of(recovered(ladder(0.7, 0.8, 0.87, tested=(0.6, 0.88, 0.9))), localizer="stagewise")
    assert (row["size"], row["reached"], row["reached_on"]) == (100, True, "test")
    row = row_of(recovered(ladder(0.7, 0.8, 0.88, tested=(0.6, 0.88, 0.9))), localizer="stagewise")
    assert (row["size"], row["reached_on"]) == (1000, "validation")


def test_without_a_gain_there_is_no_size_that_recovers_it() -> None:
    flat = [one for one in ladder(0.7, 0.8, 0.9) if one.method != "ft"]
    assert recovered([*flat, seen("ft", split="validation", values={"accuracy": 0.5})]).empty


def test_a_gain_that_may_be_chance_on_test_is_none() -> None:
    """The fine-tuned model has 104 of 200 examples right and the base 100, on other examples: no gain is shown."""
    found = [one for one in ladder(0.7, 0.885, 0.9) if one.split == "validation" or one.method == "graft"]
    base = seen("pretrained", right="10" * 100)
    assert recovered([*found, base, seen("ft", right="01" * 96 + "1" * 8)]).empty
    chance = [*found, base, seen("ft", right="01" * 96 + "1" * 8)]
    (said,) = without_gain(chance)
    assert said.startswith("Fine-tuning gains nothing beyond chance on sst2: there is no gain")
    better = [*found, base, seen("ft", right="1" * 200)]
    assert len(recovered(better)) == 1 and without_gain(better) == []
    other = [replace(one, recipe="bitfit") for one in chance]
    (said,) = without_gain([*better, *other])
    assert "(bitfit, all)" in said and "sgd" not in said, "the other model of the task has its row"
    assert without_gain([one for one in chance if one.method != "ft"]) == [], "no fine-tuned model was scored"


def test_histograms_count_every_example_once_and_average_seeds() -> None:
    found = [
        seen("ft", right=RIGHT, sure=5.0),
        seen(**GRAFT, seed=0, right=RIGHT, sure=0.2),
        seen(**GRAFT, seed=1, right="1" * 10, sure=5.0),
    ]
    frame = histogram(found)
    assert frame.groupby("state")["count"].sum().to_dict() == {"finetuned": 10, "grafted": 10}
    assert set(frame.loc[frame["state"] == "grafted", "share"]) == {0.1} and frame["share"].isna().any()
    top = frame[(frame["high_edge"] == 1.0) & (frame["state"] == "grafted")].iloc[0]
    assert top["count"] == 5 and top["correct"] == 5  # one of the two seeds; its bin has all ten examples
    assert frame[frame["state"] == "finetuned"]["correct"].sum() == RIGHT.count("1")
